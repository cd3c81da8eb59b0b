"""Rows of a product that are either of two variables: the longer one, whichever it is when the kernel runs.

Several heads of queries that read the same keys are as many rows of one product as queries are; the loops over them do not merge where a
mask, or the order in which heads lie, tells one from the other. A product has its rows along one variable and goes through the values of
the other one after the other, each time reading all columns. Of one query these are read once for each head if its rows are queries, and
once in all if its rows are heads.

In: the stores of a component, before it is cut into phases. Out: the same stores, over the longer of the two variables inside, and the
shorter one outside: their steps and values are chosen by the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import I64
from anyshape.equations import Tensor
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Affine, Dag, DagNode, LoopIndex, LoopVar, affine
from anyshape.lower.ir.stores import Store, reductions_of
from anyshape.lower.schedule.factors import contraction, factors_of, plain_access


def with_longer_rows(dag: Dag, stores: list[Store], constants: frozenset[Tensor]) -> list[Store]:
    """The stores over the longer of two variables of rows, if all products in them have the same two, and which is longer is not known to
    be the inner one."""
    pair = _pair(stores, constants)
    if pair is None:
        return stores
    outer, inner = pair
    if dims.ge(inner.extent, outer.extent) is True:
        return stores
    exchange = _Exchange(dag, outer, inner)
    return [exchange.store(s) for s in stores]


def _pair(stores: Sequence[Store], constants: frozenset[Tensor]) -> tuple[LoopVar, LoopVar] | None:
    """The two variables that one factor of every product has and the other one lacks, those around first. A constant is packed ahead of all
    calls, and its products stay as they are."""
    products = [r for r in reductions_of(stores) if contraction(r) is not None]
    common: frozenset[frozenset[LoopVar]] | None = None
    for r in products:
        a, b = factors_of(r)
        if any(x is not None and x.tensor in constants for x in map(plain_access, (a, b))):
            return None
        own = frozenset((a.domain - b.domain, b.domain - a.domain))
        common = own if common is None else common & own
    for both in sorted(common or (), key=lambda vs: sorted(v.number for v in vs)):
        if len(both) == 2 and all(both <= s.domain and not _lies_along(s, both) for s in stores):
            outer, inner = (v for v in stores[0].variables if v in both)
            return outer, inner
    return None


def _lies_along(s: Store, both: frozenset[LoopVar]) -> bool:
    """Whether the elements of a store are adjacent along one of the variables: those are columns."""
    return any(c == 1 for v, c in s.access.address.terms if v in both)


class _Exchange(Rebuild):
    """Copies over two other variables, the longer and the shorter of two, each being one or the other of them."""

    def __init__(self, dag: Dag, outer: LoopVar, inner: LoopVar) -> None:
        super().__init__(dag)
        self.outer, self.inner = outer, inner
        self.stays = dims.ge(inner.extent, outer.extent)
        self.shorter = dag.variable(dims.select(self.stays, outer.extent, inner.extent))
        self.longer = dag.variable(dims.select(self.stays, inner.extent, outer.extent))

    def variables(self, vs: tuple[LoopVar, ...]) -> tuple[LoopVar, ...]:
        of = {self.outer: self.shorter, self.inner: self.longer}
        return tuple(of.get(v, v) for v in vs)

    def affine(self, x: Affine) -> Affine:
        of_outer, of_inner = x.coefficient(self.outer), x.coefficient(self.inner)
        terms = [(v, c) for v, c in x.terms if v not in (self.outer, self.inner)]
        terms.append((self.shorter, dims.select(self.stays, of_outer, of_inner)))
        terms.append((self.longer, dims.select(self.stays, of_inner, of_outer)))
        return affine(terms, x.offset, [(self.node(n), k) for n, k in x.lets])

    def _node(self, n: DagNode) -> DagNode:
        if isinstance(n, LoopIndex) and n.variable in (self.outer, self.inner):
            of_inner = n.variable is self.inner
            terms = [(self.longer, self._chosen(of_inner)), (self.shorter, self._chosen(not of_inner))]
            parts = [self.dag.op("mul", I64, self.dag.var(v, I64), self.dag.dim(c, I64)) for v, c in terms if c != 0]
            return parts[0] if len(parts) == 1 else self.dag.op("add", I64, *parts)
        return super()._node(n)

    def _chosen(self, stays: bool) -> Size:
        """1 where the variables keep their order, and 0 where they do not; or the other way around."""
        return dims.select(self.stays, 1, 0) if stays else dims.select(self.stays, 0, 1)
