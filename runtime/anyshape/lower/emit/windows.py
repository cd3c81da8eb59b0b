"""Reductions over windows as code: the copy is filled, then every tap reads vectors of it.

In: a `Scope` that has `windows`, or the product whose columns see them. Out: for each plane (a batch and a channel, say) one fill of the
copy, and loops over its rows of results in which the taps are written out one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyshape.lower.analyse.windows import Staged, Windows
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.nest import Sums
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.value import Vector
from anyshape.lower.ir.dag import Bound, LoopVar, Reduction
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.llvm.types import I32, I64, Val, const
from anyshape.lower.schedule.tree import Loop, Scope

VECTORS = 4
"""Of results at once, where rows are that long: taps wait for nothing then."""


def emit_windows(rows: Rows, scope: Scope) -> None:
    """A scope of rows."""
    windows = scope.windows
    assert windows is not None
    stores = next(s.stores for s in scope.steps if isinstance(s, Loop) and s.stores)
    prepare(rows, windows.staged)
    _fill_pads(rows, windows.staged)
    positions = [m.position for m in windows.staged.moving]
    planes = [v for v in stores[0].variables if v not in positions]
    red = next(s.reductions[0] for s in scope.steps if isinstance(s, Loop) and s.reductions)

    def plane() -> None:
        fill(rows, windows.staged, pads=False)
        rows.nest(positions, positions[-1], (VECTORS,), [], body)

    def body(sums: Sums) -> Sums:
        copies = rows.vector.copies if rows.vector is not None else 1
        for copy, total in enumerate(_totals(rows, windows, red.kind, copies)):
            rows.remember((red, copy), total)
        for s in stores:
            values = [rows.value(s.value, copy) for copy in range(copies)]
            for copy, value in enumerate(values):
                rows.store(s.access, value, copy)
        rows.forget_depths()
        return sums

    _planes(rows, planes, plane)


def _totals(rows: Rows, windows: Windows[Reduction], kind: str, copies: int) -> list[Val]:
    first = windows.taps[0]
    start = rows.f.splat(elementwise.literal(first.dtype, neutral(kind, first.dtype)), rows.lanes_of(True))
    totals = [start] * copies
    for tap in windows.taps:
        totals = [rows.accumulate(tap, total, copy) for copy, total in enumerate(totals)]
    return totals


def _planes(rows: Rows, variables: Sequence[LoopVar], body: Callable[[], None]) -> None:
    """One loop over all of them, shared out over the parts."""
    f = rows.f
    count = const(I64, 1)
    for v in variables:
        count = f.mul(count, rows.size(v.extent))
    first, last = rows.part_of(count, 1)
    with rows.loop(first, last, 1) as iteration:
        number = iteration.index
        for v in reversed(variables):
            rows.bind(v)
            quotient = f.binary("udiv", number, rows.size(v.extent))
            rows.indices[v] = f.sub(number, f.mul(quotient, rows.size(v.extent)))
            number = quotient
        body()


def prepare(rows: Rows, staged: Staged) -> None:
    """Scratch for the copy, and the numbers that addresses are made of."""
    rows.place(staged.tensor)
    rows.padded.add(staged.tensor)
    for number, v in staged.fixed.items():
        rows.indices[v] = const(I64, number)
        rows.bind(v)


def _fill_pads(rows: Rows, staged: Staged) -> None:
    """Writes what is outside everywhere: rows of pads are the same for all planes, and stay."""
    if not any(_limit(staged, dim) for dim in range(len(staged.along) - 1)):
        return
    assert staged.outside is not None
    f, element = rows.f, elementwise.memory_type(staged.tensor.dtype)
    value = elementwise.store_value(f, staged.tensor.dtype, rows.value(staged.outside))
    lanes = f.target.lanes(rows.element_bytes)
    with rows.loop(0, rows.size(staged.tensor.shape[0]), lanes) as iteration:
        f.store(f.splat(value, lanes), f.gep(rows.base(staged.tensor), iteration.index, element))


def _limit(staged: Staged, dim: int) -> Bound | None:
    """The bound that only the index along this dim decides."""
    own = [b for b in staged.access.bounds if b.index.coefficient(staged.along[dim]) != 0]
    alone = ((staged.along[dim], 1),)
    if staged.outside is None or len(own) != 1 or own[0].index.terms != alone or own[0].index.lets or own[0].guard:
        return None
    return own[0]


def fill(rows: Rows, staged: Staged, pads: bool = True) -> None:
    """Writes the copy, the variables outside of it being bound; without `pads`, rows of nothing else are left as they are."""

    def inner(sums: Sums) -> Sums:
        _rows(rows, staged, 0, const(I64, 0), pads)
        return sums

    rows.nest(staged.channels, None, (), [], inner)


def _rows(rows: Rows, staged: Staged, dim: int, place: Val, pads: bool) -> None:
    """`place`: where the elements with the indices so far begin."""
    f = rows.f
    length = rows.size(staged.lengths[dim])
    if dim == len(staged.along) - 1:
        for v, pitch in zip(staged.channels, staged.channel_pitches, strict=True):
            place = f.add(place, f.mul(rows.indices[v], rows.size(pitch)))
        _Row(rows, staged, place, length).emit()
        return
    step, limit = staged.moving[dim].step, None if pads else _limit(staged, dim)
    first, held = const(I64, 0), set[Bound]()
    if limit is not None:
        before = f.neg(rows.size(limit.index.offset))
        first = f.smax(before, 0)
        length = f.smin(f.add(before, rows.size(limit.extent)), length)
        held = {limit} - rows.holding
    with rows.loop(first, length, 1) as iteration, rows.held(held):
        rows.bind(staged.along[dim])
        rows.indices[staged.along[dim]] = iteration.index
        quotient = f.binary("udiv", iteration.index, const(I64, step)) if step > 1 else iteration.index
        place = f.add(place, f.mul(quotient, rows.size(staged.pitches[dim])))
        if step > 1:
            remainder = f.sub(iteration.index, f.mul(quotient, step))
            planes = f.mul(rows.size(staged.plane), staged.remainder_pitches[dim])
            place = f.add(place, f.mul(remainder, planes))
        _rows(rows, staged, dim + 1, place, pads)


class _Row:
    """The elements of the last dim, side by side in the original, by remainder in the copy."""

    def __init__(self, rows: Rows, staged: Staged, place: Val, length: Val) -> None:
        self.rows, self.staged, self.place, self.length = rows, staged, place, length
        self.lanes = rows.f.target.lanes(rows.element_bytes)
        self.step = staged.moving[-1].step
        self.element = elementwise.memory_type(staged.tensor.dtype)

    def emit(self) -> None:
        rows, f, step, lanes = self.rows, self.rows.f, self.step, self.lanes
        copies = step if step <= 2 else 1
        with rows.loop(0, self.length, copies * lanes) as iteration:
            rows.bind(self.staged.along[-1])
            rows.indices[self.staged.along[-1]] = iteration.index
            left = f.convert("trunc", f.smin(f.sub(self.length, iteration.index), copies * lanes), I32)
            masks = tuple(f.tail_mask(left, lanes, copy * lanes) for copy in range(copies))
            outer, rows.vector = rows.vector, Vector(self.staged.along[-1], lanes, masks)
            values = [self.value(copy) for copy in range(copies)]
            if step > 2:
                self.scattered(values[0], iteration.index, masks[0])
            else:
                self.store(values, iteration.index)
            rows.vector = outer

    def value(self, copy: int) -> Val:
        rows, f, staged = self.rows, self.rows.f, self.staged
        value = rows.load(staged.access, copy, True)
        asked = [b for b in staged.access.bounds if b not in rows.holding]
        inside = rows.conjunction(rows.inside(asked, copy), rows.mask(copy))
        if staged.outside is not None and inside is not None:
            value = f.select(f.splat(inside, self.lanes), value, f.splat(rows.value(staged.outside), self.lanes))
        return elementwise.store_value(f, staged.tensor.dtype, value)

    def store(self, values: list[Val], index: Val) -> None:
        """All of one remainder, then all of the other."""
        rows, f = self.rows, self.rows.f
        place = f.add(self.place, f.binary("udiv", index, const(I64, self.step)) if self.step > 1 else index)
        to = f.gep(rows.base(self.staged.tensor), place, self.element)
        if self.step == 1:
            f.store(values[0], to)
            return
        plane = rows.size(self.staged.plane)
        for remainder in range(2):
            each = f.shuffle(values[0], values[1], list(range(remainder, 2 * self.lanes, 2)))
            f.store(each, f.gep(to, f.mul(plane, remainder), self.element))

    def scattered(self, value: Val, index: Val, mask: Val) -> None:
        rows, f = self.rows, self.rows.f
        places = f.add(f.iota(I64, self.lanes), index)
        quotients = f.binary("udiv", places, f.splat(const(I64, self.step), self.lanes))
        remainders = f.sub(places, f.mul(quotients, self.step))
        offsets = f.add(quotients, f.mul(remainders, rows.size(self.staged.plane)))
        f.scatter(value, f.gep(rows.base(self.staged.tensor), self.place, self.element), offsets, mask)
