"""Conversions between f32 and the floats of 16 bits, in integer arithmetic where the processor has no instruction, and what needs none.

No processor has one for bf16 that keeps the smallest numbers: AVX-512's takes them for 0. Elsewhere LLVM would call a function of the
compiler's library, which nobody links. Rounding is to the nearest, ties to even, as the instructions do. The method for f16 is that of
Fabian Giesen's "half to float done quic(ker)": the exponent is moved by an addition, and a floating-point addition (or subtraction) of a
power of two rounds (or scales) numbers that are too small for a normal one.
"""

from __future__ import annotations

import math

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import BF16, F16, F32, I16, I32, Type, Val, const, half_bits

_SIGN = 0x8000_0000
_INFINITY = 0x7F80_0000
_MANTISSA = 13
"""Bits of an f32's mantissa that an f16 has no place for."""
_BIAS = (127 - 15) << 23
_LEAST = 113 << 23
"""The least f32 whose f16 is a normal number."""
_TOO_LARGE = (127 + 16) << 23
_UNIT = ((127 - 15) + (23 - 10) + 1) << 23
"""An f32 whose last bit is worth what the last bit of a subnormal f16 is."""
_NARROWED = 16
"""Lanes that AVX512-BF16 rounds to bf16 by one instruction."""


def widen(f: FunctionBuilder, a: Val) -> Val:
    """A float of 16 bits as f32; exact."""
    if a.type.scalar != BF16 and f.target.f16:
        return f.convert("fpext", a, F32)
    bits = f.convert("zext", f.bitcast(a, I16.vector(a.type.lanes)), I32)
    if a.type.scalar == BF16:
        return _float(f, f.shl(bits, 16))
    sign = f.shl(f.and_(bits, 0x8000), 16)
    moved = f.shl(f.and_(bits, 0x7FFF), _MANTISSA)
    exponent = f.and_(moved, 0x7C00 << _MANTISSA)
    normal = f.add(moved, _BIAS)
    special = f.add(normal, (128 - 16) << 23)
    small = f.sub(_float(f, f.add(normal, 1 << 23)), _float_of(_LEAST, a))
    magnitude = f.select(f.compare("eq", exponent, 0x7C00 << _MANTISSA), special, normal)
    magnitude = f.select(f.compare("eq", exponent, 0), f.bitcast(small, moved.type), magnitude)
    return _float(f, f.or_(magnitude, sign))


_INFINITIES = {F16: 0x7C00, BF16: 0x7F80}
"""The bits of infinity, above which those of NaN are."""
_MAGNITUDE = 0x7FFF


def magnitude(f: FunctionBuilder, a: Val) -> Val:
    """A float of 16 bits without its sign."""
    return f.bitcast(f.and_(_bits(f, a), _MAGNITUDE), a.type)


def negated(f: FunctionBuilder, a: Val) -> Val:
    """A float of 16 bits with the other sign."""
    return f.bitcast(f.xor(_bits(f, a), _MAGNITUDE + 1), a.type)


def is_not_zero(f: FunctionBuilder, a: Val) -> Val:
    """Whether a float of 16 bits is not 0; NaN is not."""
    return f.compare("ne", f.and_(_bits(f, a), _MAGNITUDE), 0)


def equality(f: FunctionBuilder, a: Val, b: Val) -> Val | None:
    """Whether two floats of 16 bits are equal, of which one is a number that is known, or both are the same; None otherwise. A number other
    than 0 has bits of its own."""
    if a.name == b.name:
        return f.compare("le", f.and_(_bits(f, a), _MAGNITUDE), _INFINITIES[a.type.scalar])
    for x, known in ((a, b), (b, a)):
        if known.number is not None and x.number is None and not math.isnan(known.number):
            bits = half_bits(known.type, known.number)
            return f.not_(is_not_zero(f, x)) if not bits & _MAGNITUDE else f.compare("eq", _bits(f, x), bits)
    return None


def _bits(f: FunctionBuilder, a: Val) -> Val:
    return f.bitcast(a, I16.vector(a.type.lanes))


def shorten(f: FunctionBuilder, a: Val, to: Type) -> Val:
    """An f32 as a float of 16 bits."""
    if f.target.f16 and to.scalar != BF16:
        return f.convert("fptrunc", a, to)
    bits = f.bitcast(a, I32.vector(a.type.lanes))
    half = _to_bf16(f, bits) if to.scalar == BF16 else _to_f16(f, bits)
    return f.bitcast(f.convert("trunc", half, I16), to.scalar.vector(a.type.lanes))


def through(f: FunctionBuilder, a: Val, element: Type) -> Val:
    """An f32 rounded to a float of 16 bits, as f32."""
    return widen(f, f.bitcast(narrow(f, a, element), element.vector(a.type.lanes)))


def narrow(f: FunctionBuilder, a: Val, element: Type) -> Val:
    """An f32 as the bits of a float of 16 bits. The instruction for vectors of bf16 takes numbers below 2^-126 for 0, as products of pairs
    do."""
    if element == BF16 and f.target.pairs and a.type.lanes == _NARROWED:
        return f.call_intrinsic("llvm.x86.avx512bf16.cvtneps2bf16.512", I16.vector(_NARROWED), [a])
    return f.bitcast(shorten(f, a, element.vector(a.type.lanes)), I16.vector(a.type.lanes))


def multiply_add(f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
    """a * b + total of f16, rounded to f16: by one instruction where the processor has it (AVX512-FP16), else by way of f32, in which the
    product is exact."""
    if f.target.halves and not f.target.emulates_halves:
        return f.fma_f16(a, b, total)
    return shorten(f, f.fma(widen(f, a), widen(f, b), widen(f, total)), total.type)


def add(f: FunctionBuilder, a: Val, b: Val) -> Val:
    """a + b of f16, rounded to f16, in the same way."""
    if f.target.halves and not f.target.emulates_halves:
        return f.add_f16(a, b)
    return shorten(f, f.add(widen(f, a), widen(f, b)), a.type)


def _to_bf16(f: FunctionBuilder, bits: Val) -> Val:
    odd = f.and_(f.lshr(bits, 16), 1)
    rounded = f.lshr(f.add(f.add(bits, 0x7FFF), odd), 16)
    nan = f.compare("gt", f.and_(bits, _SIGN - 1), _INFINITY)
    return f.select(nan, f.or_(f.lshr(bits, 16), 0x40), rounded)


def _to_f16(f: FunctionBuilder, bits: Val) -> Val:
    size = f.and_(bits, _SIGN - 1)
    odd = f.and_(f.lshr(size, _MANTISSA), 1)
    normal = f.lshr(f.add(f.sub(f.add(size, 0xFFF), _BIAS), odd), _MANTISSA)
    unit = _float_of(_UNIT, bits)
    small = f.sub(f.bitcast(f.add(_float(f, size), unit), size.type), _UNIT)
    magnitude = f.select(f.compare("lt", size, _LEAST), small, normal)
    large = f.select(
        f.compare("gt", size, _INFINITY), f.or_(f.lshr(f.and_(size, 0x7F_FFFF), _MANTISSA), 0x7E00), 0x7C00
    )
    magnitude = f.select(f.compare("ge", size, _TOO_LARGE), large, magnitude)
    return f.or_(magnitude, f.lshr(f.and_(bits, _SIGN), 16))


def _float(f: FunctionBuilder, bits: Val) -> Val:
    return f.bitcast(bits, F32.vector(bits.type.lanes))


def _float_of(bits: int, like: Val) -> Val:
    """A power of two as f32."""
    return const(F32.vector(like.type.lanes), 2.0 ** ((bits >> 23) - 127))
