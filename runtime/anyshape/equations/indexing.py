"""How generated kernels say which element they mean: indices that are wrapped, checked, fitted, numbered row by row.

In: index expressions and extents. Out: index expressions, or reads that look after indices out of range.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.dims import Size
from anyshape.dims import eq as size_eq
from anyshape.dtypes import I64
from anyshape.equations.expr import (
    Apply,
    Const,
    Expr,
    ExprLike,
    Tensor,
    Var,
    apply,
    as_expr,
    cast,
    const,
    position,
    read,
    scalar,
)
from anyshape.errors import ShapeError


def wrap(i: ExprLike, n: ExprLike) -> Expr:
    """An index, counted from the end where negative. Read with it, an index out of -n..n-1 is an error at run time."""
    return apply("wrap", cast(position(i), I64), n)


def widened(e: ExprLike) -> Expr:
    """An integer as a part of an index or of the end of a range, which are computed in i64 whatever the dtype of what is read."""
    known = as_expr(e)
    return cast(known, I64) if known.dtype is not None and known.dtype.is_integer else known


class Checked:
    """A tensor whose indices are checked when they are used, whatever they are; one that is out of range is an error at run time."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __getitem__(self, index: ExprLike | slice | tuple[ExprLike | slice, ...]) -> Expr:
        items = index if isinstance(index, tuple) else (index,)
        if self.tensor.absent is not None or len(items) != len(self.tensor.shape):
            return self.tensor[items]
        pairs = zip(items, self.tensor.shape)
        return self.tensor[tuple(i if isinstance(i, slice) else _within(as_expr(i), n) for i, n in pairs)]


def checked(tensor: Tensor) -> Checked:
    """`checked(x)[i]` is x[i], for an index that nothing proved to be in range: it is tested at run time."""
    return Checked(tensor)


def _within(i: Expr, n: Size) -> Expr:
    if isinstance(i, Var) and i.extent == n:
        return i
    return apply("within", cast(position(i), I64), n)


def pad(tensor: Tensor, value: ExprLike) -> Padded:
    """`pad(x, v)[i]` is x[i], and v where i is out of range."""
    return Padded(tensor, value)


def present(tensor: Tensor) -> bool:
    """Whether an optional input was given."""
    return tensor.absent is None


class Padded:
    """A tensor whose reads outside its shape give a value."""

    def __init__(self, tensor: Tensor, value: ExprLike) -> None:
        self.tensor, self.value = tensor, value

    def __getitem__(self, index: ExprLike | tuple[ExprLike, ...]) -> Expr:
        return read(self.tensor, index if isinstance(index, tuple) else (index,), outside=self.value)


def fit(variables: Iterable[ExprLike], extents: Iterable[Size]) -> tuple[Expr, ...]:
    """An implicit broadcast read: the last len(extents) variables, with 0 where the dim is 1, and open where undecided.

    Raises ShapeError where there are fewer variables than dims."""
    sizes = tuple(extents)
    vars_ = tuple(map(as_expr, variables))
    if len(sizes) > len(vars_):
        raise ShapeError(f"what has the dims {list(map(str, sizes))} does not broadcast to {len(vars_)} dims")
    index: list[Expr] = []
    for v, n in zip(vars_[len(vars_) - len(sizes) :], sizes, strict=True):
        if isinstance(v, Var) and v.extent == n:
            index.append(v)
            continue
        one = size_eq(n, 1)
        index.append(
            const(0, I64) if one is True else v if one is False else apply("select", scalar(one), const(0, I64), v)
        )
    return tuple(index)


def item(values: Iterable[ExprLike], position: ExprLike) -> Expr:
    """values[position] for a position that is an expression: a selection among the items, the last one for any other."""
    items = tuple(map(as_expr, values))
    i = as_expr(position)
    if not items:
        return const(0)
    if isinstance(i, Const):
        return items[int(i.value)]
    result = items[-1]
    for k in range(len(items) - 2, -1, -1):
        result = apply("select", apply("eq", i, k), items[k], result)
    return result


def ravel(index: Iterable[ExprLike], extents: Iterable[Size]) -> Expr:
    """The position of an element in row-major order."""
    position: Expr = const(0, I64)
    for i, n in zip(index, extents, strict=True):
        position = position * n + cast(i, I64)
    return position


def unravel(position: ExprLike, extents: Iterable[Size]) -> tuple[Expr, ...]:
    """The index of the element at a position in row-major order. The first entry is not cut to its extent: a position past the end
    is an index past the end."""
    rest, index = cast(position, I64), []
    for k, n in reversed(list(enumerate(extents))):
        index.append(rest % n if k else rest)
        rest = rest // n
    return tuple(reversed(index))


def at(rest: Iterable[Expr], picked: Iterable[Expr], axes: Iterable[int]) -> tuple[Expr, ...]:
    """The index of `[*rest, *picked@axes]`: picked[k] at position axes[k], rest in order elsewhere."""
    chosen = dict(zip(axes, picked, strict=True))
    left = tuple(rest)
    unchosen = iter(left)
    total = len(chosen) + len(left)
    return tuple(chosen[p] if p in chosen else next(unchosen) for p in range(total))


def is_variable(i: Expr, v: Var) -> bool:
    """Whether an index is the variable itself, checked or not."""
    return i is v or (isinstance(i, Apply) and i.op == "within" and i.args[0] is v)
