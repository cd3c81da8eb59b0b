"""Floats to integers of 64 bits by shifting their mantissas, for vectors of processors that convert them one by one.

In: a vector of f32 or f64. Out: integers of 64 bits; what does not fit is the nearest end of the range, NaN 0.

A mantissa with its leading bit at the top is shifted to the right by what the exponent is less than that of the largest integers. A count
of 64 and more gives 0, as it should for numbers below 1; a negative one tells that the number is out of range.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.interleaving import concatenated
from anyshape.lower.llvm.types import I64, Val, const

_LANES = 4
"""Integers of 64 bits in a vector."""
_STORED = {32: 23, 64: 52}
"""Bits of a mantissa without the leading one, by those of a float."""


def shifts_mantissas(f: FunctionBuilder, lanes: int) -> bool:
    """Whether an instruction shifts each lane by a count of its own, and none converts to integers of 64 bits."""
    return f.target.triple.startswith("x86_64") and f.target.vector_bytes == 32 and lanes % _LANES == 0


def integers_of_64(f: FunctionBuilder, a: Val, unsigned: bool) -> Val:
    """Integers toward zero."""
    stored, bits = _STORED[a.type.bits], a.type.as_int()
    top = 63 if unsigned else 62
    zero = const(a.type, 0.0)
    number = f.select(f.compare("gt", a, zero) if unsigned else f.fcmp("ord", a, a), a, zero)
    raw = f.bitcast(number, bits)
    mantissa = f.or_(f.and_(raw, (1 << stored) - 1), 1 << stored)
    exponent = f.lshr(f.shl(raw, 1), stored + 1)
    bias = (1 << (bits.bits - stored - 2)) - 1
    count = f.sub(const(bits, bias + top), exponent)
    sign = None if unsigned else f.ashr(raw, bits.bits - 1)
    parts = []
    for at in range(0, a.type.lanes, _LANES):
        size, left = _part(f, mantissa, at), _part(f, count, at)
        size = f.call_intrinsic("llvm.x86.avx2.psrlv.q.256", size.type, [f.shl(size, top - stored), left])
        end = const(size.type, -1)
        if sign is not None:
            end, size = _signed(f, const(size.type, (1 << 63) - 1), size, _part(f, sign, at))
        parts.append(f.select(f.compare("lt", left, 0), end, size))
    return concatenated(f, parts)


def _part(f: FunctionBuilder, a: Val, at: int) -> Val:
    """Some lanes of a vector, as integers of 64 bits."""
    part = a if a.type.lanes == _LANES else f.shuffle(a, None, [*range(at, at + _LANES)])
    return f.convert("sext", part, I64)


def _signed(f: FunctionBuilder, most: Val, size: Val, sign: Val) -> tuple[Val, Val]:
    """The end of the range, and a magnitude, on the side that a sign (0 or -1) tells."""
    return f.xor(most, sign), f.sub(f.xor(size, sign), sign)
