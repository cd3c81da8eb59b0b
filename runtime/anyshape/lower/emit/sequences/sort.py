"""Stable sorting of rows: positions by key.

In: an `Ordered` whose form is a sort. Out: instructions. A key becomes an unsigned integer in the order wanted (a float by its bits,
NaN as the greatest). A short row counts, for every key, those that come before it; a longer one is sorted byte by byte from the
lowest, which takes time in proportion to its length and branches on nothing but bytes that all keys agree in. Where only the first few
positions are wanted, the least keys so far are kept in order, and vectors of keys are compared with the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyshape.dims import Size
from anyshape.dtypes import F32 as FLOAT32
from anyshape.dtypes import I64 as INT64
from anyshape.dtypes import DType
from anyshape.equations import Sorting
from anyshape.lower.emit.loops.nest import nest
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I1, I32, I64, Type, Val, ValLike, const, const_vector

SHORT = 3
"""Rows up to so many keys for each lane of a vector and each byte of a key are sorted by counting: bytes are passes of the other way, lanes
are keys that are compared at once (measured on vectors of 512 bits: 96 keys of 4 bytes, and 192 of 8)."""
HELD = 16
"""Number of least keys that are held in registers."""
FEW, PART = 256, 4
"""Most positions that are selected, in rows that are at least PART times as long: rows that go down insert every element."""
_DIGITS = 256
_LOWER_HALF = (1 << 32) - 1


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
        self.is_packed = _passes(self.dtype) <= 4
        """Whether a key that is selected has its position in the lower half of its word."""

    def key(self) -> Val:
        """The key of the element, or of a vector of elements, that `over` is at."""
        f, value = self.ctx.f, self.o.store.value
        return _sortable(
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
            with f.if_else(f.compare("le", n, SHORT * f.target.lanes(I64.bytes) * _passes(self.dtype))) as branch:
                with branch.then():
                    narrow = _passes(self.dtype) <= 4
                    if narrow:
                        _narrow(f, keys, more_keys, n)
                    _by_counting(f, more_keys if narrow else keys, more_places, n, I32 if narrow else I64)
                    branch.give(more_places)
                with branch.otherwise():
                    branch.give(_by_digits(ctx, self.dtype, n, (keys, places, more_keys, more_places)))
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
            self._select(_LeastInRegisters(f, self.is_packed), n, count)
        with ctx.levels.when(f.not_(few)):
            self.select_many(n, count)

    def select_many(self, n: Val, count: Val) -> None:
        """Stores the first `count` positions of n, which are more, from memory."""
        self._select(_LeastInMemory(self.ctx.f, self.arrays[0], self.arrays[1], self.is_packed), n, count)

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

    def _select(self, least: _LeastInRegisters | _LeastInMemory, n: Val, count: Val) -> None:
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


def _moved(f: FunctionBuilder, a: Val, before: Val) -> Val:
    """The lanes of a vector one further on, the first of them the last lane of the vector before it."""
    lanes = a.type.lanes
    return f.shuffle(before, a, list(range(lanes - 1, 2 * lanes - 1)))


def _inserted(
    f: FunctionBuilder, key: Val, place: Val, keys: tuple[Val, Val], *places: tuple[Val, Val]
) -> tuple[Val, ...]:
    """A vector of keys in order, and of their places, with a key behind those that are not greater; each comes with the vector before it. A
    negative place is behind all. Without places no two keys are equal."""
    own, keys_before = keys
    if not places:
        moved, key = _moved(f, own, keys_before), f.splat(key, own.type.lanes)
        return (f.umax(moved, f.umin(own, key)),)
    ((own_places, places_before),) = places
    lanes = own.type.lanes
    moved, moved_places = _moved(f, own, keys_before), _moved(f, own_places, places_before)
    key, place = f.splat(key, lanes), f.splat(place, lanes)
    ahead, ahead_of_moved = (
        f.or_(f.compare("lt", key, k, unsigned=True), f.compare("lt", p, 0))
        for k, p in ((own, own_places), (moved, moved_places))
    )
    new_place = f.select(ahead, f.select(ahead_of_moved, moved_places, place), own_places)
    return f.select(ahead, f.select(ahead_of_moved, moved, key), own), new_place


class _LeastInRegisters:
    """The least keys, `HELD` at most, and their places in registers, the greatest in the last lane; keys ahead of them are lower than
    any."""

    def __init__(self, f: FunctionBuilder, is_packed: bool) -> None:
        """`is_packed`: keys have their places in their lower halves."""
        self.f, self.type, self.is_packed = f, I64.vector(HELD), is_packed

    def start(self, count: Val) -> tuple[Val, ...]:
        none = self.f.compare("ge", const_vector(I64, list(range(HELD))), self.f.splat(self.f.sub(HELD, count), HELD))
        empty = self.f.select(none, const(self.type, -1), const(self.type, 0))
        return (empty,) if self.is_packed else (empty, empty)

    def last(self, held: Sequence[Val]) -> tuple[Val, Val]:
        if self.is_packed:
            return self.f.extract(held[0], HELD - 1), const(I1, 1)
        keys, places = held
        return self.f.extract(keys, HELD - 1), self.f.compare("ge", self.f.extract(places, HELD - 1), 0)

    def insert(self, held: Sequence[Val], key: Val, place: Val) -> tuple[Val, ...]:
        nothing = const(self.type, 0)
        return _inserted(self.f, key, place, *((own, nothing) for own in held))

    def places(self, held: Sequence[Val], count: Val) -> Val:
        memory = self.f.alloca(I64, HELD)
        self.f.store(self.f.and_(held[0], _LOWER_HALF) if self.is_packed else held[1], memory)
        return self.f.gep(memory, self.f.sub(HELD, count), I64)


class _LeastInMemory:
    """Least keys and their places in memory, in whole vectors, where they are more than registers hold: ahead of the first is a vector of
    keys that are lower than any. What is held is where the next key of a list that is not full would be, if it were the greatest."""

    def __init__(self, f: FunctionBuilder, keys: Val, places: Val, is_packed: bool) -> None:
        """`is_packed`: keys have their places in their lower halves; `places` is memory for these at the end."""
        self.f, self.lanes, self.is_packed = f, f.target.lanes(I64.bytes), is_packed
        self.arrays, self.room = (keys,) if is_packed else (keys, places), places
        self.type = I64.vector(self.lanes)
        self.end = self.ahead = const(I64, 0)

    def start(self, count: Val) -> tuple[Val, ...]:
        f, lanes = self.f, self.lanes
        whole = f.and_(f.add(count, lanes - 1), -lanes)
        self.end, self.ahead = f.add(whole, lanes), f.sub(f.add(whole, lanes), count)
        with f.for_range(0, self.ahead) as loop:
            for array in self.arrays:
                f.store(const(I64, 0), array, loop.index)
        with f.for_range(self.ahead, self.end) as loop:
            for array in self.arrays:
                f.store(const(I64, -1), array, loop.index)
        return (self.ahead,)

    def last(self, held: Sequence[Val]) -> tuple[Val, Val]:
        key, *place = (self.f.load(a, I64, self.f.sub(self.end, 1)) for a in self.arrays)
        return key, self.f.compare("ge", place[0], 0) if place else const(I1, 1)

    def insert(self, held: Sequence[Val], key: Val, place: Val) -> tuple[Val, ...]:
        """Goes from the vector behind the last key to the one in which the key belongs."""
        f, lanes = self.f, self.lanes
        last = f.and_(f.smin(held[0], f.sub(self.end, 1)), -lanes)
        start = tuple(f.load(a, self.type, last) for a in self.arrays)
        body, after, ahead = f.new_block(), f.new_block(), f.block
        f.jump(body)
        f.start(body)
        at, *own = (Val(f.fresh(), v.type) for v in (last, *start))
        further = f.sub(at, lanes)
        before = tuple(f.load(a, self.type, further) for a in self.arrays)
        for array, new in zip(self.arrays, _inserted(f, key, place, *zip(own, before, strict=True)), strict=True):
            f.store(new, array, at)
        first, *first_place = (f.extract(v, 0) for v in own)
        goes_on = f.compare("lt", key, first, unsigned=True)
        if first_place:
            goes_on = f.or_(goes_on, f.compare("lt", first_place[0], 0))
        goes_on = f.and_(goes_on, f.compare("gt", further, 0))
        latch = f.block
        f.branch(goes_on, body, after)
        for phi, initial, value in zip((at, *own), (last, *start), (further, *before), strict=True):
            f.set_phi(phi, [(initial, ahead), (value, latch)], body)
        f.start(after)
        return (f.add(held[0], 1),)

    def places(self, held: Sequence[Val], count: Val) -> Val:
        if not self.is_packed:
            return self.f.gep(self.room, self.ahead, I64)
        words = self.f.gep(self.arrays[0], self.ahead, I64)
        _each_vector(self.f, words, self.room, count, lambda each, index: self.f.and_(each, _LOWER_HALF))
        return self.room


def _sortable(f: FunctionBuilder, dtype: DType, value: Val, descending: bool) -> Val:
    """An i64 whose low bits, as an unsigned number, sort as the value does."""
    if dtype.is_bool:
        wide = f.convert("zext", value, I64)
        return f.xor(wide, 1) if descending else wide
    type_ = value.type.as_int()
    sign = -(1 << (type_.bits - 1))
    if value.type.is_float:
        bits = f.bitcast(f.add(value, const(value.type, 0.0)), type_)  # -0.0 + 0.0 is 0.0
        key = f.xor(bits, f.or_(f.ashr(bits, type_.bits - 1), const(type_, sign)))
        key = f.select(f.fcmp("uno", value, value), const(type_, -1), key)
    else:
        key = value if dtype.kind == "uint" else f.xor(value, const(type_, sign))
    if descending:
        key = f.not_(key)
    return key if key.type.bits == I64.bits else f.convert("zext", key, I64)


def _by_counting(f: FunctionBuilder, keys: Val, places: Val, n: Val, word: Type) -> None:
    """Counts for each key, which is such a word, those that come before it: keys ahead of it that are not greater, and keys behind it that
    are less."""
    lanes = f.target.lanes(word.bytes)
    type_, end = word.vector(lanes), f.mul(f.ceil_div(n, lanes), lanes)
    with f.for_range(n, end) as beyond:
        f.store(const(word, -1), keys, beyond.index)  # the greatest key: less than none
    with f.for_range(0, n) as outer:
        key = f.splat(f.load(keys, word, outer.index), lanes)

        def counted(start: ValLike, stop: ValLike, relation: str, counts: Val, key: Val = key) -> Val:
            with f.for_range(start, stop, lanes, carried=(counts,)) as inner:
                before = f.compare(relation, f.load(keys, type_, inner.index), key, unsigned=True)
                inner.next(f.sub(inner.carried[0], f.convert("sext", before, type_)))
            return inner.results[0]

        own = f.and_(outer.index, -lanes)
        counts = counted(0, own, "le", const(type_, 0))
        beside = f.load(keys, type_, own)
        ahead = f.compare(
            "lt",
            const_vector(I32, list(range(lanes))),
            f.splat(f.convert("trunc", f.sub(outer.index, own), I32), lanes),
        )
        not_greater = f.and_(f.compare("le", beside, key, unsigned=True), ahead)
        before = f.or_(f.compare("lt", beside, key, unsigned=True), not_greater)
        counts = f.sub(counts, f.convert("sext", before, type_))
        counts = counted(f.add(own, lanes), end, "lt", counts)
        place = f.reduce("add", counts)
        f.store(outer.index, places, place if word is I64 else f.convert("zext", place, I64))


def _narrow(f: FunctionBuilder, keys: Val, to: Val, n: Val) -> None:
    """Stores keys of at most 32 bits as words of so many."""
    lanes = f.target.lanes(I64.bytes)
    with f.for_range(0, n, lanes) as loop:
        f.store(f.convert("trunc", f.load(keys, I64.vector(lanes), loop.index), I32), to, loop.index)


def _by_digits(ctx: KernelContext, dtype: DType, n: Val, arrays: tuple[Val, Val, Val, Val]) -> Val:
    """Sorts by one byte after the other, moving keys and places between two pairs of arrays; returns the places at the end. Keys of up to
    32 bits are moved in one word with their places, where those fit the other half."""
    f, (keys, places, to_keys, to_places) = ctx.f, arrays
    passes = _passes(dtype)
    if passes > 4:
        return _moved_by_digits(ctx, n, (keys, places), (to_keys, to_places), 0, passes)[1]
    with f.if_else(f.compare("lt", n, 1 << 32)) as branch:
        with branch.then():
            _pack(f, keys, n)
            (packed,) = _moved_by_digits(ctx, n, (keys,), (to_keys,), 32, passes)
            _each_vector(f, packed, places, n, lambda words, index: f.and_(words, _LOWER_HALF))
            branch.give(places)
        with branch.otherwise():
            branch.give(_moved_by_digits(ctx, n, (keys, places), (to_keys, to_places), 0, passes)[1])
    return branch.results[0]


def _pack(f: FunctionBuilder, keys: Val, n: Val) -> None:
    """Puts the position of each key into the lower half of its word, and the key into the upper one."""
    lanes = const_vector(I64, list(range(f.target.lanes(I64.bytes))))
    _each_vector(f, keys, keys, n, lambda words, index: f.or_(f.shl(words, 32), f.add(lanes, index)))


def _each_vector(f: FunctionBuilder, source: Val, to: Val, n: Val, compute: Callable[[Val, Val], Val]) -> None:
    """Stores what is computed of each vector of words and of its index; arrays have room for whole vectors."""
    lanes = f.target.lanes(I64.bytes)
    with f.for_range(0, n, lanes) as loop:
        f.store(compute(f.load(source, I64.vector(lanes), loop.index), loop.index), to, loop.index)


def _moved_by_digits(
    ctx: KernelContext, n: Val, arrays: tuple[Val, ...], more: tuple[Val, ...], shift: int, passes: int
) -> tuple[Val, ...]:
    """Sorts words by some of their bytes, from the one at `shift` on, and other arrays with them; returns where they are at the end: in
    `arrays` or in `more`. All bytes are counted at once, since the counts do not depend on the order."""
    f = ctx.f
    counts = f.alloca(I64, passes * _DIGITS)
    _count(f, arrays[0], n, counts, shift, passes)
    with f.for_range(0, passes, 1, carried=(*arrays, *more), at_least_once=True) as iteration:
        own, to = iteration.carried[: len(arrays)], iteration.carried[len(arrays) :]
        table = f.gep(counts, f.mul(iteration.index, _DIGITS), I64)
        place = f.add(f.mul(iteration.index, 8), shift)
        first = f.load(table, I64, _digit(f, f.load(own[0], I64), place))
        with f.if_else(f.compare("eq", first, n)) as branch:
            with branch.then():
                branch.give(*own, *to)
            with branch.otherwise():
                _starts(f, table)
                with f.for_range(0, n) as inner:
                    digit = _digit(f, f.load(own[0], I64, inner.index), place)
                    at = f.load(table, I64, digit)
                    for source, target in zip(own, to, strict=True):
                        f.store(f.load(source, I64, inner.index), target, at)
                    f.store(f.add(at, 1), table, digit)
                    ctx.levels.poll_now_and_then(inner.index)
                branch.give(*to, *own)
        iteration.next(*branch.results)
    return iteration.results[: len(arrays)]


def _passes(dtype: DType) -> int:
    """Returns the bytes of a key, each of which takes a pass."""
    return 1 if dtype.is_bool else elementwise.register_type(dtype).bits // 8


def _digit(f: FunctionBuilder, key: Val, shift: Val) -> Val:
    return f.and_(f.lshr(key, shift), _DIGITS - 1)


def _count(f: FunctionBuilder, keys: Val, n: Val, counts: Val, shift: int, passes: int) -> None:
    """Counts each value of each byte, a table of counts behind the other."""
    f.memset_zero(counts, const(I64, passes * _DIGITS * I64.bytes))
    with f.for_range(0, n) as loop:
        key = f.load(keys, I64, loop.index)
        for k in range(passes):
            place = f.add(_digit(f, key, const(I64, shift + 8 * k)), k * _DIGITS)
            f.store(f.add(f.load(counts, I64, place), 1), counts, place)


def _starts(f: FunctionBuilder, counts: Val) -> None:
    """Replaces counts by where each digit's elements begin."""
    with f.for_range(0, _DIGITS, carried=(const(I64, 0),), at_least_once=True) as loop:
        count = f.load(counts, I64, loop.index)
        f.store(loop.carried[0], counts, loop.index)
        loop.next(f.add(loop.carried[0], count))
