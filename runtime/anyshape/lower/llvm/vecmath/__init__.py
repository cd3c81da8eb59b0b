"""Vector mathematics: values in, values out; branch-free except for sin and cos of huge angles.

In: an open `FunctionBuilder` and f32 or f64 values (scalars or vectors of any width). Out: the result, IEEE specials included:
NaN comes out of NaN, exp(-inf) = 0, log(0) = -inf, log(-1) = NaN, erf(inf) = 1, x ** 0 = 1. Narrower floats are
converted by the caller. Each function states its bound in ulp (of results in the normal range); the tests hold them to
it. The polynomials are minimax fits made for this project with the Remez exchange in 50 digits.
"""

from .exponential import erf, exp, expm1, sigmoid, tanh
from .integers import floor_div, floor_mod, trunc_div, trunc_mod
from .logarithm import log, log1p
from .power import pow_
from .rounding import abs_, ceil, copysign, floor, fmod, maximum, minimum, round_even, sqrt, trunc
from .trigonometric import cos, sin

__all__ = [
    "abs_", "ceil", "copysign", "cos", "erf", "exp", "expm1", "floor", "floor_div", "floor_mod", "fmod", "log", "log1p", "maximum",
    "minimum", "pow_", "round_even", "sigmoid", "sin", "sqrt", "tanh", "trunc", "trunc_div", "trunc_mod"
]  # fmt: skip
