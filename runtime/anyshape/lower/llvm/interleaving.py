"""Vectors of elements side by side as a vector for each remainder of their positions, and back, by shuffles of two vectors; or as one.

In: as many vectors as there are remainders. Out: as many vectors, or one.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import Val


def separated(f: FunctionBuilder, vectors: Sequence[Val]) -> list[Val]:
    """Vector r has the elements at positions r, r + n, r + 2n … of n vectors."""
    n, lanes = len(vectors), vectors[0].type.lanes
    if n == 1:
        return [*vectors]
    if n % 2:
        return [_picked(f, vectors, [lane * n + r for lane in range(lanes)]) for r in range(n)]
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    halves = [separated(f, [f.shuffle(a, b, list(range(odd, 2 * lanes, 2))) for a, b in pairs]) for odd in range(2)]
    return [each for pair in zip(*halves, strict=True) for each in pair]


def interleaved(f: FunctionBuilder, vectors: Sequence[Val]) -> list[Val]:
    """Undoes `separated`."""
    n, lanes = len(vectors), vectors[0].type.lanes
    if n == 1:
        return [*vectors]
    if n % 2:
        places = [(p % n) * lanes + p // n for p in range(n * lanes)]
        return [_picked(f, vectors, places[k * lanes : (k + 1) * lanes]) for k in range(n)]
    low = [lane // 2 + lane % 2 * lanes for lane in range(lanes)]
    high = [lane + lanes // 2 for lane in low]
    pairs = zip(interleaved(f, vectors[::2]), interleaved(f, vectors[1::2]), strict=True)
    return [f.shuffle(a, b, lanes_of) for a, b in pairs for lanes_of in (low, high)]


def concatenated(f: FunctionBuilder, vectors: Sequence[Val]) -> Val:
    """Vectors as one that has the elements of each after those of the one before; how many they are is a power of two."""
    while len(vectors) > 1:
        both = [*range(2 * vectors[0].type.lanes)]
        vectors = [f.shuffle(a, b, both) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def _picked(f: FunctionBuilder, vectors: Sequence[Val], places: Sequence[int]) -> Val:
    """A vector of the elements at these places of all vectors, one after the other."""
    lanes = vectors[0].type.lanes
    result = vectors[0]
    known = [p if p < lanes else -1 for p in places]
    for k, v in enumerate(vectors[1:], 1):
        own = [p - k * lanes for p in places]
        picks = [lanes + q if 0 <= q < lanes else (p if k == 1 else i) for i, (q, p) in enumerate(zip(own, known))]
        picks = [-1 if p < 0 else p for p in picks]
        result = f.shuffle(result, v, picks)
    return result
