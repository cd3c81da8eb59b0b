"""What several functions are built from: polynomials, powers of two, the float format, products in two words.

In: values of one float type. Out: values of that type; `Format` describes f32 and f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..builder import FunctionBuilder
from ..types import F64, I8, I16, I32, Type, Val, const


@dataclass(frozen=True)
class Format:
    """The layout of a float type: explicit mantissa bits, exponent bias, smallest normal number."""

    mantissa: int
    bias: int
    smallest: float
    sqrt_half: int
    """The bits of sqrt(1/2): mantissas are normalised to [sqrt(1/2), sqrt(2))."""


_F32 = Format(23, 127, 2.0**-126, 0x3F3504F3)
_F64 = Format(52, 1023, 2.0**-1022, 0x3FE6A09E667F3BCD)

_SCALED = {("float", 16): "ps", ("double", 8): "pd"}
"""What AVX-512's multiplication by a power of two is called, by element and lanes."""
LOG2E = 1.4426950408889634


def format_of(type_: Type) -> Format:
    return _F64 if type_.scalar == F64 else _F32


def horner(f: FunctionBuilder, x: Val, coefficients: Sequence[float]) -> Val:
    """c0 + c1 x + c2 x^2 + ..."""
    result = const(x.type, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = f.fma(result, x, c)
    return result


def nearest(f: FunctionBuilder, x: Val, factor: float, offset: int) -> tuple[Val, Val]:
    """(n, bits): the integer nearest to x * factor, as a float; an integer whose lowest bits are those of n + offset. Adding a float whose
    last digit is worth 1 takes the place of a rounding and of a conversion."""
    shift = 1.5 * 2.0 ** format_of(x.type).mantissa + offset
    shifted = f.fma(x, factor, shift)
    return f.sub(shifted, shift), f.bitcast(shifted, x.type.as_int())


def scales_at_once(f: FunctionBuilder, type_: Type) -> bool:
    """Whether `scale` is one instruction."""
    return f.target.scalef and (type_.element, type_.lanes) in _SCALED


def power_of_two(f: FunctionBuilder, n: Val) -> Val:
    """2**n for an integer-valued float within the exponents of normal numbers."""
    form = format_of(n.type)
    bits = f.add(_narrow_int(f, n), form.bias)
    return f.bitcast(f.shl(_widen(f, bits, n.type), form.mantissa), n.type)


def scale(f: FunctionBuilder, x: Val, n: Val, where: Val | None = None) -> Val:
    """x * 2**n, rounded once, for |n| up to twice the exponent range; one instruction where the machine has it. Lanes that are not `where`
    are 0 and underflow nowhere, which takes Intel's processors more than a hundred cycles."""
    if scales_at_once(f, x.type):
        suffix = _SCALED[x.type.element, x.type.lanes]
        mask_type = I16 if suffix == "ps" else I8
        mask = const(mask_type, -1) if where is None else f.bitcast(where, mask_type)
        args = [x, n, const(x.type, 0.0), mask, const(I32, 4)]
        return f.call_intrinsic(f"llvm.x86.avx512.mask.scalef.{suffix}.512", x.type, args)
    if where is not None:
        zero = const(x.type, 0.0)
        x, n = f.select(where, x, zero), f.select(where, n, zero)
    whole = _narrow_int(f, n)
    half = f.ashr(whole, 1)
    for part in (half, f.sub(whole, half)):
        form = format_of(x.type)
        bits = f.shl(_widen(f, f.add(part, form.bias), x.type), form.mantissa)
        x = f.mul(x, f.bitcast(bits, x.type))
    return x


def _narrow_int(f: FunctionBuilder, n: Val) -> Val:
    return f.convert("fptosi", n, I32)


def _widen(f: FunctionBuilder, n: Val, like: Type) -> Val:
    return n if like.bits == 32 else f.convert("sext", n, like.as_int())


def split_normal(f: FunctionBuilder, x: Val) -> tuple[Val, Val]:
    """(m, n) with x == m * 2**n and m in [sqrt(1/2), sqrt(2)), of a positive normal x; n as the exponent field of a float's bits is."""
    form = format_of(x.type)
    shifted = f.sub(f.bitcast(x, x.type.as_int()), form.sqrt_half)
    low = f.and_(shifted, (1 << form.mantissa) - 1)
    return f.bitcast(f.add(low, form.sqrt_half), x.type), f.sub(shifted, low)


def exponent_value(f: FunctionBuilder, n: Val, like: Type) -> Val:
    """What `split_normal` gives for an exponent, as a float."""
    exponent = f.ashr(n, format_of(like).mantissa)
    return f.convert("sitofp", f.convert("trunc", exponent, I32) if like.bits == 64 else exponent, like)


def split_exponent(f: FunctionBuilder, x: Val) -> tuple[Val, Val]:
    """(m, e) with x == m * 2**e and m in [sqrt(1/2), sqrt(2)), of a positive finite x, subnormal ones included."""
    form = format_of(x.type)
    tiny = f.compare("lt", x, form.smallest)
    mantissa, n = split_normal(f, f.select(tiny, f.mul(x, 2.0 ** (form.mantissa + 1)), x))
    return mantissa, f.sub(
        exponent_value(f, n, x.type), f.select(tiny, const(x.type, form.mantissa + 1), const(x.type, 0))
    )


@dataclass(frozen=True)
class Double:
    """A number as the unevaluated sum of two floats."""

    high: Val
    low: Val


def two_product(f: FunctionBuilder, a: Val, b: Val) -> Double:
    """a * b without error."""
    high = f.mul(a, b)
    return Double(high, f.fma(a, b, f.neg(high), exact=True))


def two_sum(f: FunctionBuilder, a: Val, b: Val) -> Double:
    """a + b without error, whichever is larger."""
    high = f.add(a, b)
    part = f.sub(high, a)
    return Double(high, f.add(f.sub(a, f.sub(high, part)), f.sub(b, part)))


def quick_sum(f: FunctionBuilder, a: Val, b: Val) -> Double:
    """a + b without error, |a| >= |b|."""
    high = f.add(a, b)
    return Double(high, f.sub(b, f.sub(high, a)))


def double_product(f: FunctionBuilder, a: Double, b: Double) -> Double:
    """The product of two doubled numbers, good to about twice the precision."""
    exact = two_product(f, a.high, b.high)
    cross = f.fma(a.high, b.low, f.fma(a.low, b.high, exact.low))
    return quick_sum(f, exact.high, cross)


def double_sum(f: FunctionBuilder, a: Double, b: Double) -> Double:
    exact = two_sum(f, a.high, b.high)
    return quick_sum(f, exact.high, f.add(exact.low, f.add(a.low, b.low)))
