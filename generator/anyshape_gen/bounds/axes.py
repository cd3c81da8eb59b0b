"""Terms of `put`, `drop` and `place`, which set, remove or insert items of a vector, for positions that are not known.

In: a vector of positions, and a position of the result. Out: three terms. `among(axes, p)` is whether p is one of the
axes, `which(axes, p)` the last k with axes[k] == p, `rank(axes, p)` how many positions before p are no axes. All
functions of the same axes share these terms, so a read at the same axes gives the item that was put there.
"""

from __future__ import annotations

from typing import Any

from anyshape import dims
from anyshape.dims import Cond, Size
from anyshape_gen.bounds.context import Context, within
from anyshape_gen.bounds.prove import follows
from anyshape_gen.bounds.terms import Literal, Run, Truth, choose, concat, counted, integer_of


class Axes:
    """Terms of one vector of axes."""

    def __init__(self, context: Context, run: Run) -> None:
        self.context, self.run = context, run
        self.nth: dict[Size, Size] = {}
        self.within: dict[Size, bool] = {}
        self.ranks: dict[Size, Size] = {}

    def among(self, p: Size) -> Truth:
        is_axis: Cond = self.context.undecided("among", self.run, p)
        self.context.placed(self.context.unknown("truth", "among", self.run, p), p)
        return is_axis

    def which(self, p: Size) -> Size:
        """Returns k with axes[k] == p; where p is no axis, any number, since the item is not used."""
        key = ("which", id(self.run), p)
        item = self.context.opaque.get(key)
        if item is None:
            item = self.context.opaque[key] = self.context.placed(self.context.fresh("w"), p)
            if self.run.axes:
                self.run.known[item] = p
            self.context.fact(within(item, self.run.length), [self.among(p)])
        return item

    def rank(self, p: Size, total: Size) -> Size:
        """Returns the position of p among the positions that are no axes."""
        if p in self.ranks:
            return self.ranks[p]
        position = self.context.placed(self.context.fresh("r", 0), p)
        self.ranks[p] = position
        self.nth[position] = p
        if self.apart(total):
            held = (dims.not_(self.among(p)), within(p, total))
            self.context.fact(dims.lt(position, total - self.run.length), held)
            self.context.fact(dims.le(position, p), held)
        return position

    def apart(self, total: Size) -> bool:
        """Whether the axes are distinct positions of a vector of length `total`, so that `total` less their number are no axes."""
        if not self.run.axes:
            return False
        if total not in self.within:
            self.within[total] = False
            with self.context.aside():
                k = self.context.position()
                below, inside = Literal(total - self.run.at(k) - 1), dims.lt(k, self.run.length)
                held = [[inside], *self.context.about([below.truth, inside])]
                self.within[total] = follows(below, held, self.context.claims)
        return self.within[total]

    def other(self, q: Size, total: Size) -> Size:
        """Returns the position of the q-th position that is no axis."""
        if q not in self.nth:
            position = self.context.placed(self.context.fresh("n", 0), q)
            self.nth[q] = position
            self.ranks[position] = q
            if self.apart(total):
                held = (within(q, total - self.run.length),)
                self.context.fact(within(position, total), held)
                self.context.fact(dims.not_(self.among(position)), held)
        return self.nth[q]


def axes_of(context: Context, run: Run) -> Axes:
    axes = context.opaque.get(("axes", id(run)))
    if axes is None:
        axes = context.opaque[("axes", id(run))] = Axes(context, run)
        context.alive.append(run)
    return axes


def put(context: Context, base: Run, positions: Any, items: Any) -> Run:
    """Returns `base` with the items at the positions; a single item is put at all of them."""
    if isinstance(positions, Run) and isinstance(positions.length, int):
        positions = [positions.at(k) for k in range(positions.length)]
    if isinstance(positions, Run):
        axes = axes_of(context, positions)

        def item(p: Size) -> Any:
            new = items.at(axes.which(p)) if isinstance(items, Run) else items
            return choose(axes.among(p), new, base.at(p))

        return Run(base.length, item)
    places = positions if isinstance(positions, list) else [positions]

    def at(p: Size) -> Any:
        value = base.at(p)
        for k, place_ in enumerate(places):
            new = items.at(k) if isinstance(items, Run) else items
            meant = counted(integer_of(place_, "the position of `put`"), base.length)
            value = choose(dims.eq(meant, p), new, value)
        return value

    return Run(base.length, at)


def place(context: Context, rest: Run, picked: Any, positions: Any) -> Run:
    """Returns a vector of picked[k] at positions[k], and of the items of rest in order elsewhere."""
    if not isinstance(positions, Run):
        positions = concat([positions])
    known = _known(positions)
    if known is not None and isinstance(rest.length, int):
        remaining = iter(range(rest.length))
        items = [picked.at(k) if isinstance(picked, Run) else picked for k in range(len(known))]
        size = rest.length + len(known)
        return concat([items[known.index(p)] if p in known else rest.at(next(remaining, 0)) for p in range(size)])
    axes = axes_of(context, positions)
    total = rest.length + positions.length

    def item(p: Size) -> Any:
        new = picked.at(axes.which(p)) if isinstance(picked, Run) else picked
        return choose(axes.among(p), new, rest.at(axes.rank(p, total)))

    return Run(total, item)


def drop(context: Context, base: Run, positions: Any) -> Run:
    """Returns the items that are not at the positions, in order."""
    if not isinstance(positions, Run):
        positions = concat([positions])
    known = _known(positions)
    if known is not None and isinstance(base.length, int):
        return concat([base.at(p) for p in range(base.length) if p not in known])
    axes = axes_of(context, positions)
    return Run(base.length - positions.length, lambda q: base.at(axes.other(q, base.length)))


def _known(positions: Run) -> list[int] | None:
    """Returns the positions, where they are numbers."""
    if not isinstance(positions.length, int):
        return None
    numbers = [positions.at(k) for k in range(positions.length)]
    return numbers if all(isinstance(p, int) for p in numbers) else None
