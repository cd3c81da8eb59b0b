"""Elements of several vectors side by side in words.

In: four vectors of bytes, or two of integers of 16 bits. Out: vectors of integers of 32 bits, of which each has an element of every vector,
the first lowest.

Instructions that interleave or permute bytes do so in units of 16 bytes. Four bytes at a time are permuted first, for the results to be in
order; where a processor permutes bytes of whole vectors, LLVM makes one permutation of two.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I32, Val

_UNIT = 16
"""Bytes of a vector that are interleaved with the same ones of another by one instruction."""
_WORD = 4
"""Bytes of a word."""


def words_of_bytes(f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
    """Interleaves four vectors of bytes to vectors of so many words, in the order of the bytes."""
    vectors, units = rows[0].type.lanes // lanes, lanes // _WORD
    if vectors == 4:
        order = [k * units + unit for unit in range(units) for k in range(4)]
        a, b, c, d = (_permuted_words(f, r, order) for r in rows)
        pairs = zip(_interleaved(f, a, b, 1), _interleaved(f, c, d, 1), strict=True)
        return [_as_words(f, w) for low, high in pairs for w in _interleaved(f, low, high, 2)]
    if vectors == 2:
        first, second = (_pairs(f, f.shuffle(a, b, list(range(4 * lanes))), units) for a, b in (rows[:2], rows[2:]))
        return [_as_words(f, w) for w in _interleaved(f, first, second, 2)]
    halves = [f.shuffle(a, b, list(range(2 * lanes))) for a, b in (rows[:2], rows[2:])]
    every = _permuted_words(
        f,
        f.shuffle(halves[0], halves[1], list(range(4 * lanes))),
        [r * units + u for u in range(units) for r in range(4)],
    )
    return [_as_words(f, _permuted_units(f, every, [r * _WORD + k for k in range(_WORD) for r in range(4)]))]


def _pairs(f: FunctionBuilder, rows: Val, units: int) -> Val:
    """Interleaves two rows of bytes that are one after the other: those for a unit of the first words, then of the second, in each unit."""
    order = [(2 * row + half) * units + unit for unit in range(units) for half in range(2) for row in range(2)]
    within = [half * 2 * _WORD + row * _WORD + k for half in range(2) for k in range(_WORD) for row in range(2)]
    return _permuted_units(f, _permuted_words(f, rows, order), within)


def words_of_halves(f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
    """Interleaves two vectors of integers of 16 bits to vectors of so many words, in the order of the integers."""
    first, second = rows
    if first.type.lanes == lanes:
        places = [row * lanes + lane for lane in range(lanes) for row in range(2)]
        return [_as_words(f, f.shuffle(first, second, places))]
    units = lanes // _WORD
    order = [_WORD * (half * units + unit) + k for unit in range(units) for half in range(2) for k in range(_WORD)]
    ordered = [r if units == 1 else f.shuffle(r, None, order) for r in rows]
    first, second = (f.bitcast(r, I8.vector(4 * lanes)) for r in ordered)
    return [_as_words(f, w) for w in _interleaved(f, first, second, 2)]


def _as_words(f: FunctionBuilder, a: Val) -> Val:
    return f.bitcast(a, I32.vector(a.type.lanes * a.type.bytes // _WORD))


def _permuted_words(f: FunctionBuilder, a: Val, order: Sequence[int]) -> Val:
    """Permutes four bytes at a time."""
    return f.bitcast(f.shuffle(_as_words(f, a), None, order), a.type)


def _permuted_units(f: FunctionBuilder, a: Val, order: Sequence[int]) -> Val:
    """Permutes the bytes of each unit alike."""
    return f.shuffle(a, None, [unit + k for unit in range(0, a.type.lanes, _UNIT) for k in order])


def _interleaved(f: FunctionBuilder, a: Val, b: Val, size: int) -> tuple[Val, Val]:
    """Interleaves elements of so many bytes of the lower and of the upper half of each unit."""
    count, halves = a.type.lanes, []
    for start in (0, _UNIT // 2):
        places = [
            source * count + unit + start + at + byte
            for unit in range(0, count, _UNIT)
            for at in range(0, _UNIT // 2, size)
            for source in range(2)
            for byte in range(size)
        ]
        halves.append(f.shuffle(a, b, places))
    return halves[0], halves[1]
