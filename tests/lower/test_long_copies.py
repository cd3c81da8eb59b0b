"""Bare copies of long rows go to the C library in pieces: every length around a piece, any offset, any number of parts."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.lower.target import host_target

PIECE = host_target().piece_bytes


@pytest.mark.parametrize("dtype", ["f32", "f16", "i64", "u8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_around_a_piece_and_beyond(dtype: str, threads: int) -> None:
    x, z = anyshape.input("x", f"{dtype}[a, n, c]"), anyshape.input("z", f"{dtype}[a, m, c]")
    f = anyshape.compile(anyshape.function([x, z], ops.concat([x, z], axis=1)), threads=threads)
    rng, size = np.random.default_rng(3), np.dtype({"f32": "f4", "f16": "f2", "i64": "i8", "u8": "u1"}[dtype])
    piece = PIECE // size.itemsize
    for n in (3, piece // 2 - 1, piece // 2, piece - 1, piece, piece + 1, 2 * piece + 77):
        left, right = (rng.integers(0, 100, (2, k, 1)).astype(size) for k in (n, 5))
        assert (f(left, right) == np.concatenate([left, right], 1)).all(), n
        assert (f(right, left) == np.concatenate([right, left], 1)).all(), n


@pytest.mark.parametrize("dtype", ["f32", "u8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_are_whole_or_not_as_the_run_tells(dtype: str, threads: int) -> None:
    """Sizes of results are lesser ones of two: all rows, some of a dim further in, and dims of 1, below and above a long copy."""
    size = np.dtype({"f32": "f4", "u8": "u1"}[dtype])
    half = PIECE // size.itemsize // 2
    x = anyshape.input("x", f"{dtype}[a, b, c]")
    ends = (3, 40, half // 20)
    sliced = ops.slice(x, starts=[1, 0, 0], ends=list(ends), axes=[0, 1, 2], steps=[1, 1, 1])
    f = anyshape.compile(anyshape.function([x], sliced), threads=threads)
    rng = np.random.default_rng(4)
    for shape in (
        (3, 40, half // 20), (4, 20, half // 20), (3, 19, half // 20), (3, 41, half // 20), (3, 40, half // 20 + 1), (2, 1, half // 20),
        (3, 1, half), (3, 40, 1), (4, 40, 5), (1, 40, half // 20), (3, 0, 7),
    ):  # fmt: skip
        array = rng.integers(0, 100, shape).astype(size)
        assert (f(array) == array[1 : ends[0], : ends[1], : ends[2]]).all(), shape
