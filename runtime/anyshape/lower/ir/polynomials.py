"""Polynomials that an equation writes out by Horner's rule: each step is a fused multiply-add.

In: an expression of one equation, so that what it comes to does not depend on what else is in the kernel. Out: its step, if it is one of
two at least.
"""

from __future__ import annotations

from anyshape.equations import Apply, Const, Expr
from anyshape.equations.expr import const

Step = tuple[Expr, Expr, float]
"""A variable, what is left of the polynomial, and the coefficient that is added to their product."""


def polynomial_step(e: Expr) -> Step | None:
    """The step of c + x * (d + x * rest)."""
    for x, rest, c in _steps(e):
        if any(x is y for y, _, _ in _steps(rest)):
            return x, rest, c
    return None


def _steps(e: Expr) -> list[Step]:
    """What e is as c + x * rest."""
    match e:
        case Apply(op="add", args=(Const(value=c), Apply(op="mul", args=(x, y)))):
            return [(x, y, float(c)), (y, x, float(c))]
        case Apply(op="add", args=(Apply(op="mul", args=(x, y)), Const(value=c))):
            return [(x, y, float(c)), (y, x, float(c))]
        case Apply(op="sub", args=(Apply(op="mul", args=(x, y)), Const(value=c))):
            return [(x, y, -float(c)), (y, x, -float(c))]
        case Apply(op="sub", args=(Const(value=c), Apply(op="mul", args=(x, y)))):
            return [(a, const(-b.value, b.dtype), float(c)) for a, b in ((x, y), (y, x)) if isinstance(b, Const)]
    return []
