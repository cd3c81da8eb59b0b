"""Sums of dot products of words: while 16 bits hold them, two for each lane, else one of 32 bits.

In: a reduction whose body is `dot`. Out: what its sum begins with, the sum with two more words, and that as a number of 32 bits.
"""

from __future__ import annotations

import math

from anyshape.lower.emit.values.value import Values
from anyshape.lower.gemm import LARGEST_PRODUCT, add_dot, pairs_held, products_of_pairs, sums_of_pairs
from anyshape.lower.ir.dag import Constant, Operation, Reduction
from anyshape.lower.llvm.types import I16, Val, const

_LARGEST_WITH_SIGN = 128


def is_dot_sum(r: Reduction) -> bool:
    """Whether a reduction adds up dot products of words."""
    return r.kind == "sum" and isinstance(r.body, Operation) and r.body.name == "dot"


def start(values: Values, r: Reduction, lanes: int) -> Val | None:
    """Zeros of 16 bits, two for each lane, if these hold the whole sum; None if the sum begins as others do."""
    vector = values.vector
    if not lanes or vector is None or vector.variable in r.variables or not is_dot_sum(r) or values.f.target.dots:
        return None
    extents = [v.extent for v in r.variables if isinstance(v.extent, int)]
    if len(extents) < len(r.variables) or math.prod(extents) > pairs_held(values.f.target, lanes, _largest_product(r)):
        return None
    return const(I16.vector(2 * lanes), 0)


def added(values: Values, r: Reduction, total: Val, copy: int) -> Val:
    """The sum and the dot product of two words more."""
    assert isinstance(r.body, Operation)
    f, halves = values.f, _are_halves(total)
    lanes = total.type.lanes // 2 if halves else total.type.lanes
    unsigned, signed = (f.splat(w, lanes) if lanes else w for w in (values.of(a, copy) for a in r.body.args))
    if halves:
        return f.add(total, products_of_pairs(f, unsigned, signed))
    return add_dot(f, total, unsigned, signed, _largest_product(r))


def finished(values: Values, r: Reduction, total: Val) -> Val:
    """The sum, of whatever kind, as numbers of 32 bits."""
    return sums_of_pairs(values.f, total) if is_dot_sum(r) and _are_halves(total) else total


def _are_halves(total: Val) -> bool:
    return total.type.scalar == I16


def _largest_product(r: Reduction) -> int:
    """The largest product of two bytes: the first word may be masked, each byte alike."""
    assert isinstance(r.body, Operation)
    match r.body.args[0]:
        case Operation("bit_and", (_, Constant(int(mask)))):
            return max(mask.to_bytes(4, "little")) * _LARGEST_WITH_SIGN
    return LARGEST_PRODUCT
