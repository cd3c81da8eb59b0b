"""Stable sorting of rows: positions by key.

In: an `Ordered` whose form is a sort. Out: instructions. A key becomes an unsigned integer in the order wanted (a float by its bits,
NaN as the greatest). A short row counts, for every key, those that come before it; a longer one is sorted byte by byte from the
lowest, which takes time in proportion to its length and branches on nothing but bytes that all keys agree in. Where only the first few
positions are wanted, the least keys so far are kept in order, and vectors of keys are compared with the last of them.
"""

from __future__ import annotations

from anyshape.dims import Size
from anyshape.dtypes import F32 as FLOAT32
from anyshape.dtypes import I64 as INT64
from anyshape.dtypes import DType
from anyshape.equations import Sorting
from anyshape.lower.emit import elementwise
from anyshape.lower.emit.context import KernelContext
from anyshape.lower.emit.nest import nest
from anyshape.lower.emit.value import Vector
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I32, I64, Type, Val, const

SHORT = 40
"""Rows up to this length are sorted by counting."""
ONE_BY_ONE = 8
"""Among so many keys in order the place of another is counted, among more it is bisected."""
FEW, PART = 256, 4
"""So many positions, and a row that is so many times as long, are found by selection: rows that go down insert every element."""
_DIGITS = 256


def emit_sort(ctx: KernelContext, o: Ordered, descending: bool) -> None:
    """Sorts rows, which are shared out to the parts; a single one belongs to part 0."""
    if o.store.variables:
        nest(ctx, o.store.variables, lambda: _row(ctx, o, descending), split=True)
        return
    with ctx.levels.when(ctx.parts.is_first()):
        _row(ctx, o, descending)


def sort_row(ctx: KernelContext, o: Ordered, room: Size) -> None:
    """Sorts one row, which has at most `room` elements."""
    assert isinstance(o.form, Sorting)
    _row(ctx, o, o.form.descending, room)


def _row(ctx: KernelContext, o: Ordered, descending: bool, room: Size | None = None) -> None:
    f = ctx.f
    assert o.position is not None
    whole = o.over[0].extent if o.over else 1
    row = Row(ctx, o, descending, whole if room is None else room)
    if o.position.extent == whole or not o.over:  # a row of one element has no variable to go along
        row.sort(whole)
        return
    n, count = ctx.sizes.of(whole), ctx.sizes.of(o.position.extent)
    few = f.and_(f.compare("le", count, FEW), f.compare("le", f.mul(count, PART), n))
    with ctx.levels.when(few):
        row.select(n, count)
    with ctx.levels.when(f.not_(few)):
        row.sort(whole)


class Row:
    """A row that is put in order, in memory for at most `room` keys."""

    def __init__(self, ctx: KernelContext, o: Ordered, descending: bool, room: Size) -> None:
        self.ctx, self.o, self.descending = ctx, o, descending
        self.arrays = tuple(ctx.memory.base(ctx.memory.reserve(INT64, room)) for _ in range(4))
        source = o.store.value.dtype
        self.dtype = FLOAT32 if source.is_float and source.bits < 32 else source

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
            with f.if_else(f.compare("le", n, SHORT)) as branch:
                with branch.then():
                    _by_counting(f, keys, more_places, n)
                    branch.give(more_places)
                with branch.otherwise():
                    branch.give(_by_digits(ctx, self.dtype, n, (keys, places, more_keys, more_places)))
            (result,) = branch.results
        assert o.position is not None
        count = ctx.sizes.of(o.position.extent)
        self.store(result, count if o.position.extent == extent else f.smin(count, n))

    def select(self, n: Val, count: Val) -> None:
        """Stores the first `count` positions of n, which are more."""
        ctx, f, (over,), lanes = self.ctx, self.ctx.f, self.o.over, self.ctx.lanes
        keys, places = self.arrays[:2]
        with ctx.levels.loop(0, count, 1) as iteration:
            ctx.levels.bind(over, iteration.index)
            key = self.key()
            with ctx.levels.section():
                _insert(f, keys, places, iteration.index, key, iteration.index)
        last = f.sub(count, 1)
        with ctx.levels.when(f.compare("gt", count, 0)), ctx.levels.loop(count, n, lanes) as iteration:
            index = iteration.index
            mask = f.tail_mask(f.convert("trunc", f.smin(f.sub(n, index), lanes), I32), lanes)
            with ctx.values.along(Vector(over, lanes, (mask,))):
                ctx.levels.bind(over, index)
                vector = f.splat(self.key(), lanes)
            slots = f.alloca(I64, lanes)
            with ctx.levels.section():
                before = f.compare("lt", vector, f.splat(f.load(keys, I64, last), lanes), unsigned=True)
                candidates = f.bitcast(f.and_(before, mask), Type(f"i{lanes}"))
                with f.if_(f.compare("ne", candidates, 0)):
                    f.store(vector, slots)
                    with f.for_range(0, f.smin(f.sub(n, index), lanes)) as lane:
                        key = f.load(slots, I64, lane.index)
                        with f.if_(f.compare("lt", key, f.load(keys, I64, last), unsigned=True)):
                            _insert(f, keys, places, last, key, f.add(index, lane.index))
        self.store(places, count)


def _insert(f: FunctionBuilder, keys: Val, places: Val, count: Val, key: Val, place: Val) -> None:
    """Puts a key behind those of `count` keys in order that are not greater, which moves the others by one."""
    with f.if_else(f.compare("le", count, ONE_BY_ONE)) as branch:
        with branch.then():
            with f.for_range(0, count, carried=(const(I64, 0),)) as loop:
                not_greater = f.compare("le", f.load(keys, I64, loop.index), key, unsigned=True)
                loop.next(f.add(loop.carried[0], f.convert("zext", not_greater, I64)))
            branch.give(loop.results[0])
        with branch.otherwise():
            branch.give(_bisected(f, keys, count, key))
    (at,) = branch.results
    with f.if_(f.compare("lt", at, count)):
        size = f.mul(f.sub(count, at), I64.bytes)
        for array in (keys, places):
            start = f.gep(array, at, I64)
            f.memmove(f.gep(start, 1, I64), start, size)
    f.store(key, keys, at)
    f.store(place, places, at)


def _bisected(f: FunctionBuilder, keys: Val, count: Val, key: Val) -> Val:
    """How many of 1 to `FEW` keys in order are not greater than a key."""
    at, step = const(I64, 0), FEW
    while step:
        further = f.add(at, step)
        other = f.load(keys, I64, f.sub(f.smin(further, count), 1))
        behind = f.and_(f.compare("le", further, count), f.compare("le", other, key, unsigned=True))
        at, step = f.select(behind, further, at), step // 2
    return at


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


def _by_counting(f: FunctionBuilder, keys: Val, places: Val, n: Val) -> None:
    with f.for_range(0, n) as outer:
        key = f.load(keys, I64, outer.index)
        with f.for_range(0, n, carried=(const(I64, 0),)) as inner:
            other = f.load(keys, I64, inner.index)
            less = f.compare("lt", other, key, unsigned=True)
            equal = f.and_(f.compare("eq", other, key), f.compare("lt", inner.index, outer.index))
            inner.next(f.add(inner.carried[0], f.convert("zext", f.or_(less, equal), I64)))
        f.store(outer.index, places, inner.results[0])


def _by_digits(ctx: KernelContext, dtype: DType, n: Val, arrays: tuple[Val, Val, Val, Val]) -> Val:
    """Sorts by one byte after the other, moving keys and places between two pairs of arrays; returns the places at the end."""
    f = ctx.f
    counts = f.alloca(I64, _DIGITS)
    bits = 8 if dtype.is_bool else elementwise.register_type(dtype).bits
    with f.for_range(0, bits, 8, carried=arrays, at_least_once=True) as iteration:
        keys, places, to_keys, to_places = iteration.carried
        _count(f, keys, n, iteration.index, counts)
        first = f.load(counts, I64, _digit(f, f.load(keys, I64), iteration.index))
        with f.if_else(f.compare("eq", first, n)) as branch:
            with branch.then():
                branch.give(keys, places, to_keys, to_places)
            with branch.otherwise():
                _starts(f, counts)
                with f.for_range(0, n) as inner:
                    key = f.load(keys, I64, inner.index)
                    digit = _digit(f, key, iteration.index)
                    at = f.load(counts, I64, digit)
                    f.store(key, to_keys, at)
                    f.store(f.load(places, I64, inner.index), to_places, at)
                    f.store(f.add(at, 1), counts, digit)
                    ctx.levels.poll_now_and_then(inner.index)
                branch.give(to_keys, to_places, keys, places)
        iteration.next(*branch.results)
    return iteration.results[1]


def _digit(f: FunctionBuilder, key: Val, shift: Val) -> Val:
    return f.and_(f.lshr(key, shift), _DIGITS - 1)


def _count(f: FunctionBuilder, keys: Val, n: Val, shift: Val, counts: Val) -> None:
    f.memset_zero(counts, const(I64, _DIGITS * I64.bytes))
    with f.for_range(0, n) as loop:
        digit = _digit(f, f.load(keys, I64, loop.index), shift)
        f.store(f.add(f.load(counts, I64, digit), 1), counts, digit)


def _starts(f: FunctionBuilder, counts: Val) -> None:
    """Replaces counts by where each digit's elements begin."""
    with f.for_range(0, _DIGITS, carried=(const(I64, 0),), at_least_once=True) as loop:
        count = f.load(counts, I64, loop.index)
        f.store(loop.carried[0], counts, loop.index)
        loop.next(f.add(loop.carried[0], count))
