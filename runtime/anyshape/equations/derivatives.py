"""Derivatives of the elementwise operations, as expressions: what a small change of each operand does to the result.

In: an operation and how much its result counts. Out: for each operand that has a derivative, how much it counts. Where an
operation has a corner, one side of it is taken: of max and min at equal operands, the second; of abs at 0, neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from anyshape.dtypes import accum
from anyshape.equations.expr import Apply, Expr, apply, cast, const

Shares = list[tuple[Expr, Expr]]
"""Pairs of an operand and its contribution to the gradient."""


def shares_of(e: Apply, seed: Expr) -> Shares | None:
    """The contributions to the operands of an operation; None if its derivative is not known. Operands that are no floats have none."""
    if e.op in _FLAT:
        return []
    rule = _RULES.get(e.op)
    return None if rule is None else rule(e, seed)


_FLAT = frozenset(("floor", "ceil", "round_even", "trunc", "trunc_div", "floordiv"))
"""Steps: the derivative is 0 wherever there is one."""


def _one(factor: Callable[[Expr, Apply], Expr]) -> Callable[[Apply, Expr], Shares]:
    """The derivative of an operation with one operand, whose factor depends on the operand and the result."""
    return lambda e, seed: [(e.args[0], seed * factor(e.args[0], e))]


def _choice(e: Apply, seed: Expr) -> Shares:
    a, b = e.args
    first = apply("gt" if e.op == "max" else "lt", a, b)
    nothing = const(0.0, seed.dtype)
    return [(a, apply("select", first, seed, nothing)), (b, apply("select", first, nothing, seed))]


def _power(e: Apply, seed: Expr) -> Shares:
    a, b = e.args
    nothing = const(0.0, seed.dtype)
    slope = apply("select", apply("eq", b, 0.0), nothing, b * apply("pow", a, b - 1.0))
    growth = apply("select", apply("gt", a, 0.0), e * apply("log", a), nothing)
    return [(a, seed * slope), (b, seed * growth)]


def _root(e: Apply, seed: Expr) -> Shares:
    """The slope at 0 is infinite; a result that does not count makes its operand count nothing there, too. So the gradient of equal
    elements that are normalised is 0, and no NaN."""
    return [(e.args[0], apply("select", apply("eq", seed, 0.0), const(0.0, seed.dtype), seed * (0.5 / e)))]


def _sign(a: Expr) -> Expr:
    return apply("select", apply("gt", a, 0.0), 1.0, apply("select", apply("lt", a, 0.0), -1.0, const(0.0, a.dtype)))


def _cast(e: Apply, seed: Expr) -> Shares:
    """The derivative of a cast: the seed in the accumulation dtype of the source, without rounding to a narrower float."""
    source = e.args[0].dtype
    return [(e.args[0], cast(seed, accum(source)))] if source is not None and source.is_float else []


_RULES: dict[str, Callable[[Apply, Expr], Shares]] = {
    "add": lambda e, s: [(e.args[0], s), (e.args[1], s)],
    "sub": lambda e, s: [(e.args[0], s), (e.args[1], -s)],
    "mul": lambda e, s: [(e.args[0], s * e.args[1]), (e.args[1], s * e.args[0])],
    "div": lambda e, s: [(e.args[0], s / e.args[1]), (e.args[1], -(s * e / e.args[1]))],
    "fmod": lambda e, s: [(e.args[0], s), (e.args[1], -(s * apply("trunc", e.args[0] / e.args[1])))],
    "mod": lambda e, s: [(e.args[0], s), (e.args[1], -(s * apply("floor", e.args[0] / e.args[1])))],
    "max": _choice,
    "min": _choice,
    "pow": _power,
    "neg": lambda e, s: [(e.args[0], -s)],
    "abs": _one(lambda a, y: _sign(a)),
    "exp": _one(lambda a, y: y),
    "expm1": _one(lambda a, y: y + 1.0),
    "log": _one(lambda a, y: 1.0 / a),
    "log1p": _one(lambda a, y: 1.0 / (1.0 + a)),
    "sqrt": _root,
    "tanh": _one(lambda a, y: 1.0 - y * y),
    "erf": _one(lambda a, y: apply("exp", -(a * a)) * (2.0 / math.sqrt(math.pi))),
    "sin": _one(lambda a, y: apply("cos", a)),
    "cos": _one(lambda a, y: -apply("sin", a)),
    "cast": _cast,
}
