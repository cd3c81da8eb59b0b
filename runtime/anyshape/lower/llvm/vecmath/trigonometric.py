"""sin and cos.

The argument is reduced by multiples of pi/2 held in three words; f32 is computed in f64, which makes its reduction good
far beyond any useful angle. Where a lane is larger still, a branch calls libm for it: the only one in vecmath.
"""

from __future__ import annotations

from ..builder import FunctionBuilder
from ..types import F32, F64, Val, const
from .pieces import horner
from .rounding import abs_, floor, round_even

# (sin(r)/r - 1) / r**2 and (cos(r) - 1 + r**2/2) / r**4, in r**2, on |r| <= pi/4
_SIN_SHORT = (-0.16666666641527428, 0.008333329374179408, -0.00019839331012773471, 2.7182746002581105e-06)
_COS_SHORT = (0.04166664681119168, -0.0013887364670280334, 2.443811004832329e-05)
_SIN_LONG = (
    -0.16666666666666632,
    0.00833333333332237,
    -0.0001984126982977122,
    2.7557313678689496e-06,
    -2.5050755965356917e-08,
    1.5896666732569302e-10,
)
_COS_LONG = (
    0.0416666666666666,
    -0.0013888888888874066,
    2.4801587289443644e-05,
    -2.755731434070665e-07,
    2.087572162998651e-09,
    -1.1359559641811852e-11,
)
# pi/2 in three words; the first two have 33 bits, so that their products with n < 2**20 are exact
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)


def sin(f: FunctionBuilder, x: Val) -> Val:
    """sin(x): 1 ulp in f32, 2 ulp in f64; NaN of an infinity."""
    return _with_large(f, "sin", x, f.select(f.compare("eq", x, 0.0), x, _by_quadrant(f, x, 0.0)))


def cos(f: FunctionBuilder, x: Val) -> Val:
    """cos(x), as precise as sin."""
    return _with_large(f, "cos", x, _by_quadrant(f, x, 1.0))


def _with_large(f: FunctionBuilder, name: str, x: Val, ordinary: Val) -> Val:
    """`ordinary`, or libm's result for lanes that are too large for the reduction: for those alone, since the result for a number must not
    depend on its neighbours, and a vector that is not full has lanes that are not used."""
    limit = 2.0**40 if x.type.scalar == F32 and f.target.fma else 2.0**20
    large = f.compare("ge", abs_(f, x), limit)
    anywhere = f.reduce("or", large) if x.type.lanes else large
    with f.if_else(anywhere) as branch:
        with branch.then():
            branch.give(f.select(large, _by_libm(f, name, x), ordinary))
        with branch.otherwise():
            branch.give(ordinary)
    return branch.results[0]


def _by_libm(f: FunctionBuilder, name: str, x: Val) -> Val:
    element, lanes = x.type.scalar, max(1, x.type.lanes)
    space = f.alloca(element, lanes)
    f.store(x, space)
    with f.for_range(0, lanes, at_least_once=True) as loop:
        item = f.load(space, element, loop.index)
        f.store(f.call_intrinsic(f"llvm.{name}", element, [item]), space, loop.index)
    return f.load(space, x.type)


def _by_quadrant(f: FunctionBuilder, x: Val, quadrants: float) -> Val:
    """sin(x + quadrants pi/2): sine or cosine of the rest, with a sign, by the quadrant."""
    short = x.type.scalar == F32
    wide = f.convert("fpext", x, F64) if short else x
    n = round_even(f, f.mul(wide, 0.6366197723675814))
    first = f.fma(n, -_HALF_PI[0], wide)
    second = f.fma(n, -_HALF_PI[1], first)
    r = f.fma(n, -_HALF_PI[2], second)
    shifted = f.add(n, quadrants)
    quadrant = f.fma(floor(f, f.mul(shifted, 0.25)), -4.0, shifted)
    square = f.mul(r, r)
    sine = f.fma(f.mul(r, square), horner(f, square, _SIN_SHORT if short else _SIN_LONG), r)
    quarter = horner(f, square, _COS_SHORT if short else _COS_LONG)
    cosine = f.fma(f.mul(square, square), quarter, f.fma(square, -0.5, 1.0))
    swapped = f.or_(f.compare("eq", quadrant, 1.0), f.compare("eq", quadrant, 3.0))
    size = f.select(swapped, cosine, sine)
    signed = f.select(f.compare("ge", quadrant, const(quadrant.type, 2.0)), f.neg(size), size)
    return f.convert("fptrunc", signed, F32) if short else signed
