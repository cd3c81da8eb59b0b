"""Rows that are summed together because they share a factor: what one word of codes is, is found once for all rows of a group.

In: stores whose sums have dot products of words. Out: the scopes of groups of rows, of as many as registers hold sums of.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Affine, Dag, DagNode, LoopIndex, LoopVar, Operation
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.schedule.tree import RowGroups, Scope, plan

SIZES = (8, 4, 2, 1)
"""Rows of groups, the largest first. Eight have a vector of sums of words and one of floats each, which is half of 32 registers."""


def row_groups(dag: Dag, stores: list[Store], scope: Scope) -> RowGroups | None:
    """The groups of the rows of a scope; None if its rows share nothing that takes time."""
    vector = scope.vector
    if vector is None:
        return None
    rows = next((v for v in reversed(scope.variables) if v is not vector and _share_words(stores, v)), None)
    if rows is None:
        return None
    scopes = {count: plan([*_together(dag, stores, rows, count)], frozenset((rows,))) for count in SIZES}
    variables = tuple(v for v in scope.variables if v is not rows)
    if any(s.vector is not vector or set(s.variables) != set(variables) for s in scopes.values()):
        return None
    return RowGroups(rows, scopes)


def _share_words(stores: list[Store], rows: LoopVar) -> bool:
    """Whether the words of codes of all dot products are the same for all rows, and the others are not."""
    dots = [n for n in below(stores) if isinstance(n, Operation) and n.name == "dot"]
    return bool(dots) and all(rows not in codes.domain and rows in x.domain for codes, x in (n.args for n in dots))


def _together(dag: Dag, stores: list[Store], rows: LoopVar, count: int) -> Iterator[Store]:
    """The stores of a row and of those that follow it."""
    for number in range(count):
        further = _Further(dag, rows, number)
        for s in stores:
            row = further.store(s)
            yield Store(row.access, row.value, tuple(v for v in s.variables if v is not rows))


class _Further(Rebuild):
    """Copies in which a variable is so many positions further on."""

    def __init__(self, dag: Dag, variable: LoopVar, steps: int) -> None:
        super().__init__(dag)
        self.variable, self.steps = variable, steps

    def affine(self, x: Affine) -> Affine:
        moved = super().affine(x)
        return Affine(moved.terms, moved.offset + x.coefficient(self.variable) * self.steps, moved.lets)

    def _node(self, n: DagNode) -> DagNode:
        if isinstance(n, LoopIndex) and n.variable is self.variable:
            return self.dag.op("add", n.dtype, n, self.dag.const(self.steps, n.dtype))
        return super()._node(n)
