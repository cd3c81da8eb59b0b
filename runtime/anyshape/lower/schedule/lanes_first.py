"""What the lanes of a vector need before the loops that do not change it.

In: the stores of a scope, and the planned scope. Out: stores in which short sums of looked-up elements are written out, so that each turn's
place and weight are values of their own; a scope whose vector is outside of the loops that leave the places of its lanes alone: samples of
a row are at the same columns in all rows and channels, so that columns and weights are computed once for all of them, and held in registers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Affine, Dag, DagNode, Load, LoopIndex, LoopVar, Reduction, affine, walk
from anyshape.lower.ir.stores import Store, below, reductions_of
from anyshape.lower.schedule.tree import Scope

TURNS = 16
"""The most turns of a sum that are written out: four by four."""


def write_out_lookups(dag: Dag, stores: Sequence[Store]) -> list[Store]:
    """The stores with sums of a few elements, each at a computed place of its own, written out."""
    written: dict[DagNode, DagNode] = {}
    for r in reductions_of(stores):
        if _is_short(r) and any(_looks_up(n, r) for n in walk([r.body])):
            body = Rebuild(dag, written).node(r.body)
            terms = [_Turn(dag, dict(zip(r.variables, places))).node(body) for places in _places(r)]
            total = terms[0]
            for term in terms[1:]:
                total = dag.op("add", r.dtype, total, term)
            written[r] = total
    return [Rebuild(dag, written).store(s) for s in stores] if written else list(stores)


def _is_short(r: Reduction) -> bool:
    extents = [v.extent for v in r.variables]
    numbers = [n for n in extents if isinstance(n, int) and n > 0]
    return r.kind == "sum" and len(numbers) == len(extents) and math.prod(numbers) <= TURNS and r.body.dtype == r.dtype


def _looks_up(n: DagNode, r: Reduction) -> bool:
    return isinstance(n, Load) and any(v in let.domain for let, _ in n.access.address.lets for v in r.variables)


def _places(r: Reduction) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*(range(v.extent) for v in r.variables if isinstance(v.extent, int)))


class _Turn(Rebuild):
    """Copies of nodes for one turn of a sum."""

    def __init__(self, dag: Dag, numbers: Mapping[LoopVar, int]) -> None:
        super().__init__(dag)
        self.numbers = numbers

    def affine(self, x: Affine) -> Affine:
        terms = [(v, c) for v, c in x.terms if v not in self.numbers]
        offset = x.offset
        for v, c in x.terms:
            if v in self.numbers:
                offset = offset + c * self.numbers[v]
        return affine(terms, offset, [(self.node(n), c) for n, c in x.lets])

    def _node(self, n: DagNode) -> DagNode:
        if isinstance(n, LoopIndex) and n.variable in self.numbers:
            return self.dag.const(self.numbers[n.variable], n.dtype)
        return super()._node(n)


def lanes_first(scope: Scope) -> Scope:
    """The scope with its vector outside of the innermost loops that change none of the computed places of its lanes: as many of them as have
    some iterations, and no more, so that what they read and write stays in the caches from one vector to the next."""
    v = scope.vector
    if v is None or scope.fills or scope.transposed is not None or scope.windows is not None:
        return scope
    loads = [n for n in below(scope.stores) if isinstance(n, Load)]
    places = [let for n in loads for let, _ in n.access.address.lets if v in let.domain]
    changing = frozenset((v,)).union(*(let.domain for let in places))
    inner: list[LoopVar] = []
    turns = 1
    for w in reversed(scope.variables):
        if w not in changing and turns < TURNS:
            inner.insert(0, w)
            turns *= w.extent if isinstance(w.extent, int) else TURNS
    if not places or not inner:
        return scope
    outer = tuple(w for w in scope.variables if w is not v and w not in inner)
    return replace(scope, variables=(*outer, v), steps=[Scope(tuple(inner), None, scope.steps)])
