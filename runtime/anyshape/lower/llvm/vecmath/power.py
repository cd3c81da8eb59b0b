"""x ** y for floats, by C99's rules for the special cases.

A power that a float holds exactly is that float: 9 ** 0.5 is 3, and what is cut from it to an integer is 3, not 2. f32 goes through f64,
where log and exp are precise enough as they are. f64 needs log(x) to about 20 bits more than an f64 holds, so it is made of two words, and
so is what e is raised to.
"""

from __future__ import annotations

import math

from ..builder import FunctionBuilder
from ..types import F32, F64, Val, ValLike, const
from .exponential import exp, exp_of_two
from .logarithm import LN2_HIGH_F64, LN2_LOW_F64, log
from .pieces import Double, double_product, double_sum, horner, quick_sum, split_exponent, two_product, two_sum
from .rounding import abs_, trunc

# (2 atanh(s) - 2 s - 2/3 s**3) / s**5 in s**2, on |s| <= 3 - 2 sqrt(2)
_TAIL = (
    0.3999999999999998, 0.2857142857144522, 0.22222222217510604, 0.18181818873491376, 0.15384556653984008,
    0.13336325780305427, 0.11674648518760754, 0.11990431102413379
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def pow_(f: FunctionBuilder, a: ValLike, b: ValLike) -> Val:
    """a ** b: 1 ulp, in f64 0.6 ulp. x**0 = 1 = 1**y even of NaN; a negative base wants an integral exponent."""
    x, y = f.pair(a, b)
    if x.type.scalar == F32:
        wide = F64.vector(x.type.lanes)
        x64, y64 = f.convert("fpext", x, wide), f.convert("fpext", y, wide)
        size64 = exp(f, f.mul(y64, log(f, abs_(f, x64))))
        size = f.convert("fptrunc", size64, F32)
    else:
        size = _pow_of_size(f, abs_(f, x), y)
    return _specials(f, x, y, size)


def _log_in_two(f: FunctionBuilder, x: Val) -> Double:
    """log(x) of a positive finite x, to about 2**-68 of its size."""
    m, e = split_exponent(f, x)
    t = f.sub(m, 1.0)
    below = two_sum(f, m, const(m.type, 1.0))
    high = f.fdiv(t, below.high)
    rest = f.fma(f.neg(high), below.high, t, exact=True)
    s = Double(high, f.fdiv(f.fma(f.neg(high), below.low, rest), below.high))
    square = double_product(f, s, s)
    cube = double_product(f, square, s)
    third = double_product(f, cube, Double(const(x.type, _TWO_THIRDS[0]), const(x.type, _TWO_THIRDS[1])))
    tail = f.mul(f.mul(cube.high, square.high), horner(f, square.high, _TAIL))
    twice = Double(f.add(s.high, s.high), f.add(s.low, s.low))
    mantissa = double_sum(f, twice, quick_sum(f, third.high, f.add(third.low, tail)))
    exponent = quick_sum(f, f.mul(e, LN2_HIGH_F64), f.mul(e, LN2_LOW_F64))
    return double_sum(f, exponent, mantissa)


def _pow_of_size(f: FunctionBuilder, x: Val, y: Val) -> Val:
    """x ** y for x >= 0 in f64; zero, infinite and NaN operands go by the plain product of y and log x."""
    finite = f.and_(f.compare("gt", x, 0.0), f.compare("lt", x, math.inf))
    finite = f.and_(finite, f.compare("lt", abs_(f, y), math.inf))
    logarithm = _log_in_two(f, x)
    product = two_product(f, y, logarithm.high)
    low = f.fma(y, logarithm.low, product.low)
    inside = f.and_(finite, f.compare("lt", abs_(f, product.high), 800.0))
    low = f.select(inside, low, const(x.type, 0.0))
    high = f.select(finite, product.high, f.mul(y, log(f, x)))
    return exp_of_two(f, Double(high, low))


def _specials(f: FunctionBuilder, x: Val, y: Val, size: Val) -> Val:
    """Signs, and the cases in which the size alone is not the answer."""
    integral = f.compare("eq", trunc(f, y), y)
    half = f.mul(y, 0.5)
    odd = f.and_(integral, f.compare("ne", trunc(f, half), half))
    odd = f.and_(odd, f.compare("lt", abs_(f, y), math.inf))
    negative = f.compare("lt", f.bitcast(x, x.type.as_int()), 0)
    signed = f.select(f.and_(negative, odd), f.neg(size), size)
    undefined = f.and_(f.compare("lt", x, 0.0), f.not_(integral))
    undefined = f.and_(undefined, f.compare("gt", x, -math.inf))
    signed = f.select(undefined, const(x.type, math.nan), signed)
    nan = f.or_(f.fcmp("uno", x, y), undefined)
    signed = f.select(nan, const(x.type, math.nan), signed)
    minus_one = f.and_(f.compare("eq", x, -1.0), f.compare("eq", abs_(f, y), math.inf))
    one = f.or_(f.or_(f.compare("eq", x, 1.0), f.compare("eq", y, 0.0)), minus_one)
    return f.select(one, const(x.type, 1.0), signed)
