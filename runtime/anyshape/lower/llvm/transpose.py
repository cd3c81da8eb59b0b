"""Transposition of a square block in registers: the rows of an L x L block become its columns.

In: L vectors of L lanes. Out: L vectors, lane i of vector j being lane j of vector i. Built from the interleavings that vector units have
within 16 bytes, then from exchanges of whole 16-byte pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

from .builder import FunctionBuilder
from .types import Val


def transpose(f: FunctionBuilder, rows: Sequence[Val]) -> list[Val]:
    """The transposed block; as many rows as lanes, a power of two of them."""
    lanes = rows[0].type.lanes
    if len(rows) != lanes:
        raise TypeError(f"a square block wanted, got {len(rows)} rows of {lanes} lanes")
    inner = min(lanes, max(1, 16 // rows[0].type.bytes))
    transposed = [_within_pieces(f, list(rows[g : g + inner]), inner) for g in range(0, lanes, inner)]
    pieces = lanes // inner
    result: list[Val | None] = [None] * lanes
    for c in range(inner):
        for q, column in enumerate(_across_pieces(f, [group[c] for group in transposed], inner)):
            result[q * inner + c] = column
    assert pieces * inner == lanes
    return [value for value in result if value is not None]


def _within_pieces(f: FunctionBuilder, rows: list[Val], inner: int) -> list[Val]:
    """Transpose `inner` rows inside every piece of `inner` lanes: after it, row c holds column c of each piece."""
    lanes = rows[0].type.lanes
    unit = 1
    while unit < inner:
        step: list[Val | None] = [None] * inner
        for i in range(inner):
            if i & unit:
                continue
            low, high = _interleave(lanes, inner, unit)
            step[i] = f.shuffle(rows[i], rows[i | unit], low)
            step[i | unit] = f.shuffle(rows[i], rows[i | unit], high)
        rows = [value for value in step if value is not None]
        unit *= 2
    return _bit_reversed(rows) if inner > 2 else rows


def _interleave(lanes: int, inner: int, unit: int) -> tuple[list[int], list[int]]:
    """Lane numbers that interleave units of the lower (upper) halves of every piece of two vectors."""
    low: list[int] = []
    high: list[int] = []
    for piece in range(0, lanes, inner):
        for out, start in ((low, piece), (high, piece + inner // 2)):
            for at in range(start, start + inner // 2, unit):
                out += list(range(at, at + unit)) + list(range(lanes + at, lanes + at + unit))
    return low, high


def _bit_reversed(rows: list[Val]) -> list[Val]:
    bits = len(rows).bit_length() - 1
    return [rows[int(format(i, f"0{bits}b")[::-1], 2)] for i in range(len(rows))]


def _across_pieces(f: FunctionBuilder, rows: list[Val], inner: int) -> list[Val]:
    """Transpose the square of pieces: vector q of the result is piece q of every row in turn."""
    count = len(rows)
    if count == 1:
        return rows
    lanes = rows[0].type.lanes
    even = [p * inner + k for p in range(0, 2 * count, 2) for k in range(inner)]
    odd = [p * inner + k for p in range(1, 2 * count, 2) for k in range(inner)]
    assert len(even) == lanes
    pairs = [(f.shuffle(a, b, even), f.shuffle(a, b, odd)) for a, b in zip(rows[::2], rows[1::2])]
    if count == 2:
        return list(pairs[0])
    # each of the two halves is again such a problem: the rows are (a0 a2 .. b0 b2 ..)
    evens = _across_pieces_of_pairs(f, [p[0] for p in pairs], inner)
    odds = _across_pieces_of_pairs(f, [p[1] for p in pairs], inner)
    return [value for both in zip(evens, odds) for value in both]


def _across_pieces_of_pairs(f: FunctionBuilder, rows: list[Val], inner: int) -> list[Val]:
    """Transposes across pieces the two vectors that a four-piece square leaves after one step of `_across_pieces`."""
    if len(rows) != 2:
        raise TypeError("blocks of at most four 16-byte pieces")
    lanes = rows[0].type.lanes
    even = [p * inner + k for p in range(0, 2 * (lanes // inner), 2) for k in range(inner)]
    odd = [p * inner + k for p in range(1, 2 * (lanes // inner), 2) for k in range(inner)]
    return [f.shuffle(rows[0], rows[1], even), f.shuffle(rows[0], rows[1], odd)]
