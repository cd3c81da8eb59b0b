"""f16 that is finite, widened by shifts: conversions take the multipliers' time on some processors, shifts do not.

In: vectors of f16 in pairs, as they lie in memory. Out: vectors of f32. Moved by three bits, sign, exponent and mantissa of an f16 are
those of an f32 that is 2^-112 times as much, and exactly so, be it normal or not; an infinity or NaN would become a number. With a factor
2^112 times as large, which an f16 as f32 has room for, every product is the same as without.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..llvm.builder import Function
from ..llvm.types import F32, I32, I64, Operand, Type, Val, const

SCALE = 2.0**112
_PLACES = 0x8FFF_E000
"""Where an f32 has the sign, the lower half of the exponent, and what f16 has of a mantissa."""
_MOVED = 3
_INFINITY, _NEGATIVE_INFINITY = 0x7C00, 0xFC00


def are_finite(a: NDArray[Any]) -> bool:
    """Whether an array of f16 has neither infinity nor NaN: read as integers, signed or not, these are the greatest of one sign."""
    return not a.size or (int(a.view(np.int16).max()) < _INFINITY and int(a.view(np.uint16).max()) < _NEGATIVE_INFINITY)


def widened_pair(f: Function, b: Val, lanes: int, offset: Operand, stored: Type) -> list[Val]:
    """Of twice so many elements those at even places and those at odd ones, 2^-112 times as large."""
    pairs = f.load(f.gep(b, offset, stored), I32.vector(lanes))
    return [_float(f, f.shl(pairs, 16)), _float(f, pairs)]


def _float(f: Function, upper: Val) -> Val:
    return f.bitcast(f.and_(f.ashr(upper, _MOVED), _PLACES), F32.vector(upper.type.lanes))


def in_order(f: Function, even: Val, odd: Val) -> list[Val]:
    """Sums of such columns as the columns lie."""
    lanes = even.type.lanes
    places = [i // 2 + i % 2 * lanes for i in range(2 * lanes)]
    return [f.shuffle(even, odd, places[:lanes]), f.shuffle(even, odd, places[lanes:])]


def keeps_small(f: Function, address: Val) -> Val:
    """Whether this thread computes with numbers below the normal ones, rather than take them for 0: other code may have asked for that.
    Those of `address` are some 2^-140 that nobody knows before."""
    bits = f.convert("trunc", f.or_(f.binary("and", f.convert("ptrtoint", address, I64), const(I64, 0xFF)), 1), I32)
    return f.compare("gt", f.mul(f.bitcast(bits, F32), SCALE), 0.0)


def scale(f: Function, to: Val, count: Val, lanes: int) -> None:
    """So many floats, and up to a vector behind them, times 2^112."""
    vector = F32.vector(lanes)
    with f.for_range(0, count, lanes) as loop:
        f.store(f.mul(f.load(to, vector, loop.index), SCALE), to, loop.index)
