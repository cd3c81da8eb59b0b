"""Indices as the adjoint solves them: the variables that an index counts, and how far it is from one of them.

In: index expressions. Out: variables and sizes; none where an index is something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape import dims
from anyshape.dims import Dim, Size
from anyshape.equations.expr import Apply, Const, Expr, Scalar, Var


def in_order_of_places(index: Sequence[Expr]) -> tuple[Var, ...]:
    """The variables of an index, so that places which follow each other come one after the other, innermost: at p * s + q, q is outside."""
    plain, places, taps = list[Var](), list[Var](), list[Var]()
    for i in index:
        digits = digits_of(i)
        first, more = (digits or tuple(sorted(i.free, key=lambda v: v.serial)))[:1], (digits or i.free)
        (plain if digits else places).extend(first)
        (plain if digits else taps).extend(sorted(set(more).difference(first), key=lambda v: v.serial))
    return tuple(dict.fromkeys((*plain, *taps, *places)))


def are_alike(a: Sequence[Var], b: Sequence[Var]) -> bool:
    """Whether variables have the extents of others."""
    return len(a) == len(b) and all(dims.eq(v.extent, w.extent) is True for v, w in zip(a, b))


def digits_of(i: Expr, n: Size | None = None) -> tuple[Var, ...]:
    """The variables of an index that counts all their values, the slowest first: h and j of h * c + j, where j is below c; none of another
    index, or of one that does not count to n, if that is given."""
    digits: list[Var] = []
    weight: Size = 1
    for v, factor in reversed(_weighted(i, 1)):
        if v is None or v in digits or dims.eq(factor, weight) is not True:
            return ()
        digits.append(v)
        weight = weight * v.extent
    return tuple(reversed(digits)) if n is None or dims.eq(weight, n) is True else ()


def _weighted(i: Expr, by: Size) -> list[tuple[Var | None, Size]]:
    """The summands of an index, each a variable times a size; None where one is something else."""
    if isinstance(i, Var):
        return [(i, by)]
    if isinstance(i, Apply) and i.op == "add":
        return [part for a in i.args for part in _weighted(a, by)]
    if isinstance(i, Apply) and i.op == "mul":
        n = i.args[1]
        size = n.value if isinstance(n, Const) else n.size if isinstance(n, Scalar) else None
        if isinstance(size, int | Dim) and not isinstance(size, bool):
            return _weighted(i.args[0], by * size)
    return [(None, by)]


def shift_of(i: Expr) -> tuple[Var | None, Size]:
    """The variable of an index and the size that is added to it; no variable where it is something else."""
    if isinstance(i, Apply) and i.op in ("add", "sub"):
        (v, before), n = shift_of(i.args[0]), i.args[1]
        size = n.value if isinstance(n, Const) else n.size if isinstance(n, Scalar) else None
        if v is not None and isinstance(size, int | Dim) and not isinstance(size, bool):
            return v, before + size if i.op == "add" else before - size
    return (i, 0) if isinstance(i, Var) else (None, 0)


def moved_by(p: Expr, by: Size) -> Expr:
    """A place so much further on: a variable and one size, as recurrences are read."""
    v, more = shift_of(p)
    if v is None:
        return p + by
    by = more + by
    return v - -by if isinstance(by, int) and by < 0 else v if isinstance(by, int) and by == 0 else v + by
