"""Variables that run over something several times are split: of `i % n`, where i goes to q n, the period becomes a loop, and the place in
it another.

In: stores. Out: the same, in which an index that was computed by division is a variable, and a row of what is repeated is a row in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dims import Dim, Size, exact_div
from anyshape.dtypes import I64
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Affine, Constant, Dag, DagNode, LoopIndex, LoopVar, Operation, SizeValue, affine
from anyshape.lower.ir.stores import Store, below

LEAST = 16
"""The least places of a period, where their number is known: fewer fill no vector, and `written_out.py` has its own tiles of them."""


def split_periods(dag: Dag, stores: Sequence[Store]) -> list[Store]:
    """Splits one variable after the other; of several divisors the first that divides its extent."""
    while True:
        period_of = next((period for n in below(stores) if (period := _period(n)) is not None), None)
        if period_of is None:
            return [*stores]
        rebuilt = _PeriodCopies(dag, *period_of)
        stores = [rebuilt.store(s) for s in stores]


def _period(node: DagNode) -> tuple[LoopVar, Size, Size] | None:
    """The variable, the number of its periods and of the places of each, if a node is the place in a period."""
    match node:
        case Operation("mod", (LoopIndex(v), Constant(int() as n) | SizeValue(Dim() as n))):
            if isinstance(n, int) and n < LEAST:
                return None
            count = exact_div(v.extent, n, known_nonzero=True)  # where n is 0, the loop is empty
            return (v, count, n) if count is not None and count * n == v.extent else None
    return None


class _PeriodCopies(Rebuild):
    """Copies in which v is period * n + place; of a single period, place alone."""

    def __init__(self, dag: Dag, v: LoopVar, count: Size, n: Size) -> None:
        place = v if count == 1 else dag.variable(n)
        parts: list[tuple[LoopVar, Size]] = [(place, 1)] if count == 1 else [(dag.variable(count), n), (place, 1)]
        self.v, self.parts = v, parts
        by = dag.dim(n, I64)
        of_v = {name: dag.op(name, I64, dag.var(v, I64), by) for name in ("mod", "floordiv")}
        period = dag.const(0, I64) if count == 1 else dag.var(parts[0][0], I64)
        super().__init__(dag, {of_v["mod"]: dag.var(place, I64), of_v["floordiv"]: period})
        self.terms: dict[DagNode, list[tuple[LoopVar, Size]]] = {
            of_v["mod"]: parts[-1:],
            of_v["floordiv"]: [(w, 1) for w, _ in parts[:-1]],
        }
        if count != 1:
            start = dag.op("mul", I64, period, by)
            self.memo[dag.var(v, I64)] = dag.op("add", I64, start, dag.var(place, I64))

    def variables(self, vs: tuple[LoopVar, ...]) -> tuple[LoopVar, ...]:
        return tuple(w for v in vs for w in ([p for p, _ in self.parts] if v is self.v else [v]))

    def affine(self, x: Affine) -> Affine:
        terms = [(w, k * m) for v, k in x.terms for w, m in (self.parts if v is self.v else [(v, 1)])]
        terms += [(w, k * m) for n, k in x.lets for w, m in self.terms.get(n, ())]
        return affine(terms, x.offset, [(self.node(n), k) for n, k in x.lets if n not in self.terms])
