"""Products of factors that both are narrow in memory: few rows are widened, and columns along k are read where they lie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.lower import gemm, host_target
from anyshape.lower.llvm.types import BF16, F16, F32, I8
from tests.lower.contraction_kernels import contraction, run_parts
from tests.lower.forbidden import before_forbidden_memory

Array = NDArray[Any]
STORED: dict[str, tuple[Any, Any]] = {"f16": (F16, np.float16), "bf16": (BF16, ml_dtypes.bfloat16), "i8": (I8, np.int8)}
LEVELS = ("avx512", "avx2", "sse")


def contracted(a: Array, b: Array, level: str, stored: tuple[str, str], nparts: int = 1) -> tuple[Array, int]:
    """The product, and how many bytes of scratch the last part wrote."""
    tiles = gemm.tiles_for(host_target().limited(level), F32)
    (m, k), n = a.shape, b.shape[1]
    c = before_forbidden_memory(np.full((m, n), 77, np.float32))
    steps = [step // x.itemsize for x in (a, b) for step in x.strides]
    types = {name: STORED[x][0] for name, x in zip(("a_stored", "b_stored"), stored, strict=True)}
    kernel = contraction(level, F32, batched=False, **types)
    return c, run_parts(kernel, [m, n, k, *steps], (a, b, c), gemm.scratch_bytes(tiles, m, n, k, packs_b=True), nparts)


def drawn(name: str, *shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.integers(-128, 128, shape) if name == "i8" else rng.standard_normal(shape)).astype(STORED[name][1])


def along_k(x: Array) -> Array:
    """Columns that are contiguous along k."""
    return before_forbidden_memory(np.ascontiguousarray(x.T)).T


@pytest.mark.parametrize("stored", [("f16", "f16"), ("bf16", "bf16"), ("i8", "i8"), ("bf16", "i8")])
@pytest.mark.parametrize("level", LEVELS)
def test_columns_along_k(level: str, stored: tuple[str, str]) -> None:
    """Nine rows are more than are multiplied in place; nothing is read beyond rows and columns."""
    for m, n, k in [(m, n, k) for m in (1, 2, 4, 5, 8, 9, 17) for n in (1, 16, 33) for k in (0, 1, 15, 16, 17, 40)]:
        a, b = drawn(stored[0], m, k), drawn(stored[1], k, n)
        want = a.astype(np.float64) @ b.astype(np.float64)
        sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
        for rows in (before_forbidden_memory(a), along_k(a)):
            got, _ = contracted(rows, along_k(b), level, stored)
            assert (np.abs(got - want) <= 2.0**-24 * (k + 2) * sizes).all()
        if m > 1 and k > 16:  # a row of another one would be seen
            assert (np.abs(got[::-1] - want) > 2.0**-24 * (k + 2) * sizes).any()


@pytest.mark.parametrize("nparts", [2, 3])
def test_parts_have_the_bits_of_one(nparts: int) -> None:
    for m, n, k in ((1, 300, 40), (8, 70, 33), (9, 70, 33)):
        a, b = before_forbidden_memory(drawn("bf16", m, k)), along_k(drawn("bf16", k, n))
        alone, shared = (contracted(a, b, "avx512", ("bf16", "bf16"), parts)[0] for parts in (1, nparts))
        np.testing.assert_array_equal(alone, shared)


@pytest.mark.parametrize("level", LEVELS)
def test_columns_are_read_where_they_lie(level: str) -> None:
    """More rows have them packed, as have rows that are not contiguous along k: scratch has as much as all columns take."""
    n, k, most = 400, 64, gemm.tiles_for(host_target().limited(level), F32).rows_in_place
    for m, along, packs in ((1, True, False), (most, True, False), (most + 1, True, True), (4, False, True)):
        a, b = drawn("bf16", m, k), drawn("bf16", k, n)
        rows = before_forbidden_memory(a) if along else along_k(a)
        _, written = contracted(rows, along_k(b), level, ("bf16", "bf16"))
        assert (written >= b.nbytes // 2) == packs, (m, along)
