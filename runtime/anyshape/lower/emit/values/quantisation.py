"""Floats to bytes and bytes to floats in fewer instructions, with the same bits: what scales and zero points come to.

In: nodes of the forms `cast(round_even(x) + zero)`, where the cast is to a byte, and `cast(byte) - cast(zero)`. Out: their values.

- A quotient by a number that is then rounded to an integer is a product with the reciprocal and two multiply-adds, which correct it: a
  division of a vector takes several times as long. The correction gives the quotient's own rounding (P. Markstein) where nothing
  underflows; where something does, the integer is 0 either way. An infinite product is left as it is.
- Rounding and the conversion to an integer are one instruction, and the zero point is added to integers. What is beyond 32 bits becomes
  the lowest integer, so that the largest floats have to be cut before.
- Four vectors of integers become one of bytes by packing with saturation, twice, and one permutation.
- An integer of few bits less a zero point is the difference of two floats whose mantissas end with them: adding its bits to those of
  1.5 * 2 ** 23 takes any unit for integers, where a conversion takes one for floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anyshape.dtypes import F32 as SINGLE
from anyshape.lower.analyse.magnitudes import is_short_integer, largest
from anyshape.lower.ir.dag import Access, Constant, DagNode, Operation
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.saturation import converts_to_nearest, nearest_integers, saturated_bytes, to_bytes
from anyshape.lower.llvm.types import F32, I32, Val, const

if TYPE_CHECKING:
    from anyshape.lower.emit.values.value import Values

_BASE = 1.5 * 2**23
"""A float whose last bit is worth 1, as are those of all floats less than 2 ** 22 from it."""
_BASE_BITS = 0x4B400000
_PLAIN_DIVISORS = 2.0**-60, 2.0**60
"""Divisors of which neither the reciprocal nor what is left of a division underflows, unless the quotient is next to 0."""
_CUT = 2.0**30
"""A float that is an integer of 32 bits, and beyond all bytes with whatever zero point."""
_TOGETHER = 4
"""Vectors of which one vector of bytes is made."""
_INFINITE = 0x204
"""LLVM's number for the class of both infinities."""


@dataclass(frozen=True, slots=True)
class QuantisedByte:
    """A byte: `value`, rounded to even, with `point` added, cut to its range; without a point nothing is added."""

    value: DagNode
    point: DagNode | None
    unsigned: bool

    @property
    def bounded(self) -> bool:
        most = largest(self.value)
        return most is not None and most <= _CUT


def quantised_byte(n: DagNode) -> QuantisedByte | None:
    """The form of a byte that is a rounded float. NaN gives 0, which is an end of the range only without a sign."""
    if not (
        isinstance(n, Operation)
        and n.name == "cast"
        and n.dtype.is_integer
        and n.dtype.bits == 8
        and not n.dtype.is_narrow
    ):
        return None
    point: DagNode | None = None
    match n.args[0]:
        case Operation("round_even", (value,)):
            pass
        case Operation("add", (Operation("round_even", (value,)), Operation("cast", (point,)))) if (
            is_short_integer(point) and point.dtype.bits == 8 and not point.domain
        ):
            pass
        case _:
            return None
    form = QuantisedByte(value, point, n.dtype.kind == "uint")
    return form if value.dtype == SINGLE and (form.unsigned or form.bounded) else None


def byte_value(values: Values, n: Operation, copy: int) -> Val | None:
    """The value of one vector of rounded bytes; None if it has another form, or is no vector."""
    lanes = values.lanes_of(values.varies(n))
    form = quantised_byte(n) if lanes and converts_to_nearest(values.f, lanes) else None
    if form is None:
        return None
    return to_bytes(values.f, _integers(values, form, copy), _point(values, form), form.unsigned)


def store_bytes(values: Values, access: Access, n: DagNode, copies: range) -> bool:
    """Stores rounded bytes of several vectors as one; returns whether it has: they have to lie side by side, without masks."""
    vector = values.vector
    if vector is None or len(copies) != _TOGETHER or any(vector.masks) or not values.varies(n) or not access.is_plain:
        return False
    if access.address.coefficient(vector.variable) != 1 or not converts_to_nearest(values.f, vector.lanes):
        return False
    form = quantised_byte(n)
    if form is None or values.levels.find((n, 0)) is not None:
        return False
    integers = [_integers(values, form, copy) for copy in copies]
    raw = saturated_bytes(values.f, integers, _point(values, form), form.unsigned)
    values.f.store(raw, values.pointer(access.tensor, access.address), copies[0] * vector.lanes)
    return True


def _point(values: Values, form: QuantisedByte) -> Val | None:
    """The zero point as an integer of 32 bits."""
    if form.point is None:
        return None
    key = ("zero point", form.point)
    known = values.levels.find(key)
    if known is None:
        with values.levels.at(values.levels.depth(form.point)):
            widen = "zext" if form.point.dtype.kind == "uint" else "sext"
            known = values.levels.remember(key, values.f.convert(widen, values.of(form.point), I32))
    return known


def _integers(values: Values, form: QuantisedByte, copy: int) -> Val:
    f, lanes = values.f, values.lanes_of(True)
    value = f.splat(_quotient(values, form.value, copy), lanes)
    if not form.bounded:
        value = f.select(f.compare("gt", value, _CUT), _CUT, value)
    return nearest_integers(f, value)


def _quotient(values: Values, n: DagNode, copy: int) -> Val:
    """A value, or instead of a quotient by a number what is rounded to the same integer."""
    match n:
        case Operation("div", (dividend, Constant(number))) if values.f.target.fma and _is_plain(number):
            if values.levels.find((n, copy)) is None and dividend.dtype == SINGLE:
                return _corrected(values.f, values.of(dividend, copy), float(number), largest(n) is not None)
    return values.of(n, copy)


def _is_plain(divisor: float) -> bool:
    least, most = _PLAIN_DIVISORS
    return least <= abs(divisor) <= most


def _corrected(f: FunctionBuilder, a: Val, divisor: float, is_finite: bool) -> Val:
    reciprocal = const(a.type, float(np.float32(1) / np.float32(divisor)))
    product = f.mul(a, reciprocal)
    rest = f.fma(product, const(a.type, -divisor), a)
    quotient = f.fma(rest, reciprocal, product)
    if is_finite:
        return quotient
    infinite = f.call_intrinsic("llvm.is.fpclass", a.type.as_mask(), [product, const(I32, _INFINITE)], a.type.suffix)
    return f.select(infinite, product, quotient)


def difference(values: Values, n: Operation, copy: int) -> Val | None:
    """The value of a vector of integers of few bits less one that does not vary along the lanes, both as f32; None if it is none."""
    lanes = values.lanes_of(values.varies(n))
    match n:
        case Operation("sub", (Operation("cast", (number,)), Operation("cast", (point,)) as less)) if (
            lanes
            and n.dtype == SINGLE
            and is_short_integer(number)
            and is_short_integer(point)
            and values.varies(number)
        ):
            if values.varies(point) or values.levels.depth(less) >= values.levels.depth(number):
                return None
            f, key = values.f, ("base", less)
            base = values.levels.find(key)
            if base is None:
                with values.levels.at(values.levels.depth(less)):
                    base = values.levels.remember(key, f.add(values.of(less), _BASE))
            wide = f.convert("zext" if number.dtype.kind == "uint" else "sext", values.of(number, copy), I32)
            moved = f.bitcast(f.add(wide, _BASE_BITS), F32.vector(lanes))
            return f.sub(moved, f.splat(base, lanes))
    return None
