"""The natural logarithm.

x is split as m * 2**e with m in [sqrt(1/2), sqrt(2)); log(m) is a polynomial in m - 1 for f32 and, for f64, in
s = (m - 1) / (m + 1), whose series has odd terms only.
"""

from __future__ import annotations

import math

from ..builder import FunctionBuilder
from ..types import F64, Val, const
from .pieces import exponent_value, format_of, horner, split_exponent, split_normal
from .rounding import copysign

# (log(1 + t) - t + t**2/2) / t**3 on [sqrt(1/2) - 1, sqrt(2) - 1]
_LOG_F32 = (
    0.3333331260767317, -0.2500000960679078, 0.2000211828952796, -0.16667995142960554, 0.14219559665166748,
    -0.1240560430864534, 0.1188812527090391, -0.11675558690564047, 0.06746613436196204
)  # fmt: skip
# (2 atanh(s) - 2 s) / s**3 in s**2, on |s| <= 3 - 2 sqrt(2)
_LOG_F64 = (
    0.6666666666666735,
    0.3999999999941108,
    0.2857142874326603,
    0.22222198475682856,
    0.1818356975334816,
    0.15313902953024489,
    0.14797510179747114,
)
LN2_HIGH_F64, LN2_LOW_F64 = 0.693147180369123816490, 1.90821492927058770002e-10
_LN2_HIGH_F32, _LN2_LOW_F32 = 0.693145751953125, 1.428606765330187e-06


def log(f: FunctionBuilder, x: Val) -> Val:
    """log(x): 1 ulp in f32 and f64, subnormal arguments included; log(0) = -inf, log of a negative number NaN."""
    m, e = split_exponent(f, x)
    t = f.sub(m, 1.0)
    return _specials(f, x, _log_f64(f, t, e) if x.type.scalar == F64 else _log_f32(f, t, e))


def log1p(f: FunctionBuilder, x: Val, within_one: bool = False) -> Val:
    """log(1 + x): 1.5 ulp in f32 and f64, also near zero, whose sign it keeps; log1p(-1) = -inf, NaN below. `within_one`: x is known to be
    from 0 to 1, or NaN.

    1 + x is m * 2**n; m - 1 = x * 2**-n + (2**-n - 1) is rounded once, unless x is so large that the 1 does not matter."""
    if within_one:
        return _log1p_within_one(f, x)
    form = format_of(x.type)
    whole = f.add(x, 1.0)
    m, n = split_normal(f, whole)
    part = f.bitcast(f.sub(form.bias << form.mantissa, n), x.type)
    t = f.select(f.compare("lt", x, 2.0**60), f.fma(x, part, f.sub(part, 1.0)), f.sub(m, 1.0))
    e = exponent_value(f, n, x.type)
    return copysign(f, _specials(f, whole, _log_f64(f, t, e) if x.type.scalar == F64 else _log_f32(f, t, e)), x)


def _log1p_within_one(f: FunctionBuilder, x: Val) -> Val:
    """log(1 + x) for x from 0 to 1, where 1 + x is m or 2 m."""
    above = f.fcmp("ogt", x, math.sqrt(2) - 1)
    t = f.select(above, f.fma(x, 0.5, -0.5), x)
    e = f.select(above, const(x.type, 1.0), const(x.type, 0.0))
    return _log_f64(f, t, e) if x.type.scalar == F64 else _log_f32(f, t, e)


def _log_f32(f: FunctionBuilder, t: Val, e: Val) -> Val:
    tail = f.fma(t, horner(f, t, _LOG_F32), -0.5)
    low = f.fma(e, _LN2_LOW_F32, f.mul(f.mul(t, t), tail))
    return f.fma(e, _LN2_HIGH_F32, f.add(t, low))


def _log_f64(f: FunctionBuilder, t: Val, e: Val) -> Val:
    s = f.fdiv(t, f.add(t, 2.0))
    square = f.mul(s, s)
    rest = f.mul(square, horner(f, square, _LOG_F64))
    half = f.mul(f.mul(t, t), 0.5)
    # log(1 + t) = t - (t^2/2 - s (t^2/2 + rest)): the large parts cancel exactly
    inner = f.fma(s, f.add(half, rest), f.mul(e, LN2_LOW_F64))
    return f.fma(e, LN2_HIGH_F64, f.sub(t, f.sub(half, inner)))


def _specials(f: FunctionBuilder, x: Val, value: Val) -> Val:
    below = f.select(f.compare("eq", x, 0.0), const(x.type, -math.inf), const(x.type, math.nan))
    at_most_zero = f.compare("le", x, 0.0)
    ordinary = f.select(f.compare("lt", x, math.inf), value, x)
    return f.select(at_most_zero, below, ordinary)
