"""exp and what is made of it: sigmoid, tanh, erf.

The argument is split as n ln 2 + r with |r| <= ln(2)/2. erf is odd and 1 - e**y for some y <= 0, so it is made from one e**y - 1 that keeps
its relative precision near zero: no second branch is needed for small arguments. tanh is split in steps of ln(2)/2, the tanh of which are
quotients of two numbers that 2**-n gives.
"""

from __future__ import annotations

from ..builder import FunctionBuilder
from ..types import F64, Val, const
from .logarithm import LN2_HIGH_F64, LN2_LOW_F64
from .pieces import (
    LOG2E,
    Double,
    format_of,
    horner,
    nearest,
    power_of_two,
    quick_sum,
    scale,
    scales_at_once,
    two_product,
    two_sum,
)
from .rounding import abs_, at_least_keeping_nan, at_most_keeping_nan, clamp_keeping_nan, copysign, round_even, signed

_LN2_F32 = 0.6931471824645996
"""ln 2 as an f32 has it, wrong by 2e-9: up to 30 times that changes no tanh by more than a hundredth of a unit in the last place."""
_RANGE_F32, _RANGE_F64 = (-104.0, 89.0), (-746.0, 710.0)
"""Below, e**x is 0; above, it is infinite."""
_BELOW_F32, _BELOW_F64 = -105.0, -747.0
_LOST_F32, _LOST_F64 = -151, -1077
"""Numbers of which e**x is 0, and the largest n that none but such have. A lesser n is that of 0."""
# (e**r - 1 - r) / r**2 on |r| <= ln(2)/2
_EXP_F32 = (0.4999999344845867, 0.1666652062963538, 0.04166838785539014, 0.008368717081241716, 0.0013814610145257281)
_EXPM1_F32 = (
    0.5000000044083163,
    0.16666666363156632,
    0.04166636098183009,
    0.008333390783890877,
    0.0013940628322683649,
    0.00019845211809126114,
)
_EXP_F64 = (
    0.5, 0.16666666666666677, 0.04166666666666651, 0.008333333333321691, 0.0013888888888962335,
    0.00019841269885967502, 2.480158717258517e-05, 2.7557244372725135e-06, 2.75574026131402e-07,
    2.5108979358977337e-08, 2.0875337194376873e-09
)  # fmt: skip
# tanh(r / 2) / r, in r**2, on |r| <= ln(2)/2
_TANH_OF_HALF_F32 = (0.4999999224234405, -0.041661467689708284, 0.004079497631255566)
_TANH_OF_HALF_F64 = (
    0.5, -0.04166666666666238, 0.004166666666278561, -0.00042162696866062624, 4.271352847551008e-05,
    -4.3242828810071815e-06, 4.190383817877458e-07
)  # fmt: skip
# (tanh(r) / r - 1) / r**2 on |r| <= ln(2)/4
_TANH_F32 = (-0.3333332269260462826, 0.1333118017869360458, -0.05272604683376850147)
_TANH_F64 = (
    -0.3333333333333248099, 0.1333333333278155769, -0.05396825277823975268, 0.02186937043449357376,
    -0.008857299422151289663, 0.003444722725306542171
)  # fmt: skip
# -log(1 - erf(t)) / t, on [0, 3.93] for f32 and [0, 5.95] for f64
_ERF_F32 = (
    1.12837917160819, 0.6366193819884473, 0.10277783162771728, -0.01915307278460357, -0.00016037279397624433,
    0.001666999295535918, -0.0006328196040954153, 0.0001176360903154243, -9.255661593460706e-06
)  # fmt: skip
_ERF_F64 = (
    1.1283791670955126, 0.6366197723675812, 0.10277260330195186, -0.019128447009424183, -0.00020919463364061231,
    0.0016962058613084904, -0.0005901225612927803, 2.5866562114351647e-05, 6.452749423052094e-05,
    -2.980390105950825e-05, 3.5458382985382405e-06, 2.6458048920397094e-06, -1.5353051364891392e-06,
    1.5562277504197212e-07, 2.6540498467246587e-07, -2.156648438157853e-07, 1.0037738322723717e-07,
    -3.41520895454416e-08, 9.058325020439244e-09, -1.9114357791366335e-09, 3.213706907764236e-10,
    -4.259808284857142e-11, 4.354711485140404e-12, -3.308813070835317e-13, 1.7559932208729834e-14,
    -5.792544466557063e-16, 8.90854401941704e-18
)  # fmt: skip


def _rest(f: FunctionBuilder, x: Val, n: Val) -> Val:
    """x - n ln 2, ln 2 in two words, the first with trailing zeros so that n times it is exact."""
    if x.type.scalar == F64:
        high, low = LN2_HIGH_F64, LN2_LOW_F64
    else:
        high, low = 0.693145751953125, 1.428606765330187e-06
    return f.fma(n, -low, f.fma(n, -high, x))


def exp(f: FunctionBuilder, x: Val, nonpositive: bool = False) -> Val:
    """e**x: 1 ulp in f32 and f64; subnormal results are gradual, exp(-inf) is 0, overflow gives inf.

    `nonpositive`: x is known to be at most 0, or NaN."""
    if not scales_at_once(f, x.type):
        return _exp_by_two_powers(f, x, nonpositive)
    low, high = _RANGE_F64 if x.type.scalar == F64 else _RANGE_F32
    remains = f.fcmp("uge", x, low)
    limited = x if nonpositive else at_most_keeping_nan(f, x, high)
    n = round_even(f, f.mul(limited, LOG2E))
    return scale(f, _exp_of_rest(f, _rest(f, limited, n)), n, remains)


def _exp_by_two_powers(f: FunctionBuilder, x: Val, nonpositive: bool) -> Val:
    """e**x as a product with two normal powers of two, the second of which is constant where x is not above 0. The first is 0 where the
    result is: that underflows nowhere."""
    form, wide = format_of(x.type), x.type.scalar == F64
    high = (_RANGE_F64 if wide else _RANGE_F32)[1]
    limited = at_least_keeping_nan(f, x, _BELOW_F64 if wide else _BELOW_F32)
    limited = limited if nonpositive else at_most_keeping_nan(f, limited, high)
    above = 2 * form.mantissa + 18 if nonpositive else form.bias  # so that 2**(n + above) is normal
    n, bits = nearest(f, limited, LOG2E, form.bias + above)
    value = _exp_of_rest(f, _rest(f, limited, n))
    if nonpositive:
        first, second = f.shl(bits, form.mantissa), const(x.type, 2.0**-above)
    else:
        first = f.shl(f.lshr(bits, 1), form.mantissa)
        second = f.bitcast(f.sub(f.shl(bits, form.mantissa), first), x.type)
    lost = (_LOST_F64 if wide else _LOST_F32) + form.bias + above
    first = _kept(f, first, lost if nonpositive else lost >> 1, form.mantissa)
    return f.mul(f.mul(value, f.bitcast(first, x.type)), second)


def _kept(f: FunctionBuilder, power: Val, lost: int, mantissa: int) -> Val:
    """The bits of a power of two, or 0 where its exponent is not above `lost`."""
    return f.select(f.compare("gt", power, lost << mantissa), power, const(power.type, 0))


def _exp_of_rest(f: FunctionBuilder, r: Val) -> Val:
    return horner(f, r, (1.0, 1.0, *(_EXP_F64 if r.type.scalar == F64 else _EXP_F32)))


def exp_of_two(f: FunctionBuilder, x: Double) -> Val:
    """e**x of an f64 in two words, |x.low| a unit in the last place of x.high at most: 0.55 ulp where the result is normal.

    1 + r + r**2 / 2 is kept in two words; what follows is less than 2**-7 of it, and is rounded that much less.
    """
    high = clamp_keeping_nan(f, x.high, *_RANGE_F64)
    n = round_even(f, f.mul(high, LOG2E))
    r = two_sum(f, f.fma(n, -LN2_HIGH_F64, high), f.fma(n, -LN2_LOW_F64, x.low))
    square = two_product(f, r.high, r.high)
    line = quick_sum(f, const(high.type, 1.0), r.high)
    parabola = quick_sum(f, line.high, f.mul(square.high, 0.5))
    tail = f.mul(f.mul(square.high, r.high), horner(f, r.high, _EXP_F64[1:]))
    less = f.fma(square.low, 0.5, f.fma(r.high, r.low, r.low))
    rest = f.add(f.add(line.low, parabola.low), f.add(tail, less))
    return scale(f, f.add(parabola.high, rest), n)


def _one_less_exp(f: FunctionBuilder, y: Val) -> Val:
    """1 - e**y for y <= 0 that is no lower than the exponent range: 1.5 ulp, also near zero; without a sign."""
    form = format_of(y.type)
    n, bits = nearest(f, y, LOG2E, form.bias)
    r = _rest(f, y, n)
    tail = horner(f, r, _EXP_F64 if y.type.scalar == F64 else _EXPM1_F32)
    value = f.fma(f.mul(r, r), tail, r)
    power = f.bitcast(f.shl(bits, form.mantissa), y.type)
    return f.fma(f.neg(power), value, f.sub(1.0, power))


def expm1(f: FunctionBuilder, x: Val) -> Val:
    """e**x - 1: 2 ulp, also near zero, whose sign it keeps; -1 at -inf, overflow gives inf."""
    wide = x.type.scalar == F64
    limited = clamp_keeping_nan(f, x, -80.0, 710.0 if wide else 89.0)
    n = round_even(f, f.mul(limited, LOG2E))
    r = _rest(f, limited, n)
    value = f.fma(f.mul(r, r), horner(f, r, _EXP_F64 if wide else _EXPM1_F32), r)
    low = const(n.type, -1022.0 if wide else -126.0)
    less = f.neg(n)
    one = power_of_two(f, f.select(f.fcmp("ogt", low, less), low, less))
    return copysign(f, scale(f, f.add(value, f.sub(1.0, one)), n), x)


def sigmoid(f: FunctionBuilder, x: Val) -> Val:
    """1 / (1 + e**-x), or e**x / (1 + e**x) below 0: 2.5 ulp; subnormal results are gradual.

    e**-|x| is 2**n (1 + t) / (1 - t) with t = tanh(r/2), so that one division makes numerators and denominators of both. These are 2**above
    times as large, that 2**(n + above) is normal."""
    form, wide = format_of(x.type), x.type.scalar == F64
    below = at_least_keeping_nan(f, f.neg(abs_(f, x)), _BELOW_F64 if wide else _BELOW_F32)
    above = 2 * form.mantissa + 18
    n, bits = nearest(f, below, LOG2E, form.bias + above)
    r = _rest(f, below, n)
    power = _kept(f, f.shl(bits, form.mantissa), (_LOST_F64 if wide else _LOST_F32) + form.bias + above, form.mantissa)
    t = f.mul(r, horner(f, f.mul(r, r), _TANH_OF_HALF_F64 if wide else _TANH_OF_HALF_F32))
    factor = f.bitcast(power, x.type)
    less, more = f.fma(t, -(2.0**above), 2.0**above), f.fma(factor, t, factor)
    part = f.select(f.compare("lt", f.bitcast(x, x.type.as_int()), 0), more, less)
    return f.fdiv(part, f.add(less, more))


def tanh(f: FunctionBuilder, x: Val) -> Val:
    """(a + b tanh r) / (b + a tanh r) with the sign of x, where |x| == n ln(2)/2 + r, a = 1 - 2**-n and b = 1 + 2**-n, so that a / b is
    tanh(n ln(2)/2): 3 ulp."""
    wide = x.type.scalar == F64
    size, form = abs_(f, x), format_of(x.type)
    end = const(x.type, 20.0 if wide else 10.0)
    t = f.select(f.fcmp("olt", end, size), end, size)
    n, bits = nearest(f, t, -2 * LOG2E, form.bias)
    power = f.bitcast(f.shl(bits, form.mantissa), x.type)
    r = f.fma(n, LN2_HIGH_F64 / 2 if wide else _LN2_F32 / 2, t)
    if wide:
        r = f.fma(n, LN2_LOW_F64 / 2, r)
    square = f.mul(r, r)
    rest = f.fma(f.mul(r, square), horner(f, square, _TANH_F64 if wide else _TANH_F32), r)
    a, b = f.sub(1.0, power), f.add(power, 1.0)
    return signed(f, f.fdiv(f.fma(rest, b, a), f.fma(rest, a, b)), x)


def erf(f: FunctionBuilder, x: Val) -> Val:
    """The error function, as 1 - e**(-t q(t)) with t = |x|: 3 ulp in f32, 4 ulp in f64."""
    wide = x.type.scalar == F64
    size = abs_(f, x)
    end = const(x.type, 5.95 if wide else 3.93)
    t = f.select(f.fcmp("olt", end, size), end, size)
    exponent = f.mul(t, horner(f, t, _ERF_F64 if wide else _ERF_F32))
    return signed(f, _one_less_exp(f, f.neg(exponent)), x)
