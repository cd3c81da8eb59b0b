"""The functions that generated kernels call: elementwise operations, comparisons, conditionals, reductions over fresh variables; those of
indices are in `indexing`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyshape.dims import Dim, Size, floordiv, mod
from anyshape.dtypes import BOOL, I64, DType, accum, highest, lowest
from anyshape.equations.expr import (
    Const,
    Expr,
    ExprLike,
    Var,
    apply,
    as_expr,
    bitcast,
    cast,
    const,
    drawn,
    entropy,
    is_integer,
    reduce_node,
)  # fmt: skip
from anyshape.equations.indexing import at, checked, fit, item, pad, present, ravel, unravel, widened, wrap
from anyshape.equations.ranges import end_item, last_place, range_index, reduce_range
from anyshape.errors import SpecError

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "count", "argmax", "argmin", "first", "last")


def _of_one(name: str) -> Callable[[ExprLike], Expr]:
    return lambda x: apply(name, x)


def _of_two(name: str) -> Callable[[ExprLike, ExprLike], Expr]:
    return lambda x, y: apply(name, x, y)


exp, expm1, log, log1p, sqrt = map(_of_one, ("exp", "expm1", "log", "log1p", "sqrt"))
tanh, erf, sin, cos = map(_of_one, ("tanh", "erf", "sin", "cos"))
abs_, floor, ceil, round_even, trunc, not_ = map(_of_one, ("abs", "floor", "ceil", "round_even", "trunc", "not"))
pow_, trunc_div, fmod = map(_of_two, ("pow", "trunc_div", "fmod"))
bit_and, bit_or, bit_xor = map(_of_two, ("bit_and", "bit_or", "bit_xor"))
shift_left, shift_right = map(_of_two, ("shift_left", "shift_right"))
"""x shifted by y bits; to the left, zero if y is at least the number of bits of x."""
eq, ne, lt, le, gt, ge = map(_of_two, ("eq", "ne", "lt", "le", "gt", "ge"))
and_, or_ = map(_of_two, ("and", "or"))


def saturate(x: ExprLike, dtype: DType) -> Expr:
    """x as an integer or a narrow float, cut to its range. Casts of floats to integers of 8 bits and more do so by themselves."""
    e = as_expr(x)
    if e.dtype is not None and e.dtype.is_float and dtype.is_narrow:
        e = clamp(e, const(lowest(dtype), e.dtype), const(highest(dtype), e.dtype))
    elif e.dtype is not None and e.dtype.is_integer:
        low, high = (max(lowest(e.dtype), lowest(dtype)), min(highest(e.dtype), highest(dtype)))
        e = clamp(e, low, high)
    return cast(e, dtype)


def minimum(first: ExprLike, *rest: ExprLike) -> Expr:
    """The least of several values; NaN if any is NaN."""
    result = as_expr(first)
    for x in rest:
        result = apply("min", result, x)
    return result


def maximum(first: ExprLike, *rest: ExprLike) -> Expr:
    """The greatest of several values; NaN if any is NaN."""
    result = as_expr(first)
    for x in rest:
        result = apply("max", result, x)
    return result


def clamp(x: ExprLike, low: ExprLike, high: ExprLike) -> Expr:
    return minimum(maximum(x, low), high)


def where(condition: ExprLike, yes: Callable[[], ExprLike] | ExprLike, no: Callable[[], ExprLike] | ExprLike) -> Expr:
    """`yes if condition else no`. A condition known now chooses, and the other side is never built."""
    if isinstance(condition, Const):
        condition = bool(condition.value)
    if isinstance(condition, bool):
        chosen = yes if condition else no
        return as_expr(chosen() if callable(chosen) else chosen)
    return apply("select", condition, yes() if callable(yes) else yes, no() if callable(no) else no)


def reflect(i: ExprLike, n: ExprLike) -> Expr:
    """i mirrored at both ends of 0..n-1, the ends themselves once, until it is inside; for n > 0. Numbers of floats alike."""
    i, n = as_expr(i), as_expr(n)
    last = n * 2 - 2
    if is_integer(i):
        there = i % maximum(last, 1)
        return minimum(there, last - there)
    there = i % where(gt(n, 1), last, 1)
    return where(gt(n, 1), minimum(there, last - there), 0)


def int_(c: ExprLike) -> Expr:
    """A truth as a number, 1 or 0, of the dtype that it meets. Raises SpecError for anything else."""
    e = as_expr(c)
    if e.dtype is not BOOL:
        raise SpecError(f"int({e}) is of a truth, not of {e.dtype or 'a number'}")
    return apply("select", e, 1, 0)


def philox(seed: ExprLike, position: ExprLike, dtype: DType) -> Expr:
    """A random number, the same for equal seeds and positions: in [0, 1) of a float dtype, all its bits of an integer dtype."""
    return drawn(seed, position, dtype)


def reduce_(
    kind: str,
    extents: Iterable[Size],
    body: Callable[..., ExprLike],
    where: Callable[..., ExprLike] | None = None,
    names: Iterable[str] | None = None,
    last: bool = False,
) -> Expr:
    """`kind(body for vars in extents if where)`; one fresh variable for each extent. `first` and `last`: of one extent.

    sum and prod of T give accum(T); max, min, first and last T; count gives i64; any and all give bool; argmax and argmin the
    (first) position among the extents in row-major order, as i64.
    """
    if kind not in REDUCTIONS:
        raise SpecError(f"{kind} is not a reduction; the reductions are {', '.join(REDUCTIONS)}")
    sizes = tuple(extents)
    if kind in ("first", "last") or last:
        (extent,) = sizes
        return last_place(kind, extent, body, where) if last else end_item(kind, extent, body, where)
    labels = tuple(names) if names is not None else tuple(f"r{i}" for i in range(len(sizes)))
    variables = tuple(Var(label, n) for label, n in zip(labels, sizes, strict=True))
    value = as_expr(body(*variables))
    condition = as_expr(where(*variables)) if where is not None else None
    if isinstance(condition, Const) and condition.value is True:
        condition = None
    if kind == "count":
        counted = value if condition is None else apply("and", value, condition)
        return reduce_node("sum", variables, apply("select", counted, const(1, I64), const(0, I64)), None, I64)
    if kind in ("any", "all"):
        return reduce_node(kind, variables, value, condition, BOOL)
    if kind in ("argmax", "argmin"):
        return reduce_node(kind, variables, value, condition, I64)
    if kind in ("sum", "prod") and value.dtype is not None:
        wide = accum(value.dtype)
        return reduce_node(kind, variables, cast(value, wide), condition, wide)
    return reduce_node(kind, variables, value, condition, value.dtype)


def fold(kind: str, items: Iterable[ExprLike]) -> Expr:
    """sum, prod, max, min, any or all of values that are listed one by one. Raises SpecError for the max or min of none."""
    op, neutral = _FOLDS[kind]
    result: Expr | None = None
    for value in items:
        result = as_expr(value) if result is None else apply(op, result, value)
    if result is not None:
        return result
    if neutral is None:
        raise SpecError(f"the {kind} of no values")
    return const(neutral)


_FOLDS: dict[str, tuple[str, int | bool | None]] = {
    "sum": ("add", 0), "prod": ("mul", 1), "max": ("max", None), "min": ("min", None), "any": ("or", False), "all": ("and", True),
}  # fmt: skip


def quotient(a: ExprLike, b: ExprLike) -> Expr:
    """a // b, rounded down; 0 where b is 0, as for elements."""
    if isinstance(a, int | Dim) and isinstance(b, int | Dim):
        return as_expr(floordiv(a, b))
    return apply("floordiv", a, b)


def remainder(a: ExprLike, b: ExprLike) -> Expr:
    """a % b, with the sign of b; 0 where b is 0, as for elements."""
    if isinstance(a, int | Dim) and isinstance(b, int | Dim):
        return as_expr(mod(a, b))
    return apply("mod", a, b)


def inside(index: Iterable[ExprLike], extents: Iterable[Size]) -> Expr:
    """Whether 0 <= i < n for every index and its extent."""
    return fold("all", (and_(ge(i, 0), lt(i, n)) for i, n in zip(index, extents, strict=True)))


__all__ = [
    "abs_", "and_", "at", "bit_and", "bit_or", "bit_xor", "bitcast", "cast", "ceil", "checked", "clamp", "cos", "entropy",
    "eq", "erf", "exp", "expm1", "fit", "floor", "fmod", "fold", "ge", "gt", "inside", "int_", "item", "le", "log", "log1p", "lt",
    "maximum", "minimum", "ne", "not_", "or_", "pad", "philox", "pow_", "present", "quotient", "range_index", "ravel", "reduce_",
    "reduce_range", "reflect", "remainder", "round_even", "saturate", "shift_left", "shift_right", "sin", "sqrt", "tanh", "trunc",
    "trunc_div", "unravel", "where", "widened", "wrap",
]  # fmt: skip
