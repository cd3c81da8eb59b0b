"""Merges loops that walk memory as one: (a, b) becomes one loop of extent a*b where every access agrees.

In: stores. Out: stores over fewer variables. The test is equality of polynomials: coefficient(a) == coefficient(b) * extent(b) in every
load and store, and both or neither in every reduction and every output. An affine index with a check needs no loop of its own: it is in
range wherever it is at both ends, which are checked in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anyshape import dims
from anyshape.dims import Size
from anyshape.lower.ir.dag import (
    Access,
    Affine,
    Dag,
    DagNode,
    IndexBound,
    Load,
    LoopIndex,
    LoopVar,
    Operation,
    Reduction,
    affine,
)
from anyshape.lower.ir.stores import Store, below

Stages = list[list[Store]]


def collapse(dag: Dag, stages: Stages, apart: frozenset[LoopVar] = frozenset()) -> Stages:
    """Merges pairs until none is left. A variable of `apart`, or that is a value, in a mask or with a computed index, stays."""
    while True:
        pair = _find(stages, apart)
        if pair is None:
            return stages
        stages = _merge(dag, stages, *pair)


def _find(stages: Stages, apart: frozenset[LoopVar]) -> tuple[LoopVar, LoopVar] | None:
    stores = [s for stage in stages for s in stage]
    nodes = below(stores)
    accesses = [s.access for s in stores] + [n.access for n in nodes if isinstance(n, Load)]
    orders = [s.variables for s in stores] + [n.variables for n in nodes if isinstance(n, Reduction)]
    fixed = apart | {n.variable for n in nodes if isinstance(n, LoopIndex)} | _tested(accesses)
    sets = [frozenset(order) for order in orders]
    for a, b in _pairs(orders, fixed):
        if all((a in s) == (b in s) for s in sets) and all(_agrees(x.address, a, b) for x in accesses):
            return a, b
    return None


def _tested(accesses: Iterable[Access]) -> set[LoopVar]:
    """Variables of indices that are tested position by position."""
    tests = (b for x in accesses for b in (*x.bounds, *(b for b in x.checks if not _is_straight(b))))
    return {v for b in tests for v, _ in b.index.terms}


def _pairs(orders: Iterable[Sequence[LoopVar]], fixed: frozenset[LoopVar]) -> dict[tuple[LoopVar, LoopVar], None]:
    """Pairs of variables of one loop nest, in the order in which they come first."""
    free = ([v for v in order if v not in fixed] for order in orders)
    return {(a, b): None for order in free for a in order for b in order if a is not b}


def _agrees(address: Affine, a: LoopVar, b: LoopVar) -> bool:
    ca, cb = address.coefficient(a), address.coefficient(b)
    return bool(ca == cb * b.extent)


def _is_straight(b: IndexBound) -> bool:
    """Whether an index has its least and its greatest value where all its variables have."""
    return b.guard is None and not b.index.lets and all(_ends(v, c) is not None for v, c in b.index.terms)


def _ends(v: LoopVar, c: Size) -> tuple[Size, Size] | None:
    """The least and the greatest c * v, if it is known which is which."""
    last = (v.extent - 1) * c
    return (0, last) if dims.ge(c, 0) is True else (last, 0) if dims.le(c, 0) is True else None


def _at_ends(b: IndexBound, gone: tuple[LoopVar, ...]) -> tuple[IndexBound, ...]:
    """Replaces a check by checks without those variables, which hold where it holds for all their values."""
    low = high = b.index.offset
    for v, c in b.index.terms:
        ends = _ends(v, c) if v in gone else (0, 0)
        assert ends is not None
        low, high = low + ends[0], high + ends[1]
    rest = [(v, c) for v, c in b.index.terms if v not in gone]
    asked = (high,) if not rest and dims.ge(low, 0) is True else dict.fromkeys((low, high))
    return tuple(IndexBound(affine(rest, offset), b.extent, b.error) for offset in asked)


def _merge(dag: Dag, stages: Stages, a: LoopVar, b: LoopVar) -> Stages:
    c = dag.variable(a.extent * b.extent)
    return _Renaming(dag, a, b, c).stages(stages)


class Rebuild:
    """Copies of nodes and stores with some nodes replaced."""

    def __init__(self, dag: Dag, replaced: dict[DagNode, DagNode] | None = None) -> None:
        self.dag = dag
        self.memo: dict[DagNode, DagNode] = dict(replaced or {})

    def store(self, s: Store) -> Store:
        return Store(self.access(s.access), self.node(s.value), self.variables(s.variables))

    def variables(self, vs: tuple[LoopVar, ...]) -> tuple[LoopVar, ...]:
        return vs

    def affine(self, x: Affine) -> Affine:
        return affine(x.terms, x.offset, [(self.node(n), k) for n, k in x.lets]) if x.lets else x

    def bound(self, b: IndexBound) -> IndexBound:
        return IndexBound(self.affine(b.index), b.extent, b.error, None if b.guard is None else self.node(b.guard))

    def access(self, x: Access) -> Access:
        bounds, checks = (tuple(self.bound(b) for b in bs) for bs in (x.bounds, x.checks))
        return Access(x.tensor, self.affine(x.address), bounds, checks)

    def node(self, n: DagNode) -> DagNode:
        rebuilt = self.memo.get(n)
        if rebuilt is None:
            rebuilt = self.memo[n] = self._node(n)
        return rebuilt

    def _node(self, n: DagNode) -> DagNode:
        match n:
            case Load(access):
                return self.dag.load(self.access(access))
            case Operation(name, args):
                return self.dag.op(name, n.dtype, *map(self.node, args))
            case Reduction(kind, variables, body):
                return self.dag.red(kind, self.variables(variables), self.node(body), n.dtype)
        return n


class Numbered(Rebuild):
    """Copies in which variables have values."""

    def __init__(self, dag: Dag, replaced: dict[DagNode, DagNode], numbers: Mapping[LoopVar, int]) -> None:
        super().__init__(dag, replaced)
        self.numbers = numbers

    def affine(self, x: Affine) -> Affine:
        terms = [(v, c) for v, c in x.terms if v not in self.numbers]
        offset = x.offset
        for v, c in x.terms:
            if v in self.numbers:
                offset = offset + c * self.numbers[v]
        return affine(terms, offset, [(self.node(n), k) for n, k in x.lets])

    def _node(self, n: DagNode) -> DagNode:
        if isinstance(n, LoopIndex) and n.variable in self.numbers:
            return self.dag.const(self.numbers[n.variable], n.dtype)
        return super()._node(n)


class _Renaming(Rebuild):
    """Copies in which b is replaced by c, and a is dropped."""

    def __init__(self, dag: Dag, a: LoopVar, b: LoopVar, c: LoopVar) -> None:
        super().__init__(dag)
        self.a, self.b, self.c = a, b, c

    def stages(self, stages: Stages) -> Stages:
        return [[self.store(s) for s in stage] for stage in stages]

    def access(self, x: Access) -> Access:
        gone = (self.a, self.b)
        checks = [
            end for b in x.checks for end in (_at_ends(b, gone) if any(v in gone for v, _ in b.index.terms) else (b,))
        ]
        return super().access(Access(x.tensor, x.address, x.bounds, tuple(checks)))

    def variables(self, vs: tuple[LoopVar, ...]) -> tuple[LoopVar, ...]:
        return tuple(self.c if v is self.b else v for v in vs if v is not self.a)

    def affine(self, x: Affine) -> Affine:
        terms = [(self.c if v is self.b else v, k) for v, k in x.terms if v is not self.a]
        return affine(terms, x.offset, [(self.node(n), k) for n, k in x.lets])
