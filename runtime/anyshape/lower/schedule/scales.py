"""Scales of narrow numbers that a product multiplies: taken out of its columns, which are then read as memory holds them.

In: a contraction. Out: the same sums with a scale as a factor of them, where it is the same for all terms of a sum, or of the other factor,
where it is the same for all columns; None where neither is so, or there is no such scale. Scales are finite constants: another one may
be infinite, and 0 times it is not the sum of what 0 times it is.
"""

from __future__ import annotations

from anyshape.kernel_model.contractions import QuantisationConstants, scaled_numbers
from anyshape.lower.ir.dag import Dag, DagNode, Reduction
from anyshape.lower.ir.terms import NODES
from anyshape.lower.schedule.factors import plain_access


def with_scales_apart(dag: Dag, r: Reduction, known: QuantisationConstants) -> DagNode | None:
    """The sum with one scale less among the terms."""
    a, b = r.body.inputs
    for factor, other in ((b, a), (a, b)):
        scaled = scaled_numbers(NODES, factor, known)
        if scaled is None or not _is_narrow(scaled.numbers):
            continue
        numbers, scale = scaled.numbers, scaled.scale
        if not scale.domain & frozenset(r.variables):
            return dag.op("mul", r.dtype, _sum(dag, r, other, numbers), scale)
        if not scale.domain & (factor.domain - other.domain):
            return _sum(dag, r, dag.op("mul", r.dtype, other, scale), numbers)
    return None


def _is_narrow(n: DagNode) -> bool:
    """Whether a product widens a value as it reads it."""
    access = plain_access(n)
    return access is not None and access.tensor.dtype is not n.dtype


def _sum(dag: Dag, r: Reduction, a: DagNode, b: DagNode) -> Reduction:
    """The sum of other products."""
    return dag.red(r.kind, r.variables, dag.op("mul", r.dtype, a, b), r.dtype)
