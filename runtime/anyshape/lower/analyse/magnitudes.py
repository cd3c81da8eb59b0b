"""How large floats may be: a bound of what is computed of integers of few bits and of numbers.

In: a node. Out: a number that its magnitude does not exceed, which says that it is finite and no NaN too; or None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from anyshape.dtypes import F32
from anyshape.equations import Tensor
from anyshape.lower.ir.dag import Constant, DagNode, Load, Operation

MOST_BITS = 16
"""Bits of integers that f32 hold exactly, and sums of some of them, too."""
_ROUNDED = 1 + 2.0**-20
"""What one rounding makes of a bound, at most."""
_BOUNDED = frozenset(("cast", "add", "sub", "mul", "div", "neg", "abs", "round_even"))
_BEYOND = 2.0**100
"""Larger bounds are none: what is computed of such numbers may be infinite."""


def is_short_integer(n: DagNode) -> bool:
    """Whether a value is an integer of few bits."""
    return n.dtype.is_integer and not n.dtype.is_narrow and n.dtype.bits <= MOST_BITS


def largest(n: DagNode, magnitudes: Mapping[Tensor, float] = MappingProxyType({})) -> float | None:
    """The most that the magnitude of a value may be, by those of elements of some tensors; None if it may be infinite or NaN, or nothing is
    known."""
    bounds: dict[DagNode, float | None] = {}

    def bound_of(m: DagNode) -> float | None:
        if m not in bounds:
            operands = [bound_of(a) for a in m.args] if _is_bounded(m) and isinstance(m, Operation) else []
            bound = _bound(m, operands, magnitudes)
            bounds[m] = bound if bound is not None and bound <= _BEYOND else None
        return bounds[m]

    return bound_of(n)


def _is_bounded(n: DagNode) -> bool:
    """Whether an operation is one whose results are bounded if its operands are."""
    return isinstance(n, Operation) and n.dtype == F32 and n.name in _BOUNDED


def _bound(n: DagNode, operands: list[float | None], magnitudes: Mapping[Tensor, float]) -> float | None:
    match n:
        case Constant(number):
            return abs(float(number)) if math.isfinite(number) else None
        case Load(access) if access.tensor in magnitudes:
            return magnitudes[access.tensor]
        case Operation(name, args) if _is_bounded(n):
            bounds = [b for b in operands if b is not None]
            return _of(name, args, bounds) if len(bounds) == len(operands) else None
    if n.dtype.is_integer and not n.dtype.is_narrow:
        return 2.0 ** (n.dtype.bits - (n.dtype.kind == "int"))
    return None


def _of(name: str, args: tuple[DagNode, ...], bounds: list[float]) -> float | None:
    match name:
        case "add" | "sub":
            return sum(bounds) * _ROUNDED
        case "mul":
            return math.prod(bounds) * _ROUNDED
        case "div":
            divisor = args[1]
            return bounds[0] / bounds[1] * _ROUNDED if isinstance(divisor, Constant) and bounds[1] > 0 else None
        case "round_even":
            return bounds[0] + 1
    return bounds[0]
