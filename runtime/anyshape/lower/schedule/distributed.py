"""Factors taken out of the sums that they do not vary in: sum(a[k] * w[k] * s[k // 32]) is a sum over blocks of s times 32 products' sum.

In: a sum of a product. Out: the same as a sum of sums, if a factor varies with some of its variables alone: what scales a block of
weights is multiplied once for each block, and not once for each weight. Where both are numbers they are equal but for rounding; where the
sum of sums is infinite or NaN, the sum may be another infinity, NaN or a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Dag, DagNode, Operation, Reduction
from anyshape.lower.ir.stores import Store


@dataclass(frozen=True, eq=False, slots=True)
class Distributed:
    """A sum of sums, and the stores with it in place of the sum."""

    value: DagNode
    stores: tuple[Store, ...]


def distributed(dag: Dag, stores: tuple[Store, ...], total: Reduction) -> Distributed | None:
    """The sum with factors outside of the sums that they do not vary in; None if there is no such factor."""
    nested = _nested(dag, total)
    if nested is total:
        return None
    rebuild = Rebuild(dag, {total: nested})
    return Distributed(nested, tuple(rebuild.store(s) for s in stores))


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
