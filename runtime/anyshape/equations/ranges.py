"""Reductions over part of a range, and the first or last of something: by reductions that there are already.

In: bodies of variables, ends of ranges as expressions of other variables. Out: expressions. A range becomes a whole extent, which its
ends' least and greatest values give, with a condition; `j <= k` is what running sums are recognised by.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import BOOL, I64
from anyshape.equations.expr import Apply, Const, Expr, ExprLike, Scalar, Var, apply, as_expr, const, reduce_node
from anyshape.errors import SpecError

RangeBody = Callable[..., ExprLike]


def reduce_range(kind: str, low: ExprLike, high: ExprLike, body: RangeBody, where: RangeBody | None = None) -> Expr:
    """`kind(body for j in range(low, high) if where)`, where low and high depend on variables of the equation."""
    from anyshape.equations.functions import reduce_

    a, b = as_expr(low), as_expr(high)
    start, stop = _ends(a)[0], _ends(b)[1]
    begin: Size = 0 if dims.ge(start, 0) is True else start

    def at(v: Expr) -> Expr:
        return v + begin

    def inside(v: Expr) -> Expr:
        tests = [] if where is None else [as_expr(where(at(v)))]
        if a.free or start != begin:
            tests.append(_beyond(at(v), a))
        if b.free:
            tests.append(_below(at(v), b))
        condition = tests[0]
        for t in tests[1:]:
            condition = apply("and", condition, t)
        return condition

    whole = where is None and not a.free and start == begin and not b.free
    return reduce_(kind, [dims.maximum(0, stop - begin)], lambda v: body(at(v)), None if whole else inside)


def range_index(name: str, low: ExprLike, high: ExprLike) -> tuple[Expr, Expr]:
    """A variable of an update over `range(low, high)`: its value, and the condition that it is inside; True where the ends are sizes."""
    a, b = as_expr(low), as_expr(high)
    begin, stop = _ends(a)[0], _ends(b)[1]
    v = Var(name, dims.maximum(0, stop - begin)) + begin
    tests = [test(v, end) for test, end in ((_beyond, a), (_below, b)) if end.free]
    return v, tests[0] if len(tests) == 1 else apply("and", *tests) if tests else const(True, BOOL)


def _below(v: Expr, high: Expr) -> Expr:
    """v < k + 1 is v <= k."""
    if isinstance(high, Apply) and high.op == "add" and isinstance(high.args[1], Const) and high.args[1].value == 1:
        return apply("le", v, high.args[0])
    return apply("lt", v, high)


def _beyond(v: Expr, low: Expr) -> Expr:
    """v >= k + 1 is v > k."""
    if isinstance(low, Apply) and low.op == "add" and isinstance(low.args[1], Const) and low.args[1].value == 1:
        return apply("gt", v, low.args[0])
    return apply("ge", v, low)


def _ends(e: Expr) -> tuple[Size, Size]:
    """The least and the greatest value of an index."""
    if isinstance(e, Const):
        return int(e.value), int(e.value)
    if isinstance(e, Scalar) and isinstance(e.size, (int, dims.Dim)):
        return e.size, e.size
    if isinstance(e, Var):
        return 0, e.extent - 1
    if isinstance(e, Apply) and e.op in ("add", "sub", "min", "max"):
        (a, b), (c, d) = map(_ends, e.args)
        if e.op == "add":
            return a + c, b + d
        if e.op == "sub":
            return a - d, b - c
        f = dims.minimum if e.op == "min" else dims.maximum
        return f(a, c), f(b, d)
    if isinstance(e, Apply) and e.op in ("mul", "floordiv") and isinstance(e.args[1], Const) and e.args[1].value > 0:
        (a, b), by = _ends(e.args[0]), int(e.args[1].value)
        return (a * by, b * by) if e.op == "mul" else (a // by, b // by)
    raise SpecError(f"the end {e} of a range has no least and greatest value that can be told before a kernel runs")


def last_place(kind: str, extent: Size, body: RangeBody, where: RangeBody | None) -> Expr:
    """argmax or argmin, the last of equal ones; NaN is the greatest and the least."""
    best_of, v = Var("r0", extent), Var("r1", extent)
    condition = None if where is None else as_expr(where(best_of))
    value = as_expr(body(best_of))
    best = reduce_node(kind[3:], (best_of,), value, condition, value.dtype)
    mine = as_expr(body(v))
    hit = apply("eq", mine, best)
    if mine.dtype is not None and mine.dtype.is_float:
        hit = apply("or", hit, apply("ne", mine, mine))
    if where is not None:
        hit = apply("and", hit, as_expr(where(v)))
    return apply("max", reduce_node("max", (v,), apply("select", hit, v, const(-1, I64)), None, I64), const(-1, I64))


def end_item(kind: str, extent: Size, body: RangeBody, where: RangeBody | None) -> Expr:
    """The first or last value for which the condition holds; the lowest of its dtype if there is none."""
    v, w = Var("r0", extent), Var("r1", extent)
    condition = None if where is None else as_expr(where(v))
    place = reduce_node("min" if kind == "first" else "max", (v,), v, condition, I64)
    value = as_expr(body(w))
    fold = "any" if value.dtype is BOOL else "max"
    return reduce_node(fold, (w,), value, apply("eq", w, place), value.dtype)
