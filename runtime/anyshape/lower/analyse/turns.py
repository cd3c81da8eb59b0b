"""Variables that run over something several times are split: of `i % n`, where i goes to q n, the turn becomes a loop and the place in it.

In: stores. Out: the same, in which an index that was computed by division is a variable, and a row of what is repeated is a row in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dims import Size
from anyshape.dtypes import I64
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Affine, Constant, Dag, DagNode, LoopIndex, LoopVar, Operation, SizeValue, affine
from anyshape.lower.ir.stores import Store, below

LEAST = 16
"""The least places of a turn, where their number is known: fewer fill no vector, and `written_out.py` has its own tiles of them."""


def split_turns(dag: Dag, stores: Sequence[Store]) -> list[Store]:
    """Splits one variable after the other; of several divisors the first that divides its extent."""
    while True:
        found = next((turn for n in below(stores) if (turn := _turn(n)) is not None), None)
        if found is None:
            return [*stores]
        rebuilt = _Split(dag, *found)
        stores = [rebuilt.store(s) for s in stores]


def _turn(node: DagNode) -> tuple[LoopVar, Size, Size] | None:
    """The variable, the number of its turns and of the places of each, if a node is the place in a turn."""
    match node:
        case Operation("mod", (LoopIndex(v), Constant(int() as n) | SizeValue(n))):
            if v.extent == n or (isinstance(n, int) and n < LEAST):
                return None
            count = v.extent // n
            return (v, count, n) if count * n == v.extent else None
    return None


class _Split(Rebuild):
    """Copies in which v is turn * n + place."""

    def __init__(self, dag: Dag, v: LoopVar, count: Size, n: Size) -> None:
        self.v, self.n, self.turn, self.place = v, n, dag.variable(count), dag.variable(n)
        place, turn = dag.var(self.place, I64), dag.var(self.turn, I64)
        start = dag.op("mul", I64, turn, dag.dim(n, I64))
        super().__init__(dag, {dag.var(v, I64): dag.op("add", I64, start, place)})
        self.parts: dict[DagNode, LoopVar] = {}
        for name, part, value in (("mod", self.place, place), ("floordiv", self.turn, turn)):
            node = dag.op(name, I64, dag.var(v, I64), dag.dim(n, I64))
            self.parts[node], self.memo[node] = part, value

    def variables(self, vs: tuple[LoopVar, ...]) -> tuple[LoopVar, ...]:
        return tuple(w for v in vs for w in ((self.turn, self.place) if v is self.v else (v,)))

    def affine(self, x: Affine) -> Affine:
        terms = [t for v, k in x.terms for t in (((self.turn, k * self.n), (self.place, k)) if v is self.v else ((v, k),))]
        terms += [(self.parts[n], k) for n, k in x.lets if n in self.parts]
        return affine(terms, x.offset, [(self.node(n), k) for n, k in x.lets if n not in self.parts])
