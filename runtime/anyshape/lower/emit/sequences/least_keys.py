"""The least keys so far, in order: a key that is less than the last of them is inserted.

In: keys as unsigned integers, one by one. Out: the least of them and their positions, in registers or in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.lower.emit.sequences.sorted_words import LOWER_HALF, each_vector
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I1, I64, Val, const, const_vector

HELD = 16
"""Number of least keys that are held in registers."""


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


class LeastInRegisters:
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
        self.f.store(self.f.and_(held[0], LOWER_HALF) if self.is_packed else held[1], memory)
        return self.f.gep(memory, self.f.sub(HELD, count), I64)


class LeastInMemory:
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
        each_vector(self.f, words, self.room, count, lambda each, index: self.f.and_(each, LOWER_HALF))
        return self.room
