"""Scales of narrow numbers that a product multiplies: taken out of its columns, which are then read as memory holds them.

In: a contraction. Out: the same sums with a scale as a factor of them, where it is the same for all terms of a sum, or of the other factor,
where it is the same for all columns; None where neither is so, or there is no such scale. Scales are finite constants: another one may
be infinite, and 0 times it is not the sum of what 0 times it is.
"""

from __future__ import annotations

import math
from collections.abc import Set

from anyshape.equations import Tensor
from anyshape.kernel_model.contractions import scaled_numbers
from anyshape.lower.ir.dag import Constant, Dag, DagNode, Load, Reduction
from anyshape.lower.ir.terms import NODES
from anyshape.lower.schedule.factors import plain_access


def with_scales_apart(dag: Dag, r: Reduction, scales: Set[Tensor]) -> DagNode | None:
    """The sum with one scale less among the terms."""
    a, b = r.body.inputs
    for factor, other in ((b, a), (a, b)):
        scaled = scaled_numbers(NODES, factor)
        if scaled is None or plain_access(scaled.numbers) is None:
            continue
        numbers, scale = scaled.numbers, scaled.scale
        if not _is_scale(scale, scales):
            continue
        if not scale.domain & frozenset(r.variables):
            return dag.op("mul", r.dtype, _sum(dag, r, other, numbers), scale)
        if not scale.domain & (factor.domain - other.domain):
            return _sum(dag, r, dag.op("mul", r.dtype, other, scale), numbers)
    return None


def _is_scale(n: DagNode, scales: Set[Tensor]) -> bool:
    """Whether a value is a finite constant, in memory or in the code."""
    match n:
        case Load(access):
            return access.is_plain and access.tensor in scales
        case Constant(value):
            return math.isfinite(value)
    return False


def _sum(dag: Dag, r: Reduction, a: DagNode, b: DagNode) -> Reduction:
    """The sum of other products."""
    return dag.red(r.kind, r.variables, dag.op("mul", r.dtype, a, b), r.dtype)
