"""Stable sorting of rows: positions by key.

In: an `Ordered` whose form is a sort. Out: instructions. A key becomes an unsigned integer in the order wanted (a float by its bits,
NaN as the greatest). A short row counts, for every key, those that come before it; a longer one is sorted byte by byte from the
lowest, which takes time in proportion to its length and branches on nothing but bytes that all keys agree in. Where only the first few
positions are wanted, the least keys so far are kept in order, and vectors of keys are compared with the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.dims import Size
from anyshape.dtypes import F32 as FLOAT32
from anyshape.dtypes import I64 as INT64
from anyshape.equations import Sorting
from anyshape.lower.emit.loops.nest import nest
from anyshape.lower.emit.sequences.least_keys import HELD, LeastInMemory, LeastInRegisters
from anyshape.lower.emit.sequences.sorted_words import by_counting, by_digits, key_bytes, narrow, sortable
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.llvm.types import I1, I32, I64, Type, Val, const, const_vector

SHORT = 3
"""Rows up to so many keys for each lane of a vector and each byte of a key are sorted by counting: bytes are passes of the other way, lanes
are keys that are compared at once (measured on vectors of 512 bits: 96 keys of 4 bytes, and 192 of 8)."""
FEW, PART = 256, 4
"""Most positions that are selected, in rows that are at least PART times as long: rows that go down insert every element."""


def emit_sort(ctx: KernelContext, o: Ordered, descending: bool) -> None:
    """Sorts rows, which are shared out to the parts; a single one belongs to part 0."""
    if o.store.variables:
        nest(ctx, o.store.variables, lambda: _row(ctx, o, descending), split=True)
        return
    with ctx.levels.when(ctx.parts.is_first(), certain=True):
        _row(ctx, o, descending)


def sort_row(ctx: KernelContext, o: Ordered, room: Size) -> None:
    """Sorts one row, which has at most `room` elements."""
    assert isinstance(o.form, Sorting)
    _row(ctx, o, o.form.descending, room)


FIRST, LONG = 192, 4096
"""Positions that a loop has first which may end early, of rows so long that to select them takes at most half of the time of a sort: what
is lost where the loop does come further."""


@dataclass(frozen=True, slots=True)
class OrderOnDemand:
    """The order of a row of which the first positions are there: so many as `known`, which the run knows, and all once it is complete."""

    row: SortedRow
    extent: Size
    known: Val

    def complete(self) -> None:
        self.row.sort(self.extent)


def begin_order(ctx: KernelContext, o: Ordered, room: Size) -> OrderOnDemand:
    """Stores the first positions of a row, if it is long, and none else."""
    assert isinstance(o.form, Sorting)
    f, extent = ctx.f, o.over[0].extent
    row, n = SortedRow(ctx, o, o.form.descending, room), ctx.sizes.of(extent)
    is_long = f.compare("ge", n, LONG)
    if row.is_packed:
        is_long = f.and_(is_long, f.compare("lt", n, 1 << 32))
    with ctx.levels.when(is_long, certain=True):
        row.select_many(n, const(I64, FIRST))
    return OrderOnDemand(row, extent, f.select(is_long, const(I64, FIRST), const(I64, 0)))


def _row(ctx: KernelContext, o: Ordered, descending: bool, room: Size | None = None) -> None:
    f = ctx.f
    assert o.position is not None
    whole = o.over[0].extent if o.over else 1
    row = SortedRow(ctx, o, descending, whole if room is None else room)
    if o.position.extent == whole or not o.over:  # a row of one element has no variable to go along
        row.sort(whole)
        return
    n, count = ctx.sizes.of(whole), ctx.sizes.of(o.position.extent)
    if isinstance(n.number, int) and isinstance(count.number, int):
        with ctx.levels.section():
            if count.number <= FEW and PART * count.number <= n.number and not (row.is_packed and n.number >> 32):
                row.select(n, count)
            else:
                row.sort(whole)
        return
    few = f.and_(f.compare("le", count, FEW), f.compare("le", f.mul(count, PART), n))
    if row.is_packed:
        few = f.and_(few, f.compare("lt", n, 1 << 32))
    with ctx.levels.when(few, certain=True):
        row.select(n, count)
    with ctx.levels.when(f.not_(few), certain=True):
        row.sort(whole)


class SortedRow:
    """A row that is put in order, in memory for at most `room` keys."""

    def __init__(self, ctx: KernelContext, o: Ordered, descending: bool, room: Size) -> None:
        self.ctx, self.o, self.descending = ctx, o, descending
        self.arrays = tuple(ctx.memory.base(ctx.memory.reserve(INT64, room)) for _ in range(4))
        source = o.store.value.dtype
        self.dtype = FLOAT32 if source.is_float and source.bits < 32 else source
        self.is_packed = key_bytes(self.dtype) <= 4
        """Whether a key has at most 32 bits: one that is selected has its position in the lower half of its word."""

    def key(self) -> Val:
        """The key of the element, or of a vector of elements, that `over` is at."""
        f, value = self.ctx.f, self.o.store.value
        return sortable(
            f,
            self.dtype,
            elementwise.convert(f, self.ctx.values.of(value, 0), value.dtype, self.dtype),
            self.descending,
        )

    def store(self, places: Val, count: Val) -> None:
        ctx, o = self.ctx, self.o
        assert o.position is not None
        with ctx.levels.loop(0, count, 1) as iteration:
            ctx.levels.bind(o.position, iteration.index)
            ctx.values.store(o.store.access, ctx.f.load(places, I64, iteration.index), 0)

    def sort(self, extent: Size) -> None:
        """Sorts all keys, and stores as many positions as there are places for, and no more than there are keys."""
        ctx, f, o = self.ctx, self.ctx.f, self.o
        keys, places, more_keys, more_places = self.arrays
        n = ctx.sizes.of(extent)

        def fill() -> None:
            at = ctx.levels.indices[o.over[0]] if o.over else const(I64, 0)
            f.store(self.key(), keys, at)
            f.store(at, places, at)

        nest(ctx, o.over, fill)
        with ctx.levels.section():
            with f.if_else(f.compare("le", n, SHORT * f.target.lanes(I64.bytes) * key_bytes(self.dtype))) as branch:
                with branch.then():
                    if self.is_packed:
                        narrow(f, keys, more_keys, n)
                    by_counting(
                        f, more_keys if self.is_packed else keys, more_places, n, I32 if self.is_packed else I64
                    )
                    branch.give(more_places)
                with branch.otherwise():
                    branch.give(by_digits(ctx, self.dtype, n, (keys, places, more_keys, more_places)))
            (result,) = branch.results
        assert o.position is not None
        count = ctx.sizes.of(o.position.extent)
        self.store(result, count if o.position.extent == extent else f.smin(count, n))

    def select(self, n: Val, count: Val) -> None:
        """Stores the first `count` positions of n, which are more."""
        ctx, f = self.ctx, self.ctx.f
        if count.number == 1:
            self._select_one(n)
            return
        few = f.compare("le", count, HELD)
        with ctx.levels.when(f.compare("eq", count, 1)):
            self._select_one(n)
        with ctx.levels.when(f.and_(few, f.compare("gt", count, 1))):
            self._select(LeastInRegisters(f, self.is_packed), n, count)
        with ctx.levels.when(f.not_(few)):
            self.select_many(n, count)

    def select_many(self, n: Val, count: Val) -> None:
        """Stores the first `count` positions of n, which are more, from memory."""
        self._select(LeastInMemory(self.ctx.f, self.arrays[0], self.arrays[1], self.is_packed), n, count)

    def _vector(self, n: Val, index: Val) -> tuple[Val, Val]:
        """The keys of n from an index on, and which of them there are."""
        f, lanes = self.ctx.f, self.ctx.lanes
        mask = f.tail_mask(f.convert("trunc", f.smin(f.sub(n, index), lanes), I32), lanes)
        return self._keys(index, mask), mask

    def _keys(self, index: Val, mask: Val | None) -> Val:
        """The keys of a vector from an index on, of which a mask tells which there are."""
        ctx, f, (over,), lanes = self.ctx, self.ctx.f, self.o.over, self.ctx.lanes
        with ctx.values.along(Vector(over, lanes, (mask,))):
            ctx.levels.bind(over, index)
            return f.splat(self.key(), lanes)

    def _select_one(self, n: Val) -> None:
        """Keeps the least key of each lane, and where it is first: in its own lane where no key is less than the greatest that there is."""
        ctx, f, lanes = self.ctx, self.ctx.f, self.ctx.lanes
        word = I32 if self.is_packed else I64
        start = const(word.vector(lanes), -1), const_vector(word, list(range(lanes)))
        whole = f.and_(n, -lanes)
        with ctx.levels.loop(0, whole, lanes, start) as iteration:
            iteration.next(self._lesser(iteration.carried, iteration.index, None))
        with ctx.levels.when(f.compare("lt", whole, n), iteration.results) as rest:
            mask = f.tail_mask(f.convert("trunc", f.sub(n, whole), I32), lanes)
            rest.next(self._lesser(rest.carried, whole, mask))
        keys, places = rest.results
        is_least = f.compare("eq", keys, f.splat(f.reduce("umin", keys), lanes))
        first = f.reduce("umin", f.select(is_least, places, const(places.type, -1)))
        f.store(f.convert("zext", first, I64), self.arrays[1])
        self.store(self.arrays[1], const(I64, 1))

    def _lesser(self, held: Sequence[Val], index: Val, mask: Val | None) -> list[Val]:
        """The least key of each lane and its place, with a vector of keys more."""
        f, (keys, places), lanes = self.ctx.f, held, self.ctx.lanes
        word = keys.type.scalar
        vector = f.convert("trunc", self._keys(index, mask), word)
        before = f.compare("lt", vector, keys, unsigned=True)
        before = before if mask is None else f.and_(before, mask)
        at = f.add(const_vector(word, list(range(lanes))), f.convert("trunc", index, word))
        return [f.select(before, vector, keys), f.select(before, at, places)]

    def _select(self, least: LeastInRegisters | LeastInMemory, n: Val, count: Val) -> None:
        """Goes through the keys by vectors, of which those that are among the least so far are inserted one by one."""
        ctx, f, lanes = self.ctx, self.ctx.f, self.ctx.lanes
        slots = f.alloca(I64, lanes)
        bits = Type(f"i{lanes}")
        with ctx.levels.loop(0, n, lanes, least.start(count)) as iteration:
            index = iteration.index
            vector, mask = self._vector(n, index)
            if self.is_packed:
                vector = f.or_(f.shl(vector, 32), f.add(const_vector(I64, list(range(lanes))), index))
            with ctx.levels.section():
                greatest, is_full = least.last(iteration.carried)
                before = f.compare("lt", vector, f.splat(greatest, lanes), unsigned=True)
                before = f.and_(f.or_(before, f.splat(f.not_(is_full), lanes)), mask)
                candidates = f.bitcast(before, bits)
                with f.if_else(f.compare("ne", candidates, 0)) as branch:
                    with branch.then():
                        f.store(vector, slots)
                        some = f.convert("zext", candidates, I64) if lanes < I64.bits else candidates
                        iterations = f.call_intrinsic("llvm.ctpop", I64, [some])
                        with f.for_range(0, iterations, carried=(some, *iteration.carried), at_least_once=True) as each:
                            left, *held = each.carried
                            lane = f.call_intrinsic("llvm.cttz", I64, [left, const(I1, 1)])
                            key = f.load(slots, I64, lane)
                            greatest, is_full = least.last(held)
                            goes = f.or_(f.not_(is_full), f.compare("lt", key, greatest, unsigned=True))
                            with f.if_else(goes) as fresh:
                                with fresh.then():
                                    fresh.give(*least.insert(held, key, f.add(index, lane)))
                                with fresh.otherwise():
                                    fresh.give(*held)
                            each.next(f.and_(left, f.sub(left, 1)), *fresh.results)
                        branch.give(*each.results[1:])
                    with branch.otherwise():
                        branch.give(*iteration.carried)
                iteration.next(branch.results)
        self.store(least.places(iteration.results, count), count)
