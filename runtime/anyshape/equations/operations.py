"""How many operations equations ask for, and how much they read, as they are written: what figures per second are made of.

In: equations. Out: counts as `Size`s. A multiplication, a comparison and an `exp` are one operation each; what several places of one
equation have in common counts once; reads, integer indices, casts and roundings count nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.dims import Size
from anyshape.equations.builder import Equation, Run, Update
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor, Var
from anyshape.equations.traversal import walk

_CONVERSIONS = ("cast", "round_bf16", "round_f16")


def operations(equations: Iterable[Equation]) -> Size:
    """The number of operations of all elements together."""
    total: Size = 0
    for q in equations:
        points, seen = _points(q.variables), set[Expr]()
        total = total + _of(q.value, points, seen)
        if isinstance(q.form, Update) and q.form.where is not None:
            total = total + _of(q.form.where, points, seen)
    return total


def _of(e: Expr, times: Size, seen: set[Expr]) -> Size:
    """The number of operations of one value that is computed `times` times."""
    if e in seen:
        return 0
    seen.add(e)
    if isinstance(e, Reduce):
        inner = times * _points(e.vars)
        where = _of(e.where, inner, seen) if e.where is not None else 0
        return inner + where + _of(e.body, inner, seen)
    if isinstance(e, Apply):
        total: Size = 0 if e.op in _CONVERSIONS else times
        for a in e.args:
            total = total + _of(a, times, seen)
        return total
    return 0


def _points(variables: Iterable[Expr]) -> Size:
    total: Size = 1
    for v in variables:
        if isinstance(v, Var):
            total = total * v.extent
    return total


def elements_read(equations: Iterable[Equation], t: Tensor) -> Size | None:
    """An upper bound on the elements of a tensor that are read, once each: one for every value of the variables of an index, so that rows
    which data picks from a table count, and the table does not. None where nothing is known: a procedure may read anything."""
    total: Size = 0
    counted: set[Expr] = set()
    for q in equations:
        if isinstance(q.form, Run):
            return None
        for e in (e for part in q.expressions for e in walk(part)):
            if isinstance(e, Read) and e.tensor is t and e not in counted:
                counted.add(e)
                total = total + _points(e.free)
    return total
