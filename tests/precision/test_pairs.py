"""The matrix product of f32 rounded to bf16, for all levels, sizes and layouts: against the product of what is multiplied, in f64.

Sums are of f32, each term and each sum rounded once: within 2**-24 of the sum of the terms' sizes for each step. Instructions take numbers
below 2**-126 for 0, in factors, terms and sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.lower import gemm
from anyshape.lower.gemm.pairs import Pairs
from anyshape.lower.llvm.types import F32
from tests.lower.contraction_kernels import contraction, run_parts, target_at
from tests.lower.forbidden import before_forbidden_memory

Array = NDArray[Any]
LEVELS = ("amx", "avx512", "slow pairs", "avx512f", "avx2", "sse")
PAIRS = Pairs()
STEP, LEAST = 2.0**-24, 2.0**-126


def contract(a: Array, b: Array, level: str, prepacked: bool, nparts: int = 1, words: Pairs = PAIRS) -> Array:
    return contracted(a, b, level, prepacked, nparts, words)[0]


def contracted(
    a: Array, b: Array, level: str, prepacked: bool, nparts: int = 1, words: Pairs = PAIRS
) -> tuple[Array, int]:
    """The product, and how many bytes of scratch the last part wrote."""
    target = target_at(level)
    tiles = gemm.tiles_for(target, F32)
    batches, m, k = a.shape
    n, steps = b.shape[-1], gemm.panel_steps(words, target, k)
    (a1, am, ak), (b1, bk, bn) = ([step // 4 for step in x.strides] for x in (a, b))
    if prepacked:
        b = before_forbidden_memory(words.prepacked(b, tiles, target))
        b1 = gemm.prepacked_elements(steps, n, tiles)
    c = before_forbidden_memory(np.full((batches, m, n), 77, np.float32))
    scalars = (m, n, k, am, ak, bk, bn, batches, a1, b1, m * n)
    by_tiles = gemm.by_matrix_tiles(words, target)
    bytes_ = gemm.scratch_bytes(tiles, m, n, -(-k // words.per(target)), packs_b=True, by_tiles=by_tiles)
    kernel = contraction(level, F32, prepacked=prepacked, words=words)
    return c, run_parts(kernel, scalars, (a, b, c), bytes_, nparts)


def rounded(x: Array) -> Array:
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def within(got: Array, a: Array, b: Array) -> bool:
    """Whether a result is the product of two matrices but for what f32 sums may lose of it."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    k = a.shape[-1]
    sizes, ones = np.abs(a) @ np.abs(b), np.ones_like
    flushed = LEAST * (np.abs(a) @ ones(b) + ones(a) @ np.abs(b) + 3 * k)
    return bool((np.abs(got - a @ b) <= STEP * (k + 2) * sizes + flushed).all())


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def laid(x: Array, way: int) -> Array:
    """Lays elements out contiguous along the last axis, along the one before it, or along none."""
    if way == 0:
        return before_forbidden_memory(x)
    if way == 1:
        return before_forbidden_memory(np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2)
    return before_forbidden_memory(np.repeat(x, 3, axis=2)[..., : max(3 * x.shape[2] - 2, 0)])[..., ::3]


SIZES = [(1, 40, 9), (2, 70, 33), (4, 129, 8), (14, 33, 17), (23, 31, 64), (60, 100, 67), (3, 1, 7), (1, 300, 301)]


@pytest.mark.parametrize("level", LEVELS)
def test_every_level(level: str) -> None:
    for index, (m, n, k) in enumerate(SIZES * 2):
        a, b = drawn(2, m, k), drawn(2, k, n)
        prepacked = index % 4 == 3
        got = contract(laid(a, index % 3), b if prepacked else laid(b, index % 4), level, prepacked)
        assert within(got, rounded(a), rounded(b))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 15, 16, 31, 32, 33, 63, 64, 65])
@pytest.mark.parametrize("level", LEVELS)
def test_every_length_by_every_layout(level: str, k: int) -> None:
    for way_a in range(3):
        for way_b in range(4):
            m, n = (1, 5, 16, 17)[way_b], (33, 16, 7)[way_a]
            a, b = drawn(1, m, k), drawn(1, k, n)
            got = contract(laid(a, way_a), b if way_b == 3 else laid(b, way_b), level, way_b == 3)
            assert within(got, rounded(a), rounded(b))


@pytest.mark.parametrize("level", LEVELS[:2])
@pytest.mark.parametrize("nparts", [2, 3])
def test_parts_share_rows_or_columns(nparts: int, level: str) -> None:
    for m, n, k in ((1, 900, 20), (129, 40, 33), (33, 8, 40), (0, 5, 3), (3, 0, 4)):
        a, b = drawn(1, m, k), drawn(1, k, n)
        for prepacked in (False, True):
            shared, alone = (contract(laid(a, 0), b, level, prepacked, parts) for parts in (nparts, 1))
            np.testing.assert_array_equal(shared, alone)


WRONG: dict[str, Callable[[Array], Array]] = {
    "not rounded": lambda x: x.astype(np.float64),
    "rounded to zero": lambda x: (x.view(np.int32) & -65536).view(np.float32).astype(np.float64),
    "without the last step": lambda x: np.where(np.arange(x.shape[-1]) == x.shape[-1] - 1, 0, rounded(x)),
    "steps of a pair exchanged": lambda x: rounded(x[..., np.arange(x.shape[-1]) ^ 1]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_tolerance_catches(wrong: str) -> None:
    a, b = drawn(1, 5, 66), drawn(1, 66, 40)
    got = contract(laid(a, 0), laid(b, 0), "avx512", False)
    assert within(got, rounded(a), rounded(b)) and not within(got, WRONG[wrong](a), rounded(b))


@pytest.mark.parametrize("level", LEVELS)
def test_special_values_and_the_smallest_numbers(level: str) -> None:
    """Ties go to even, what exceeds the largest number becomes infinity, NaN stays; what is taken for 0 is within the tolerance."""
    largest = np.finfo(np.float32).max
    special = np.array(
        [[1 + 2.0**-8, 1 + 3 * 2.0**-8, largest, -np.inf, np.nan, -0.0, 2.0**-130, 3e-39, 1e-45]], np.float32
    )
    ones = np.ones((1, 1, 17), np.float32)
    got = contract(special.T[None].copy(), ones, level, False)[0]
    expected = np.broadcast_to(rounded(special.T), got.shape)
    np.testing.assert_array_equal(got[:6], expected[:6])
    assert (np.abs(got[6:] - expected[6:]) <= LEAST).all()
    tiny = np.full((1, 3, 40), 2.0**-130, np.float32)
    assert within(contract(tiny, drawn(1, 40, 9), level, False), rounded(tiny), rounded(drawn(1, 40, 9)))


@pytest.mark.parametrize("level", LEVELS)
def test_few_rows_and_columns_along_k(level: str) -> None:
    for k in (0, 1, 2, 15, 16, 31, 32, 33, 65, 130):
        for m, n in ((1, 37), (2, 16), (3, 9), (4, 5)):
            a, b = drawn(2, m, k), drawn(2, k, n)
            assert within(contract(laid(a, 0), laid(b, 1), level, False), rounded(a), rounded(b))


@pytest.mark.parametrize("way_a", range(3))
@pytest.mark.parametrize("level", LEVELS)
def test_few_rows_and_adjacent_columns(level: str, way_a: int) -> None:
    """Columns fill no, one or several vectors; a last element along k has no partner, or has one."""
    for k in (0, 1, 2, 3, 7, 8, 9, 16, 67):
        for m, n in ((1, 37), (2, 16), (3, 1), (4, 100), (4, 15), (6, 20), (8, 33), (9, 17)):
            a, b = drawn(2, m, k), drawn(2, k, n)
            assert within(contract(laid(a, way_a), laid(b, 0), level, False), rounded(a), rounded(b))


@pytest.mark.parametrize("level", LEVELS)
def test_few_rows_are_multiplied_in_place(level: str) -> None:
    """Scratch has less than the columns take as words, which more rows pack, and few rows of columns that are adjacent in no direction."""
    n, k = 100, 64
    columns = n * 4 * (k // Pairs().per(target_at(level)))
    for way_b, m, packs in (
        (0, 1, False),
        (0, 4, False),
        (1, 1, False),
        (1, 4, False),
        (0, 9, True),
        (1, 5, True),
        (2, 4, True),
    ):
        written = contracted(laid(drawn(1, m, k), 0), laid(drawn(1, k, n), way_b), level, False)[1]
        assert (written >= columns) == packs and (packs or written < columns // 2)


@pytest.mark.parametrize("m", [1, 4, 8])
def test_strips_longer_than_half_of_the_first_cache(m: int) -> None:
    columns = target_at("avx512").l1_bytes // 4 + 19
    a, b = drawn(1, m, 5), drawn(1, 5, columns)
    assert within(contract(laid(a, 0), laid(b, 0), "avx512", False), rounded(a), rounded(b))


@pytest.mark.parametrize("m", range(1, 9))
@pytest.mark.parametrize("level", LEVELS)
def test_short_and_long_rows_of_columns_are_added_up_alike(level: str, m: int) -> None:
    """Sums of short rows are in registers, those of long ones in memory: each has the same bits. Added up from the last step on they have
    others."""
    for n, k in ((1, 9), (31, 1), (64, 8), (150, 33)):
        a, b = drawn(1, m, k), drawn(1, k, n + 4000)
        long = contract(laid(a, 0), laid(b, 0), level, False)[..., :n]
        short = contract(laid(a, 0), laid(np.ascontiguousarray(b[..., :n]), 0), level, False)
        assert within(short, rounded(a), rounded(b[..., :n]))
        np.testing.assert_array_equal(short, long)
        if k > 16:
            backwards = contract(laid(a[..., ::-1].copy(), 0), laid(b[:, ::-1, :n].copy(), 0), level, False)
            assert (backwards != short).any()


def test_a_last_row_without_a_partner_is_multiplied_by_nothing() -> None:
    """What lies behind it may be infinite."""
    a, b = drawn(1, 2, 3), drawn(1, 4, 20)
    b[:, 3] = np.inf
    got = contract(laid(a, 0), before_forbidden_memory(b)[:, :3], "avx512", False)
    assert within(got, rounded(a), rounded(b[:, :3]))
