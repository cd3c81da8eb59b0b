"""Philox 4x32-10 as vector code, bit for bit what `equations.philox` says.

In: an open function, a seed and positions (i64, either may be a vector). Out: numbers of a dtype. The key stays a scalar as long as the
seed is one.
"""

from __future__ import annotations

from anyshape.dtypes import DType
from anyshape.equations.philox import MULTIPLIERS, ROUNDS, WEYL, precision

from . import half
from .builder import FunctionBuilder
from .types import F32, F64, I32, I64, Type, Val, const


def philox(f: FunctionBuilder, seed: Val, position: Val, dtype: DType, type_: Type) -> Val:
    """Draws numbers of `dtype`; `type_` is the scalar type of its registers."""
    lanes = max(seed.type.lanes, position.type.lanes)
    at = f.splat(position, lanes) if lanes and not position.type.lanes else position
    first, second = _words(f, _halves(f, seed), _halves(f, at))
    bits = precision(dtype)
    if not dtype.is_float:
        highest = _joined(f, first, second) if bits > 32 else f.lshr(first, 32 - bits)
        return highest if bits in (32, 64) else f.convert("trunc", highest, type_)
    if bits <= 32:
        small = f.mul(f.convert("sitofp", f.lshr(first, 32 - bits), F32), 2.0**-bits)
        return small if type_ == F32 else half.shorten(f, small, type_)
    high, low = f.convert("uitofp", first, F64), f.convert("sitofp", f.lshr(second, 64 - bits), F64)
    return f.add(f.mul(high, 2.0**-32), f.mul(low, 2.0**-bits))


def _halves(f: FunctionBuilder, word: Val) -> tuple[Val, Val]:
    return f.convert("trunc", word, I32), f.convert("trunc", f.lshr(word, 32), I32)


def _joined(f: FunctionBuilder, high: Val, low: Val) -> Val:
    return f.or_(f.shl(f.convert("zext", high, I64), 32), f.convert("zext", low, I64))


def _words(f: FunctionBuilder, key: tuple[Val, Val], counter: tuple[Val, Val]) -> tuple[Val, Val]:
    """The first two words."""
    c0, c1 = counter
    c2 = c3 = const(c0.type, 0)
    k0, k1 = key
    for iteration in range(ROUNDS):
        a, b = _product(f, c0, MULTIPLIERS[0]), _product(f, c2, MULTIPLIERS[1])
        c0, c1 = f.xor(f.xor(b[0], c1), _as_wide(f, k0, c0)), b[1]
        c2, c3 = f.xor(f.xor(a[0], c3), _as_wide(f, k1, c0)), a[1]
        if iteration < ROUNDS - 1:
            k0, k1 = f.add(k0, const(k0.type, WEYL[0])), f.add(k1, const(k1.type, WEYL[1]))
    return c0, c1


def _product(f: FunctionBuilder, x: Val, factor: int) -> tuple[Val, Val]:
    """The high and the low half of 64 bits."""
    wide = f.mul(f.convert("zext", x, I64), factor)
    return f.convert("trunc", f.lshr(wide, 32), I32), f.convert("trunc", wide, I32)


def _as_wide(f: FunctionBuilder, key: Val, word: Val) -> Val:
    return f.splat(key, word.type.lanes) if word.type.lanes and not key.type.lanes else key
