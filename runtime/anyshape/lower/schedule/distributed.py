"""Factors taken out of the sums that they do not vary in: sum(a[k] * w[k] * s[k // 32]) is a sum over blocks of s times 32 products' sum.

In: a sum of a product. Out: the same as a sum of sums, if a factor varies with some of its variables alone: what scales a block of
weights is multiplied once for each block, and not once for each weight. Where both are numbers they are equal but for rounding; where the
sum of sums is infinite or NaN, the sum may be another infinity, NaN or a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from anyshape.lower.analyse.collapse import Numbered, Rebuild
from anyshape.lower.ir.dag import Dag, DagNode, LoopVar, Operation, Reduction
from anyshape.lower.ir.stores import Store

MOST_TOGETHER = 8
"""Rows that are summed at once: two vectors of columns have an accumulator for each row in half of the registers. Of 2048 x 2048 weights
in 4 bits 8 rows take 0.29 ms so, and 0.42 with packed panels (`python -m benchmarks.nbits`)."""


@dataclass(frozen=True, eq=False, slots=True)
class Distributed:
    """A sum of sums, and the stores with it in place of the sum; `together`: those of the sum for 2, 3, ... rows at once."""

    value: DagNode
    stores: tuple[Store, ...]
    together: tuple[tuple[Store, ...], ...]


def distributed(dag: Dag, stores: tuple[Store, ...], total: Reduction, rows: LoopVar) -> Distributed | None:
    """The sum with factors outside of the sums that they do not vary in; None if there is no such factor. `rows`: the variable whose values
    share the other factors, which are computed once for all of few rows."""
    nested = _nested(dag, total)
    if nested is total:
        return None
    rebuild = Rebuild(dag, {total: nested})
    each = [tuple(_of_row(dag, s, rows, number) for s in stores) for number in range(MOST_TOGETHER)]
    together = tuple(tuple(s for row in each[:count] for s in row) for count in range(2, MOST_TOGETHER + 1))
    return Distributed(nested, tuple(rebuild.store(s) for s in stores), together)


def _of_row(dag: Dag, s: Store, rows: LoopVar, number: int) -> Store:
    numbered = Numbered(dag, {}, {rows: number}).store(s)
    return Store(numbered.access, numbered.value, tuple(v for v in s.variables if v is not rows))


def _nested(dag: Dag, total: Reduction) -> DagNode:
    own, factors = frozenset(total.variables), [*_factors(total.body)]
    inner = max((own - f.domain for f in factors), key=len)
    outside = [f for f in factors if f.domain.isdisjoint(inner)]
    inside = [f for f in factors if not f.domain.isdisjoint(inner)]
    if not (total.kind == "sum" and total.dtype.is_float and inner and inside):
        return total

    def multiplied(nodes: list[DagNode]) -> DagNode:
        return reduce(lambda a, b: dag.op("mul", total.dtype, a, b), nodes)

    partial = dag.red("sum", tuple(v for v in total.variables if v in inner), multiplied(inside), total.dtype)
    whole = multiplied([*outside, partial])
    outer = tuple(v for v in total.variables if v not in inner)
    return dag.red("sum", outer, whole, total.dtype) if outer else whole


def _factors(n: DagNode) -> Iterator[DagNode]:
    """The factors of a product, of products too."""
    if isinstance(n, Operation) and n.name == "mul":
        for a in n.args:
            yield from _factors(a)
    else:
        yield n
