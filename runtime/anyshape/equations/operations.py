"""How many operations equations ask for, as they are written: what figures per second are made of.

In: equations. Out: a count as a `Size`. A multiplication, a comparison and an `exp` are one operation each; what several places of one
equation have in common counts once; reads and integer indices count nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.dims import Size
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Apply, Expr, Reduce, Var


def operations(equations: Iterable[Equation]) -> Size:
    """Of all elements together."""
    total: Size = 0
    for q in equations:
        total = total + _of(q.value, _points(q.variables), set())
    return total


def _of(e: Expr, turns: Size, seen: set[Expr]) -> Size:
    """Of one value, computed so many times."""
    if e in seen:
        return 0
    seen.add(e)
    if isinstance(e, Reduce):
        inner = turns * _points(e.vars)
        where = _of(e.where, inner, seen) if e.where is not None else 0
        return inner + where + _of(e.body, inner, seen)
    if isinstance(e, Apply):
        total: Size = 0 if e.op == "cast" else turns
        for a in e.args:
            total = total + _of(a, turns, seen)
        return total
    return 0


def _points(variables: Iterable[Expr]) -> Size:
    total: Size = 1
    for v in variables:
        if isinstance(v, Var):
            total = total * v.extent
    return total
