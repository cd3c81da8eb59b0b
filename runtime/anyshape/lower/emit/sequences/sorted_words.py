"""Sorting of words in memory: by counting, for a few, and by one byte after the other.

In: keys as unsigned integers. Out: instructions that write their positions in ascending order. Counting finds, for every key, those that
come before it. Bytes go from the lowest, which takes time in proportion to the number of keys and branches on nothing but bytes that all
keys agree in.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape.dtypes import DType
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I32, I64, Type, Val, ValLike, const, const_vector

LOWER_HALF = (1 << 32) - 1
"""The bits of a word in which a key of at most 32 bits has its position"""
_DIGITS = 256


def sortable(f: FunctionBuilder, dtype: DType, value: Val, descending: bool) -> Val:
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


def by_counting(f: FunctionBuilder, keys: Val, places: Val, n: Val, word: Type) -> None:
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


def narrow(f: FunctionBuilder, keys: Val, to: Val, n: Val) -> None:
    """Stores keys of at most 32 bits as words of so many."""
    lanes = f.target.lanes(I64.bytes)
    with f.for_range(0, n, lanes) as loop:
        f.store(f.convert("trunc", f.load(keys, I64.vector(lanes), loop.index), I32), to, loop.index)


def by_digits(ctx: KernelContext, dtype: DType, n: Val, arrays: tuple[Val, Val, Val, Val]) -> Val:
    """Sorts by one byte after the other, moving keys and places between two pairs of arrays; returns the places at the end. Keys of up to
    32 bits are moved in one word with their places, where those fit the other half."""
    f, (keys, places, to_keys, to_places) = ctx.f, arrays
    passes = key_bytes(dtype)
    if passes > 4:
        return _moved_by_digits(ctx, n, (keys, places), (to_keys, to_places), 0, passes)[1]
    with f.if_else(f.compare("lt", n, 1 << 32)) as branch:
        with branch.then():
            _pack(f, keys, n)
            (packed,) = _moved_by_digits(ctx, n, (keys,), (to_keys,), 32, passes)
            each_vector(f, packed, places, n, lambda words, index: f.and_(words, LOWER_HALF))
            branch.give(places)
        with branch.otherwise():
            branch.give(_moved_by_digits(ctx, n, (keys, places), (to_keys, to_places), 0, passes)[1])
    return branch.results[0]


def _pack(f: FunctionBuilder, keys: Val, n: Val) -> None:
    """Puts the position of each key into the lower half of its word, and the key into the upper one."""
    lanes = const_vector(I64, list(range(f.target.lanes(I64.bytes))))
    each_vector(f, keys, keys, n, lambda words, index: f.or_(f.shl(words, 32), f.add(lanes, index)))


def each_vector(f: FunctionBuilder, source: Val, to: Val, n: Val, compute: Callable[[Val, Val], Val]) -> None:
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


def key_bytes(dtype: DType) -> int:
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
