"""Floats of at most 8 bits in vector code: their bytes to f32, exactly, and f32 to their bytes, rounded to even.

In: an open function, bytes (i8) or f32 of any lane count, the format. Out: the other. No table and no branch: a byte's exponent and
mantissa are f32's but for the bias, so that a product with a power of two sets them right, subnormal numbers included; on the way back
subnormal ones are rounded by an addition that leaves no room for what is too small.
"""

from __future__ import annotations

import math

from anyshape.dtypes import FloatFormat

from .builder import FunctionBuilder
from .types import F32, I8, I32, Val, const

_MANTISSA, _BIAS = 23, 127


def decode(f: FunctionBuilder, a: Val, format: FloatFormat) -> Val:
    """Bytes as f32."""
    z = f.convert("zext", a, I32)
    if not format.mantissa:
        return _power_of_two(f, z, format)
    high = format.exponent + format.mantissa
    magnitude = f.and_(z, (1 << high) - 1)
    bits = f.shl(magnitude, _MANTISSA - format.mantissa)
    scaled = f.mul(f.bitcast(bits, F32.vector(bits.type.lanes)), math.ldexp(1.0, _BIAS - format.bias))
    if format.over == format.largest:
        special = None
    elif format.unsigned_zero:
        special = f.select(f.compare("eq", z, format.nan), math.nan, scaled)
    else:
        beyond = const(scaled.type, math.nan)
        if format.over != format.nan:
            beyond = f.select(f.compare("eq", magnitude, format.over), math.inf, beyond)
        special = f.select(f.compare("gt", magnitude, format.largest), beyond, scaled)
    value = scaled if special is None else special
    sign = f.shl(f.binary("lshr", z, high), 31)
    return f.bitcast(f.or_(f.bitcast(value, value.type.as_int()), sign), value.type)


def _power_of_two(f: FunctionBuilder, z: Val, format: FloatFormat) -> Val:
    """Code k is 2 to the power of k - bias; code 0 is subnormal in f32."""
    bits = f.select(f.compare("eq", z, 0), 1 << (_MANTISSA - 1), f.shl(z, _MANTISSA))
    value = f.bitcast(bits, F32.vector(bits.type.lanes))
    return f.select(f.compare("eq", z, format.nan), math.nan, value)


def encode(f: FunctionBuilder, a: Val, format: FloatFormat) -> Val:
    """f32 as bytes; what is beyond the largest becomes what the format has for that."""
    bits = f.bitcast(a, a.type.as_int())
    magnitude = f.and_(bits, 0x7FFFFFFF)
    drop = _MANTISSA - format.mantissa
    odd = f.and_(f.lshr(magnitude, drop), 1) if format.mantissa else const(bits.type, 1)  # powers of two: a tie goes up
    rounded = f.lshr(f.add(f.add(magnitude, (1 << drop - 1) - 1), odd), drop)
    code = f.sub(rounded, (_BIAS - format.bias) << format.mantissa)
    if format.mantissa:
        least = math.ldexp(1.0, 1 - format.bias)
        room = const(a.type, math.ldexp(1.0, 1 - format.bias - format.mantissa + _MANTISSA))
        small = f.add(f.bitcast(magnitude, a.type), room)
        tiny = f.sub(f.bitcast(small, bits.type), f.bitcast(room, bits.type))
        code = f.select(f.compare("lt", f.bitcast(magnitude, a.type), least), tiny, code)
    code = f.select(f.compare("gt", code, format.largest), format.over, code)
    nan = f.fcmp("uno", a, a)
    if not format.mantissa:
        code = f.select(f.compare("le", bits, 0), format.nan, code)  # nothing below 2 ** -127, no sign
        return f.convert("trunc", f.select(nan, format.nan, code), I8)
    sign = f.shl(f.binary("lshr", bits, 31), format.exponent + format.mantissa)
    if format.unsigned_zero:
        nan = f.or_(nan, f.compare("eq", code, format.nan))
        sign = f.select(f.compare("eq", code, 0), 0, sign)
    signed = f.or_(code, sign)
    kept = format.nan if format.unsigned_zero or format.over == format.largest else f.or_(sign, format.nan)
    return f.convert("trunc", f.select(nan, kept, signed), I8)
