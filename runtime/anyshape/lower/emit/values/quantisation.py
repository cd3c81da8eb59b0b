"""Floats to bytes and bytes to floats in fewer instructions, with the same bits: what scales and zero points come to.

In: nodes of the forms `cast(round_even(x) + zero)`, where the cast is to a byte, and `cast(byte) - cast(zero)`. Out: their values.

- A quotient by a positive number that is then rounded to an integer is a product with the reciprocal and what corrects it
  (`llvm/quotients.py`): a division of a vector takes several times as long. Where a product underflows, the integer is 0 either way.
- Floats are cut to what becomes a byte of the range before they are divided, unless they are known to be no larger than integers of 32
  bits. Then rounding and the conversion to an integer are one instruction, and the zero point is added to integers.
- Two or four vectors of integers become one of bytes by packing with saturation, twice, and one permutation.
- An integer of few bits less a zero point is the difference of two floats whose mantissas end with them: adding its bits to those of
  1.5 * 2 ** 23 takes any unit for integers, where a conversion takes one for floats; or a permutation puts bytes there. Of a byte that was
  rounded, with the same zero point added, it is the integer before that, cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from anyshape.dtypes import F32 as SINGLE
from anyshape.equations import Tensor
from anyshape.lower.analyse.magnitudes import is_short_integer, largest
from anyshape.lower.emit.values.lookups import from_byte_table, looked_up_byte
from anyshape.lower.ir.dag import Access, Constant, DagNode, Load, Operation
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.interleaved_chains import interleave_chains
from anyshape.lower.llvm.interleaving import concatenated
from anyshape.lower.llvm.quotients import is_plain, quotients
from anyshape.lower.llvm.saturation import (
    converts_to_nearest,
    cut_to_bytes,
    ends_of_bytes,
    nearest_integers,
    saturated_bytes,
    to_bytes,
)
from anyshape.lower.llvm.types import F32, I8, I32, Val, const, const_vector

if TYPE_CHECKING:
    from anyshape.lower.emit.values.value import Values

_BASE = 1.5 * 2**23
"""A float whose last bit is worth 1, as are those of all floats less than 2 ** 22 from it."""
_BASE_BITS = 0x4B400000
_UNSIGNED_BASE, _UNSIGNED_BASE_BITS = 2.0**23, 0x4B000000
"""The base of integers that are not below 0, of whose bits a byte is the integer."""
_SAFE = 2.0**30
"""The largest bound of floats that are converted to integers of 32 bits as they are."""
_TOGETHER = (2, 4)
"""Vectors of which one vector of bytes is made."""
_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "min", "max", "neg"))
_MOST_INTERLEAVED = 8
"""Operations of which the values of four vectors are in registers together."""


@dataclass(frozen=True, slots=True)
class QuantisedByte:
    """A byte: `value`, rounded to even, with `point` added, cut to its range; without a point nothing is added."""

    value: DagNode
    point: DagNode | None
    unsigned: bool

    def is_bounded(self, magnitudes: Mapping[Tensor, float]) -> bool:
        """Whether the value is converted to an integer as it is, by the magnitudes of some tensors."""
        most = largest(self.value, magnitudes)
        return most is not None and most <= _SAFE


def quantised_byte(n: DagNode) -> QuantisedByte | None:
    """The form of a byte that is a rounded float."""
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
    return QuantisedByte(value, point, n.dtype.kind == "uint") if value.dtype == SINGLE else None


def byte_value(values: Values, n: Operation, copy: int) -> Val | None:
    """The value of one vector of rounded bytes; None if it has another form, or is no vector."""
    lanes = values.lanes_of(values.varies(n))
    form = quantised_byte(n) if lanes and converts_to_nearest(values.f, lanes) else None
    if form is None:
        return None
    (integers,) = _integers(values, form, [copy])
    return to_bytes(
        values.f, integers, _point(values, form), form.unsigned, are_cut=not form.is_bounded(values.magnitudes)
    )


def store_bytes(values: Values, access: Access, n: DagNode, copies: range) -> bool:
    """Stores rounded bytes of several vectors, or what a table has for these, as one vector; returns whether it has: they have to lie side
    by side, without masks."""
    vector = values.vector
    if (
        vector is None
        or len(copies) not in _TOGETHER
        or any(vector.masks)
        or not values.varies(n)
        or not access.is_plain
    ):
        return False
    if access.address.coefficient(vector.variable) != 1 or not converts_to_nearest(values.f, vector.lanes):
        return False
    function = looked_up_byte(values, n, len(copies))
    byte = n if function is None else function.of
    form = quantised_byte(byte)
    if form is not None and all(values.levels.find((m, 0)) is None for m in (n, byte)):
        raw = saturated_bytes(values.f, _integers(values, form, copies), _point(values, form), form.unsigned)
    elif function is not None and values.f.target.picks_of_sixteen:
        raw = concatenated(values.f, [values.of(byte, copy) for copy in copies])
    else:
        return False
    if function is not None:
        raw = from_byte_table(values, n, function, raw)
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


def _integers(values: Values, form: QuantisedByte, copies: Sequence[int]) -> list[Val]:
    """The rounded values of several vectors; those beyond what becomes a byte may be others that are."""
    f, lanes = values.f, values.lanes_of(True)
    value, divisor = _dividend(values, form.value, copies)
    floats = [f.splat(v, lanes) for v in _interleaved(values, value, copies)]
    if not form.is_bounded(values.magnitudes):
        least, most, zero = (f.splat(end, lanes) for end in _ends(values, form, 1.0 if divisor is None else divisor))
        floats = [_cut(f, v, least, most, least if form.unsigned else zero) for v in floats]
    if divisor is not None:
        floats = quotients(f, floats, divisor)
    return [nearest_integers(f, v) for v in floats]


def _dividend(values: Values, n: DagNode, copies: Sequence[int]) -> tuple[DagNode, float | None]:
    """What a quotient divides, and the number by which it does; the value itself and None if it is no quotient by a plain number."""
    match n:
        case Operation("div", (dividend, Constant(number))) if values.f.target.fma and is_plain(number):
            divisor = float(np.float32(number))
            if n.dtype == SINGLE and is_plain(divisor) and values.levels.find((n, copies[0])) is None:
                return dividend, divisor
    return n, None


def _ends(values: Values, form: QuantisedByte, unit: float) -> tuple[Val, Val, Val]:
    """The least and the largest value, as multiples of a unit, that become other bytes than all below and above; and one that becomes 0."""
    f, point = values.f, _point(values, form)
    low, high = ends_of_bytes(form.unsigned)
    if point is None or form.point is None:
        return const(F32, low * unit), const(F32, high * unit), const(F32, 0.0)
    keys = [("ends", form.point, form.unsigned, unit, which) for which in range(3)]
    known = [end for k in keys if (end := values.levels.find(k)) is not None]
    if not known:
        with values.levels.at(values.levels.depth(form.point)):
            whole = (f.convert("sitofp", f.sub(const(I32, end), point), F32) for end in (low, high, 0))
            known = [values.levels.remember(k, f.mul(v, unit)) for k, v in zip(keys, whole, strict=True)]
    least, most, zero = known
    return least, most, zero


def _cut(f: FunctionBuilder, a: Val, least: Val, most: Val, of_nan: Val) -> Val:
    """Cuts floats to a range, and puts a number in the place of NaN."""
    cut = f.select(f.compare("gt", a, least), a, least)
    cut = f.select(f.compare("lt", cut, most), cut, most)
    return cut if of_nan is least else f.select(f.fcmp("uno", a, a), of_nan, cut)


def _interleaved(values: Values, n: DagNode, copies: Sequence[int]) -> list[Val]:
    """The values of several vectors, an operation of all of them after the other: instructions of one vector wait for each other, and one
    vector after the other takes a tenth longer."""
    steps = _arithmetic(n)
    if len(steps) <= _MOST_INTERLEAVED:
        for m in steps:
            for copy in copies if values.varies(m) else ():
                values.of(m, copy)
    chains = [partial(values.of, n, copy) for copy in copies]
    interleaves = values.f.target.interleaves_chains and values.varies(n)
    return interleave_chains(values.f, chains) if interleaves else [chain() for chain in chains]


def _arithmetic(n: DagNode) -> list[Operation]:
    """The operations of f32 that a value is computed by, of each other's results, operands first."""
    steps: dict[Operation, None] = {}

    def visit(m: DagNode) -> None:
        if isinstance(m, Operation) and m not in steps and m.dtype == SINGLE and m.name in _ARITHMETIC:
            for a in m.args:
                visit(a)
            steps[m] = None

    visit(n)
    return [*steps]


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
            depth = values.levels.depth(less)
            if values.varies(point) or depth >= values.levels.depth(number):
                return None
            rounded = _less_its_point(values, number, point, copy)
            if rounded is not None:
                return rounded
            moved, base = _beside_base(values.f, values.of(number, copy), number)
            key = ("base", less, base)
            known = values.levels.find(key)
            if known is None:
                with values.levels.at(depth):
                    known = values.levels.remember(key, values.f.add(values.of(less), base))
            return values.f.sub(moved, values.f.splat(known, lanes))
    return None


def _less_its_point(values: Values, n: DagNode, point: DagNode, copy: int) -> Val | None:
    """The value of a vector of rounded bytes less the point that was added to them: integers that are cut, as floats."""
    form = quantised_byte(n) if converts_to_nearest(values.f, values.lanes_of(True)) else None
    if form is None or form.point is not point or values.levels.find((n, copy)) is not None:
        return None
    (integers,) = _integers(values, form, [copy])
    if form.is_bounded(values.magnitudes):
        integers = cut_to_bytes(values.f, integers, _point(values, form), form.unsigned)
    return values.f.convert("sitofp", integers, F32)


def _beside_base(f: FunctionBuilder, number: Val, n: DagNode) -> tuple[Val, float]:
    """Floats that are integers more than a base of which the last bit is worth 1; and the base. Bytes of memory are permuted; those that
    are computed are integers of 32 bits before."""
    lanes, unsigned = number.type.lanes, n.dtype.kind == "uint"
    permuted = isinstance(n, Load) and f.target.permutes_bytes and 4 * lanes == f.target.vector_bytes
    if not (permuted and unsigned and n.dtype.bits == 8):
        wide = f.convert("zext" if unsigned else "sext", number, I32)
        return f.bitcast(f.add(wide, _BASE_BITS), F32.vector(lanes)), _BASE
    code = f.shuffle(number, None, [lane if lane < lanes else -1 for lane in range(4 * lanes)])
    frame = const_vector(I8, [*_UNSIGNED_BASE_BITS.to_bytes(4, "little")] * lanes)
    placed = [lane // 4 if lane % 4 == 0 else 4 * lanes + lane for lane in range(4 * lanes)]
    return f.bitcast(f.shuffle(code, frame, placed), F32.vector(lanes)), _UNSIGNED_BASE
