"""The matrix product of f32 rounded to bf16 or f16, for all levels, sizes and layouts: against the product of what is multiplied, in f64.

Sums are of f32, each term and each sum rounded once: within 2**-24 of the sum of the terms' sizes for each step. Instructions take numbers
below 2**-126 for 0, in factors, terms and sums. Where words of f16 are multiplied sums of a chunk are of f16, of which
`test_pairs_of_f16.py` has more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.lower import gemm
from anyshape.lower.gemm.pairs import CHUNK_OF_F16, Pairs
from anyshape.lower.llvm.types import BF16, F16, F32
from tests.lower.contraction_kernels import contraction, run_parts, target_at
from tests.lower.forbidden import before_forbidden_memory

Array = NDArray[Any]
STEP, LEAST = 2.0**-24, 2.0**-126


@dataclass(frozen=True)
class WordsAtLevel:
    """Products of words at a level of instructions. `dropped`: bits of an f32 that its rounding drops; `least`: what is taken for 0."""

    words: Pairs
    level: str
    dtype: Any
    dropped: int
    least: float
    smallest: tuple[float, ...]
    """Numbers that rounding keeps or not, which are subnormal ones then, and one of which products may be taken for 0"""

    @property
    def half(self) -> float:
        """Half of the distance from 1 to the next number."""
        return 2.0 ** (self.dropped - 24)

    @property
    def sums_in_f16(self) -> bool:
        """Whether sums are of f16, but for few rows that read the other factor in place."""
        return self.words.element == F16 and self.words.are_multiplied(target_at(self.level))

    def rounded(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return x.astype(self.dtype).astype(np.float64)

    def contract(self, a: Array, b: Array, prepacked: bool = False, nparts: int = 1) -> Array:
        return self.contracted(a, b, prepacked, nparts)[0]

    def contracted(self, a: Array, b: Array, prepacked: bool = False, nparts: int = 1) -> tuple[Array, int]:
        """The product, and how many bytes of scratch the last part wrote."""
        target, words = target_at(self.level), self.words
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
        kernel = contraction(self.level, F32, prepacked=prepacked, words=words)
        return c, run_parts(kernel, scalars, (a, b, c), bytes_, nparts)

    def within(self, got: Array, a: Array, b: Array) -> bool:
        """Whether a result is the product of two matrices, rounded, but for what f32 sums may lose of it."""
        return within(got, self.rounded(a), self.rounded(b))

    def near(self, got: Array, a: Array, b: Array) -> bool:
        """Whether a result is the product of two matrices, rounded, but for what sums may lose of it: with f16, half a unit for each step
        of a chunk and for each factor."""
        if not self.sums_in_f16:
            return self.within(got, a, b)
        a, b = self.rounded(a), self.rounded(b)
        lost = 2.0**-11 * (np.abs(a) @ np.abs(b)) * (CHUNK_OF_F16 + 2)
        return bool((np.abs(got - a @ b) <= lost + 2.0**-24 * a.shape[-1]).all())


def of_bf16(level: str) -> WordsAtLevel:
    return WordsAtLevel(Pairs(BF16), level, ml_dtypes.bfloat16, 16, LEAST, (2.0**-130, 3e-39, 1e-45))


def of_f16(level: str) -> WordsAtLevel:
    return WordsAtLevel(Pairs(F16), level, np.float16, 13, 0, (2.0**-24, 3 * 2.0**-20, 2.0**-26))


HAS_F16 = target_at("fp16").halves
BY_PAIRS, BY_CHUNKS = [of_bf16("amx"), of_bf16("avx512")], [of_f16("fp16")] if HAS_F16 else []
ALL = [
    *BY_PAIRS,
    *map(of_bf16, ("slow pairs", "avx512f", "avx2", "sse")),
    *BY_CHUNKS,
    *map(of_f16, ("avx512", "avx512f", "avx2", "sse")),
]


def named(cases: list[WordsAtLevel]) -> list[Any]:
    return [pytest.param(c, id=f"{np.dtype(c.dtype).name} {c.level}") for c in cases]


every_case = pytest.mark.parametrize("case", named(ALL))


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
FEW_ROWS = [size for size in SIZES if size[0] <= 4]


@every_case
def test_every_level(case: WordsAtLevel) -> None:
    """Each size with all layouts of both factors, and as constants."""
    for index, (m, n, k) in enumerate(SIZES * 3):
        a, b = drawn(2, m, k), drawn(2, k, n)
        for way in range(4):
            got = case.contract(laid(a, index % 3), b if way == 3 else laid(b, way), way == 3)
            assert case.near(got, a, b), (m, n, k, way)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 15, 16, 31, 32, 33, 63, 64, 65])
@every_case
def test_every_length_by_every_layout(case: WordsAtLevel, k: int) -> None:
    for way_a in range(3):
        for way_b in range(4):
            m, n = (1, 5, 16, 17)[way_b], (33, 16, 7)[way_a]
            a, b = drawn(1, m, k), drawn(1, k, n)
            got = case.contract(laid(a, way_a), b if way_b == 3 else laid(b, way_b), way_b == 3)
            assert case.near(got, a, b)


@pytest.mark.parametrize("case", named(BY_PAIRS + BY_CHUNKS))
@pytest.mark.parametrize("nparts", [2, 3])
def test_parts_share_rows_or_columns(nparts: int, case: WordsAtLevel) -> None:
    for m, n, k in ((1, 900, 20), (129, 40, 33), (129, 40, 133), (33, 8, 40), (0, 5, 3), (3, 0, 4)):
        a, b = drawn(1, m, k), drawn(1, k, n)
        for prepacked in (False, True):
            shared, alone = (case.contract(laid(a, 0), b, prepacked, parts) for parts in (nparts, 1))
            np.testing.assert_array_equal(shared, alone)


def rounded_to_zero(case: WordsAtLevel, x: Array) -> Array:
    return (x.view(np.int32) & -(1 << case.dropped)).view(np.float32).astype(np.float64)


WRONG: dict[str, Callable[[WordsAtLevel, Array], Array]] = {
    "not rounded": lambda case, x: x.astype(np.float64),
    "rounded to zero": rounded_to_zero,
    "without the last step": lambda case, x: np.where(np.arange(x.shape[-1]) == x.shape[-1] - 1, 0, case.rounded(x)),
    "steps of a pair exchanged": lambda case, x: case.rounded(x[..., np.arange(x.shape[-1]) ^ 1]),
}


@pytest.mark.parametrize("case", named([of_bf16("avx512"), of_f16("avx512")]))
@pytest.mark.parametrize("wrong", WRONG)
def test_the_tolerance_catches(wrong: str, case: WordsAtLevel) -> None:
    a, b = drawn(1, 5, 66), drawn(1, 66, 40)
    got = case.contract(laid(a, 0), laid(b, 0))
    assert case.within(got, a, b) and not within(got, WRONG[wrong](case, a), case.rounded(b))


@every_case
def test_special_values_and_the_smallest_numbers(case: WordsAtLevel) -> None:
    """Ties go to even, what exceeds the largest number becomes infinity, NaN stays; what is taken for 0 is within the tolerance."""
    beyond = float(np.finfo(np.float32).max) if case.dtype is ml_dtypes.bfloat16 else 65520
    ties = (1 + case.half, 1 + 3 * case.half)
    special = np.array([[*ties, beyond, -np.inf, np.nan, -0.0, *case.smallest]], np.float32)
    ones = np.ones((1, 1, 17), np.float32)
    for prepacked in (False, True):
        got = case.contract(special.T[None].copy(), ones, prepacked)[0]
        expected = np.broadcast_to(case.rounded(special.T), got.shape)
        np.testing.assert_array_equal(got[:6], expected[:6])
        assert (np.abs(got[6:] - expected[6:]) <= case.least).all()
    tiny, b = np.full((1, 3, 40), case.smallest[0], np.float32), drawn(1, 40, 9)
    assert case.within(case.contract(tiny, b), tiny, b)


@every_case
def test_few_rows_and_columns_along_k(case: WordsAtLevel) -> None:
    """Sums of up to four rows, which read the columns in place, are of f32 everywhere."""
    sizes = product(((1, 37), (2, 16), (3, 9), (4, 5)), (0, 1, 2, 15, 16, 31, 32, 33, 65, 130))
    for m, n, k in (*((m, n, k) for (m, n), k in sizes), *FEW_ROWS):
        a, b = drawn(2, m, k), drawn(2, k, n)
        assert case.within(case.contract(laid(a, 0), laid(b, 1)), a, b)


@pytest.mark.parametrize("way_a", range(3))
@every_case
def test_few_rows_and_adjacent_columns(case: WordsAtLevel, way_a: int) -> None:
    """Columns fill no, one or several vectors; a last element along k has no partner, or has one. Sums of up to eight rows are of f32
    everywhere."""
    rows = ((1, 37), (2, 16), (3, 1), (4, 100), (4, 15), (6, 20), (8, 33), (9, 17))
    for m, n, k in (*((m, n, k) for (m, n), k in product(rows, (0, 1, 2, 3, 7, 8, 9, 16, 67))), *FEW_ROWS):
        a, b = drawn(2, m, k), drawn(2, k, n)
        got = case.contract(laid(a, way_a), laid(b, 0))
        assert case.within(got, a, b) if m <= 8 else case.near(got, a, b)


@every_case
def test_few_rows_are_multiplied_in_place(case: WordsAtLevel) -> None:
    """Scratch has less than the columns take as words, which more rows pack, and few rows of columns that are adjacent in no direction."""
    n, k = 100, 64
    columns = n * 4 * (k // case.words.per(target_at(case.level)))
    for way_b, m, packs in (
        (0, 1, False),
        (0, 4, False),
        (1, 1, False),
        (1, 4, False),
        (0, 9, True),
        (1, 5, True),
        (2, 4, True),
    ):
        written = case.contracted(laid(drawn(1, m, k), 0), laid(drawn(1, k, n), way_b))[1]
        assert (written >= columns) == packs and (packs or written < columns // 2)


@pytest.mark.parametrize("m", [1, 4, 8])
def test_strips_longer_than_half_of_the_first_cache(m: int) -> None:
    case, columns = of_bf16("avx512"), target_at("avx512").l1_bytes // 4 + 19
    a, b = drawn(1, m, 5), drawn(1, 5, columns)
    assert case.within(case.contract(laid(a, 0), laid(b, 0)), a, b)


@pytest.mark.parametrize("m", range(1, 9))
@every_case
def test_short_and_long_rows_of_columns_are_added_up_alike(case: WordsAtLevel, m: int) -> None:
    """Sums of short rows are in registers, those of long ones in memory: each has the same bits. Added up from the last step on they have
    others."""
    for n, k in ((1, 9), (31, 1), (64, 8), (150, 33)):
        a, b = drawn(1, m, k), drawn(1, k, n + 4000)
        long = case.contract(laid(a, 0), laid(b, 0))[..., :n]
        short = case.contract(laid(a, 0), laid(np.ascontiguousarray(b[..., :n]), 0))
        assert case.within(short, a, b[..., :n])
        np.testing.assert_array_equal(short, long)
        if k > 16:
            backwards = case.contract(laid(a[..., ::-1].copy(), 0), laid(b[:, ::-1, :n].copy(), 0))
            assert (backwards != short).any()


@pytest.mark.parametrize("case", named([of_bf16("avx512"), *BY_CHUNKS]))
def test_a_last_row_without_a_partner_is_multiplied_by_nothing(case: WordsAtLevel) -> None:
    """What lies behind it may be infinite."""
    a, b = drawn(1, 2, 3), drawn(1, 4, 20)
    b[:, 3] = np.inf
    got = case.contract(laid(a, 0), before_forbidden_memory(b)[:, :3])
    assert case.within(got, a, b[:, :3])
