"""Functions that make a list from lists by position: filled, chosen, put, ordered.

In: lists of ints, dims and conditions. Out: a `Vec`, or a position. What the length of a result or the place of an item hangs on must
be a number: `Undetermined` says what is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from anyshape import dims
from anyshape.dims import Cond, Dim
from anyshape.errors import ShapeError
from anyshape.rules.vec import Undetermined, Vec, eq, is_vector, truth


def number(n: Any, what: str) -> int:
    """A length or position that must be known for the structure of a result."""
    if n.__class__ is int or n.__class__ is bool:
        return int(n)
    if n.__class__ is Dim or n.__class__ is Cond:
        raise Undetermined("", f"{what} is {n}, which is not known")
    return int(n)


MOST_ITEMS = 1 << 20
"""The most items of a list in a rule (axes, tensors, sizes), as a model may ask for any number."""


def _few(n: int) -> int:
    if n > MOST_ITEMS:
        raise ShapeError(f"a list of {n} items is longer than any of axes, tensors or sizes may be ({MOST_ITEMS})")
    return n


def fill(n: Any, x: Any) -> Vec:
    return Vec((x,) * _few(number(n, "a length")))


def put(v: Sequence[Any], positions: Any, items: Any) -> Vec:
    """v with items at the positions; scalars stand for vectors of one, and a scalar item goes to every position."""
    result = list(v)
    indices = positions if is_vector(positions) else (positions,)
    values = items if is_vector(items) else (items,) * len(indices)
    if len(indices) != len(values):
        raise ShapeError(f"{len(values)} items cannot be put at the {len(indices)} positions {Vec(indices)}")
    for i, x in zip(indices, values):
        k = number(i, "a position")
        if not -len(result) <= k < len(result):
            raise ShapeError(f"position {k} is out of range for {Vec(v)}, which has {len(result)} items")
        result[k] = x
    return Vec(result)


def range_(*bounds: Any) -> Vec:
    numbers = range(*(number(b, "a bound of a range") for b in bounds))
    if numbers:
        _few((numbers[-1] - numbers[0]) // numbers.step + 1)
    return Vec(numbers)


def enumerate_(v: Iterable[Any]) -> Vec:
    return Vec(Vec(pair) for pair in enumerate(v))


def sorted_(v: Iterable[Any]) -> Vec:
    return Vec(sorted(number(x, "an item to be sorted") if isinstance(x, Dim | Cond) else x for x in v))


def unique(v: Iterable[Any]) -> Vec:
    """The items without repetitions, in the order of first appearance; items must be known to be equal or not."""
    kept: list[Any] = []
    for x in v:
        same = [eq(x, y) for y in kept]
        if True in same:
            continue
        if any(s.__class__ is Cond for s in same):
            raise Undetermined("", f"whether {x} repeats one of {Vec(kept)} is not known")
        kept.append(x)
    return Vec(kept)


_before: tuple[Any, Vec] = (None, Vec(()))
"""The last vector that was asked for, and its sums: whoever wants one of them usually wants each in turn."""


def prefix(v: Iterable[Any]) -> Vec:
    """The sums of what stands before each item: prefix([2, 3, 4]) == [0, 2, 5]."""
    global _before
    known, sums_before = _before
    if known is v:
        return sums_before
    total: Any = 0
    sums = []
    for x in v:
        sums.append(total)
        total = total + x
    sums_before = Vec(sums)
    if isinstance(v, Vec):
        _before = (v, sums_before)
    return sums_before


def ravel(index: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The row-major position of an index."""
    if len(index) != len(shape):
        raise ShapeError(f"an index of {len(index)} items does not fit the rank {len(shape)} of {Vec(shape)}")
    position: Any = 0
    for i, n in zip(index, shape):
        position = position * n + i
    return position


def unravel(position: Any, shape: Sequence[Any]) -> Vec:
    """The index of a row-major position; the opposite of ravel."""
    items: list[Any] = []
    for n in reversed(shape):
        items.append(dims.mod(position, n))
        position = dims.floordiv(position, n)
    return Vec(reversed(items))


def index(v: Sequence[Any], x: Any) -> int:
    """The position of the first item equal to x."""
    for k, y in enumerate(v):
        same = eq(x, y)
        if same.__class__ is Cond:
            raise Undetermined("", f"whether {x} is at position {k} of {Vec(v)} is not known")
        if same:
            return k
    raise ShapeError(f"{x} is not in {Vec(v)}")


def keep(items: Iterable[Any], conditions: Iterable[Any]) -> Vec:
    """The items whose condition holds; every condition must be decided."""
    kept: list[Any] = []
    for x, c in zip(items, conditions):
        c = truth(c)
        if c.__class__ is Cond:
            raise Undetermined("", f"whether {c} holds is not known, so the length of a filtered list is not")
        if c:
            kept.append(x)
    return Vec(kept)


def drop(v: Sequence[Any], positions: Iterable[Any]) -> Vec:
    """The items that are not at the positions, in order."""
    gone = {number(p, "a position") for p in positions}
    return Vec(x for k, x in enumerate(v) if k not in gone)


def place(rest: Sequence[Any], picked: Any, positions: Sequence[Any]) -> Vec:
    """picked[k] at positions[k], the items of rest in order elsewhere; a scalar goes to every position."""
    indices = [number(p, "a position") for p in positions]
    values = picked if is_vector(picked) else (picked,) * len(indices)
    total = len(rest) + len(indices)
    if len(values) != len(indices) or len(set(indices)) != len(indices) or any(not 0 <= p < total for p in indices):
        raise ShapeError(f"{Vec(values)} cannot be placed at the positions {Vec(indices)} of {total}")
    chosen, remaining = dict(zip(indices, values)), iter(rest)
    return Vec(chosen[k] if k in chosen else next(remaining) for k in range(total))
