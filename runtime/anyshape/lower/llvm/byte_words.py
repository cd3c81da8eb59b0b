"""Elements of several vectors side by side in words.

In: four vectors of bytes, or two of integers of 16 bits. Out: vectors of integers of 32 bits, of which each has an element of every vector,
the first lowest.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I8, I32, Val

_UNIT = 16
"""Bytes of a vector that are interleaved with the same ones of another by one instruction."""
_PER_WORD = 4


def words_of_bytes(f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
    """Interleaves four vectors of bytes to vectors of so many words, in the order of the bytes."""
    count = rows[0].type.lanes
    if count == _PER_WORD * lanes == f.target.vector_bytes:
        return _of_whole_vectors(f, rows, lanes)
    if count == 2 * lanes and count % _UNIT == 0:
        return _of_half_vectors(f, rows, lanes)
    assert count == lanes
    pairs = [f.shuffle(a, b, list(range(2 * lanes))) for a, b in (rows[:2], rows[2:])]
    places = [row * lanes + lane for lane in range(lanes) for row in range(_PER_WORD)]
    return [f.bitcast(f.shuffle(*pairs, places), I32.vector(lanes))]


def _of_whole_vectors(f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
    """Four instructions for each two vectors: those that interleave take units of 16 bytes, so that words of four bytes are permuted first for
    the results to be in order."""
    count, units = rows[0].type.lanes, lanes // 4
    order = [k * units + unit for unit in range(units) for k in range(_PER_WORD)]
    rows = [f.bitcast(f.shuffle(f.bitcast(r, I32.vector(lanes)), None, order), r.type) for r in rows]
    (low01, high01), (low23, high23) = (_interleaved(f, a, b, 1) for a, b in (rows[:2], rows[2:]))
    words = [w for a, b in ((low01, low23), (high01, high23)) for w in _interleaved(f, a, b, 2)]
    assert count == words[0].type.lanes
    return [f.bitcast(w, I32.vector(lanes)) for w in words]


def _of_half_vectors(f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
    """Bytes of two rows are permuted at once to pairs, in the order in which the instructions that interleave take these."""
    channels = [
        half * lanes + first + k for first in range(0, lanes, _PER_WORD) for half in range(2) for k in range(_PER_WORD)
    ]
    places = [row * 2 * lanes + channel for channel in channels for row in range(2)]
    pairs = [f.shuffle(a, b, places) for a, b in (rows[:2], rows[2:])]
    return [f.bitcast(w, I32.vector(lanes)) for w in _interleaved(f, *pairs, 2)]


def words_of_halves(f: FunctionBuilder, rows: Sequence[Val], lanes: int) -> list[Val]:
    """Interleaves two vectors of integers of 16 bits to vectors of so many words, in the order of the integers."""
    first, second = rows
    count = first.type.lanes
    if count == 2 * lanes:
        units = lanes // _PER_WORD
        fours = [k * units + unit for unit in range(units) for k in range(2)]
        order = [_PER_WORD * four + k for four in fours for k in range(_PER_WORD)]
        ordered = [f.shuffle(r, None, order) for r in rows] if units > 1 else rows
        first, second = (f.bitcast(r, I8.vector(2 * count)) for r in ordered)
        return [f.bitcast(w, I32.vector(lanes)) for w in _interleaved(f, first, second, 2)]
    assert count == lanes
    places = [row * lanes + lane for lane in range(lanes) for row in range(2)]
    return [f.bitcast(f.shuffle(first, second, places), I32.vector(lanes))]


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
