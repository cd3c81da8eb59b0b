"""Philox 4x32-10, a random function of a counter: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011. Constants and the order of words are theirs.

In: a seed (the key) and a position (the low half of the counter, whose high half is 0), both i64. Out: four words of 32 random bits, or
a number made of the first two. No state is kept, so that any element can be computed anywhere, in any order, and is the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import DType

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
"""The increments of the two words of the key after each round."""
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
Words = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]


def words(key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]) -> Words:
    """The four words for arrays of words, which broadcast."""
    k0, k1 = (np.asarray(k, np.uint64) for k in key)
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, np.uint64) for c in counter), k0)[:4]
    for round_number in range(ROUNDS):
        a, b = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (b >> _HALF) ^ c1 ^ k0, b & _LOW, (a >> _HALF) ^ c3 ^ k1, a & _LOW
        if round_number < ROUNDS - 1:
            k0, k1 = (k0 + np.uint64(WEYL[0])) & _LOW, (k1 + np.uint64(WEYL[1])) & _LOW
    return c0, c1, c2, c3


def numbers(seed: NDArray[Any], position: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Random numbers: for a float dtype multiples of 2**-p in [0, 1), where p is its precision; for an integer dtype all bits. Both are the
    highest bits of the first two words, so that a wider dtype has the same number in more bits."""
    s, at = np.asarray(seed, np.int64).view(np.uint64), np.asarray(position, np.int64).view(np.uint64)
    first, second, _, _ = words((s & _LOW, s >> _HALF), (at & _LOW, at >> _HALF, 0, 0))
    bits = precision(dtype)
    highest = (first << _HALF | second) >> np.uint64(64 - bits)
    if dtype.is_float:
        return np.ldexp(highest.astype(np.float64), -bits).astype(dtype.numpy)
    return highest.astype(dtype.numpy)


def precision(dtype: DType) -> int:
    """How many random bits a number of the dtype has."""
    return int(finfo(dtype.numpy).nmant) + 1 if dtype.is_float else dtype.bits
