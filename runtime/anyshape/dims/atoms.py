"""The operations that choose: minimum, maximum, clamp, select and bcast.

In: Sizes (and a condition, for select). Out: an int or dim without the choices that bounds and conditions settle,
else one atom in normal form: arguments flat, in a fixed order, and simplified under what a select's condition says.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from anyshape.dims.bound import bounds, nonneg
from anyshape.dims.cases import assuming, is_multiple, refinements
from anyshape.dims.conditions import Truth, equals_zero, not_
from anyshape.dims.expr import REBUILD, Cond, Dim, Interval, Size, find_atom, make_atom, remember
from anyshape.dims.substitution import INT64_MAX, INT64_MIN, substitute_atoms

_minima: dict[tuple[Size, ...], Size] = {}
_maxima: dict[tuple[Size, ...], Size] = {}
_selects: dict[tuple[Cond, Size, Size], Size] = {}
_broadcasts: dict[tuple[Size, Size], Size] = {}


def minimum(*xs: Size) -> Size:
    hit = _minima.get(xs)
    return remember(_minima, xs, _extreme("min", xs)) if hit is None else hit


def maximum(*xs: Size) -> Size:
    hit = _maxima.get(xs)
    return remember(_maxima, xs, _extreme("max", xs)) if hit is None else hit


def clamp(x: Size, low: Size, high: Size) -> Size:
    """x moved into low..high; where they contradict, high wins."""
    return minimum(maximum(x, low), high)


def _extreme(kind: str, xs: tuple[Size, ...]) -> Size:
    """Flattened, without members that another one always beats, in a fixed order."""
    number: int | None = None
    members: dict[Dim, None] = {}
    for x in xs:
        for member in x.args if isinstance(x, Dim) and x.kind == kind else (x,):
            if isinstance(member, Dim):
                members[member] = None
            elif number is None or (member < number if kind == "min" else member > number):
                number = member
    if members and number is not None and (number >= INT64_MAX if kind == "min" else number <= INT64_MIN):
        number = None  # no size leaves 64 bits: evaluation is checked
    kept: list[Size] = [*members] if number is None else [*members, number]
    if len(kept) > 1:
        kept = _unbeaten(kind, kept)
    if len(kept) == 1:
        return kept[0]
    args = tuple(sorted(kept, key=_argument_order))
    atom = find_atom(kind, args)
    return make_atom(kind, args, _extreme_bounds(kind, args)) if atom is None else atom


def _unbeaten(kind: str, xs: list[Size]) -> list[Size]:
    kept = list(xs)
    for x in xs:
        rivals = [y for y in kept if y is not x]
        if rivals and any(nonneg(x - y) if kind == "min" else nonneg(y - x) for y in rivals):
            kept = rivals
    return kept


def _argument_order(x: Size) -> tuple[Any, ...]:
    """Numbers last; dims as their leading terms are ordered."""
    if isinstance(x, int):
        return (1, x)
    return (0, *(a.order for a in x.terms[0][0]), (2, "", x.digest, x.uid))


def _extreme_bounds(kind: str, args: tuple[Size, ...]) -> Interval:
    lows, highs = zip(*(bounds(a) for a in args))
    if kind == "min":
        known = [h for h in highs if h is not None]
        return None if None in lows else min(lows), min(known) if known else None
    known = [v for v in lows if v is not None]
    return max(known) if known else None, None if None in highs else max(highs)


def select(c: Truth, a: Size, b: Size) -> Size:
    """a where c holds, else b: each branch simplified under what the condition says."""
    if not isinstance(c, Cond):
        return a if c else b
    if a is b:
        return a
    hit = _selects.get((c, a, b))
    return remember(_selects, (c, a, b), _select(c, a, b)) if hit is None else hit


def _select(c: Cond, a: Size, b: Size) -> Size:
    if c.kind == "not":
        return select(c.args[0], b, a)
    if c.kind == "ge" and c.args[0].terms[0][1] < 0:  # one spelling for a condition and its opposite
        return select(not_(c), b, a)
    when, unless = refinements(c)
    a, b = assuming(a, c, True), assuming(b, c, False)
    if c.kind == "eq":
        if a is b or substitute_atoms(b, when) is a or (isinstance(a, int) and substitute_atoms(b, when) == a):
            return b
        if not when and is_multiple(b - a, c.args[0]):
            return b
    if a is b or (isinstance(a, int) and isinstance(b, int) and a == b):
        return a
    atom = find_atom("select", (c, a, b))
    if atom is not None:
        return atom
    (low, high), (least, most) = bounds(substitute_atoms(a, when)), bounds(substitute_atoms(b, unless))
    return make_atom(
        "select",
        (c, a, b),
        (
            None if low is None or least is None else min(low, least),
            None if high is None or most is None else max(high, most),
        ),
    )


def bcast(a: Size, b: Size) -> Size:
    """The broadcast of two dims: a where b is 1, b where a is 1, else either, for they are equal (checked where
    it was made)."""
    if a is b:
        return a
    if isinstance(a, int) and isinstance(b, int):
        return b if a == 1 else a
    hit = _broadcasts.get((a, b))
    return remember(_broadcasts, (a, b), _bcast(a, b)) if hit is None else hit


def _bcast(a: Size, b: Size) -> Size:
    members: dict[Size, None] = {}
    _flatten(a, members)
    _flatten(b, members)
    members.pop(1, None)
    for x in members:
        if equals_zero(x - 1) is False:  # not 1: it is the result, whatever the rest
            return x
    ordered = sorted(members, key=_argument_order)
    return reduce(_bcast_atom, ordered)


def _flatten(x: Size, members: dict[Size, None]) -> None:
    if isinstance(x, Dim) and x.kind == "bcast":
        for arg in x.args:
            _flatten(arg, members)
    else:
        members[x] = None


def _bcast_atom(a: Size, b: Size) -> Size:
    atom = find_atom("bcast", (a, b))
    if atom is not None:
        return atom
    (low, high), (least, most) = bounds(a), bounds(b)
    return make_atom(
        "bcast",
        (a, b),
        (
            None if low is None or least is None else min(low, least),
            None if high is None or most is None else max(high, most),
        ),
    )


REBUILD.update({"min": minimum, "max": maximum, "select": select, "bcast": bcast})
