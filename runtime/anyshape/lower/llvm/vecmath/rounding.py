"""Operations that are one or two instructions: rounding, sign, root, extremes; and fmod, which is not.

In: float values (minimum and maximum take integers too). Out: exact results (0.5 ulp for sqrt).
"""

from __future__ import annotations

import math

from ..builder import FunctionBuilder
from ..types import F32, F64, Val, ValLike


def floor(f: FunctionBuilder, x: Val) -> Val:
    return f.unary("floor", x)


def ceil(f: FunctionBuilder, x: Val) -> Val:
    return f.unary("ceil", x)


def trunc(f: FunctionBuilder, x: Val) -> Val:
    return f.unary("trunc", x)


def round_even(f: FunctionBuilder, x: Val) -> Val:
    """Rounds to the nearest integer, halves to the even one."""
    return f.unary("roundeven", x)


def sqrt(f: FunctionBuilder, x: Val) -> Val:
    """0.5 ulp; NaN below zero."""
    return f.unary("sqrt", x)


def abs_(f: FunctionBuilder, x: Val) -> Val:
    """The magnitude: exact for floats; two's complement for integers, so the lowest one stays as it is."""
    if x.type.is_float:
        return f.unary("fabs", x)
    return f.select(f.compare("lt", x, 0), f.neg(x), x)


def copysign(f: FunctionBuilder, size: Val, sign: Val) -> Val:
    return f.call_intrinsic("llvm.copysign", size.type, [size, sign])


def signed(f: FunctionBuilder, size: Val, sign: Val) -> Val:
    """What `copysign` gives of a size that has no sign, by an instruction less."""
    bits, lowest = sign.type.as_int(), -(1 << (sign.type.bits - 1))
    return f.bitcast(f.or_(f.bitcast(size, bits), f.and_(f.bitcast(sign, bits), lowest)), size.type)


def _extreme(f: FunctionBuilder, op: str, a: ValLike, b: ValLike, unsigned: bool) -> Val:
    x, y = f.pair(a, b)
    if x.type.is_float and _is_number(y):
        x, y = y, x
    chosen = f.select(f.compare(op, x, y, unsigned), x, y)
    if not x.type.is_float or _is_number(x):
        return chosen  # y where it is NaN
    return f.select(f.fcmp("uno", x, x), x, chosen)


def _is_number(x: Val) -> bool:
    """Whether it is known not to be NaN."""
    return x.number is not None and not math.isnan(x.number)


def minimum(f: FunctionBuilder, a: ValLike, b: ValLike, unsigned: bool = False) -> Val:
    """The smaller; NaN if either is NaN (NumPy's rule). Of zeros of unlike sign either may come out."""
    return _extreme(f, "lt", a, b, unsigned)


def maximum(f: FunctionBuilder, a: ValLike, b: ValLike, unsigned: bool = False) -> Val:
    """The larger; NaN if either is NaN (NumPy's rule). Of zeros of unlike sign either may come out."""
    return _extreme(f, "gt", a, b, unsigned)


def clamp_keeping_nan(f: FunctionBuilder, x: Val, low: float, high: float) -> Val:
    """min(max(x, low), high), NaN untouched."""
    return at_most_keeping_nan(f, at_least_keeping_nan(f, x, low), high)


def at_least_keeping_nan(f: FunctionBuilder, x: Val, low: float) -> Val:
    """max(x, low), NaN untouched: the order of operands is that of the machine's own min and max."""
    low_val, _ = f.pair(low, x)
    return f.select(f.fcmp("ogt", low_val, x), low_val, x)


def at_most_keeping_nan(f: FunctionBuilder, x: Val, high: float) -> Val:
    """min(x, high), NaN untouched."""
    high_val, _ = f.pair(high, x)
    return f.select(f.fcmp("olt", high_val, x), high_val, x)


def fmod(f: FunctionBuilder, a: ValLike, b: ValLike, floored: bool = False) -> Val:
    """The exact remainder, with the sign of `a` (C), or of `b` if `floored` (Python). Vectors of 32 bits are divided as they are, or as
    floats of 64 where a quotient is too large for that. Where it is too large for both, and for floats of 64 bits, libm is called for each
    lane."""
    x, y = f.pair(a, b)
    rest = _remainder(f, x, y) if x.type.bits == F32.bits and x.type.lanes else f.binary("frem", x, y)
    if not floored:
        return rest
    nonzero = f.compare("ne", rest, 0.0)
    unlike = f.xor(f.compare("lt", rest, 0.0), f.compare("lt", y, 0.0))
    moved = f.select(f.and_(nonzero, unlike), f.add(rest, y), rest)
    return f.select(nonzero, moved, copysign(f, moved, y))


def _remainder(f: FunctionBuilder, x: Val, y: Val) -> Val:
    """What is left of vectors of f32, by a division and a fused multiply-add of f32 if all quotients have at most 24 bits. Such a quotient,
    rounded, may be 1 too large. Either way what is left has 24 bits at most, so that the multiply-add does not round."""
    if not f.target.fma:
        return _wide_remainder(f, x, y)
    size, step = abs_(f, x), abs_(f, y)
    quotient = trunc(f, f.fdiv(size, step))
    fits = f.and_(f.fcmp("olt", quotient, 2.0**24), f.fcmp("olt", step, float("inf")))
    with f.if_else(f.reduce("and", fits)) as branch:
        with branch.then():
            rest = f.fma(f.neg(quotient), step, size)
            branch.give(copysign(f, f.select(f.fcmp("olt", rest, 0.0), f.add(rest, step), rest), x))
        with branch.otherwise():
            branch.give(_wide_remainder(f, x, y))
    return branch.results[0]


def _wide_remainder(f: FunctionBuilder, x: Val, y: Val) -> Val:
    """What is left of vectors of f32, whose product with a quotient of at most 29 bits is exact in f64. The quotient, rounded, may be 1 too
    large, which shows in the sign of what is left."""
    wide_x, wide_y = (f.convert("fpext", v, F64) for v in (x, y))
    quotient = trunc(f, f.fdiv(wide_x, wide_y))
    fits = f.and_(f.fcmp("olt", abs_(f, quotient), 2.0**29), f.fcmp("olt", abs_(f, wide_y), float("inf")))
    every = f.reduce("and", fits)
    with f.if_else(every) as branch:
        with branch.then():
            rest = f.sub(wide_x, f.mul(quotient, wide_y))
            size = abs_(f, wide_y)
            back = f.select(f.fcmp("olt", wide_x, 0.0), f.sub(rest, size), f.add(rest, size))
            beyond = f.fcmp("olt", f.mul(rest, copysign(f, f.splat(1.0, x.type.lanes, F64), wide_x)), 0.0)
            branch.give(copysign(f, f.convert("fptrunc", f.select(beyond, back, rest), F32), x))
        with branch.otherwise():
            branch.give(f.binary("frem", x, y))
    return branch.results[0]
