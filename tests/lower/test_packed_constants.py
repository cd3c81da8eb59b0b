"""Constants that are laid out at compile time: filled beside the compile and after it, in memory that they share."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

from anyshape.lower import gemm
from anyshape.lower.gemm.background_packing import Pages
from anyshape.lower.llvm.types import F32
from anyshape.lower.target import host_target

TARGET = host_target()
TILES = gemm.tiles_for(TARGET, F32)
Array = np.ndarray[Any, Any]


def packed_later(b: Array) -> Array:
    return gemm.prepack_b(b, TILES, lambda b: gemm.packer_of(b.dtype, TILES, TARGET))


def test_packed_constants_of_a_collection_share_mappings_and_outlive_each_other() -> None:
    arrays = [np.full((320, width), float(width), np.float32) for width in (901, 3, 1000)]
    with gemm.collected(1):
        packed = [packed_later(a) for a in arrays]
    if hasattr(mmap, "MADV_HUGEPAGE"):
        assert (
            packed[0].base is packed[2].base and packed[1].base is not packed[0].base
        )  # the one of three columns is small
    assert [a.ctypes.data % 64 for a in packed] == [0, 0, 0]
    del packed[0]
    same_but_beyond(packed[1], arrays[2])


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages to ask for")
def test_packed_constants_lie_in_ordinary_memory_where_no_mapping_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError("out of mappings")

    array = np.ones((320, 900), np.float32)
    with monkeypatch.context() as patched, gemm.collected(1):
        patched.setattr(mmap, "mmap", refuse)
        packed = packed_later(array)
    assert isinstance(packed.base, np.ndarray) and packed.ctypes.data % 64 == 0
    same_but_beyond(packed, array)


def same_but_beyond(packed: Array, b: Array) -> None:
    """Asserts that arrays are equal in all that anybody reads: what lies beyond the last column is not."""
    expected, rest = gemm.prepack_b(b, TILES), b.shape[-1] % TILES.columns or TILES.columns
    np.testing.assert_array_equal(packed[..., :-1, :, :], expected[..., :-1, :, :])
    np.testing.assert_array_equal(packed[..., -1, :, :rest], expected[..., -1, :, :rest])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("threads", [1, 3])
def test_large_constants_are_packed_beside(dtype: str, threads: int) -> None:
    """Constants are packed of rows and of columns, whole panels and not, batches; what is small or would be written past its end is packed
    at once."""
    large = np.random.default_rng(3).normal(size=(2, 20 * TILES.lanes, 9 * TILES.columns + 3)).astype(dtype)
    transposed = np.ascontiguousarray(large.swapaxes(1, 2)).swapaxes(1, 2)
    several = [large, transposed, transposed[:, 1:], large[:, :2], large[:, ::-1]]
    with gemm.collected(threads) as later:
        got = [packed_later(b) for b in several]
    later.wait()
    for b, packed in zip(several, got, strict=True):
        same_but_beyond(packed, b)


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages to ask for")
@pytest.mark.parametrize("expected", [0, 1, 5])
def test_packed_constants_lie_in_the_pages_that_were_touched_ahead(expected: int) -> None:
    """There are more constants than expected, or fewer; what was there before a page is touched stays there."""
    arrays = [np.random.default_rng(k).normal(size=(320, 900)).astype(np.float32) for k in range(3)]
    with gemm.collected(2) as later:
        later.expect(expected * arrays[0].nbytes, lambda: gemm.toucher(TARGET))
        packed = [packed_later(a) for a in arrays]
    later.wait()
    assert (packed[0].base is packed[1].base) or not expected
    for a, p in zip(arrays, packed, strict=True):
        same_but_beyond(p, a)


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages to ask for")
def test_what_is_expected_later_comes_behind_what_was_expected_first() -> None:
    """Arrays lie in the first mapping as long as there is room, then in the second."""
    arrays = [np.full((320, 3200), float(k), np.float32) for k in range(20)]
    with gemm.collected(2) as later:
        later.expect(8 * arrays[0].nbytes, lambda: gemm.toucher(TARGET))
        later.expect(16 * arrays[0].nbytes, lambda: gemm.toucher(TARGET))
        later.expect(arrays[0].nbytes, lambda: gemm.toucher(TARGET))
        packed = [packed_later(a) for a in arrays]
    later.wait()
    assert later.is_over
    assert packed[0].base is packed[7].base is not packed[8].base
    for a, p in zip(arrays, packed, strict=True):
        same_but_beyond(p, a)


def test_pages_that_nothing_lies_in_are_given_back() -> None:
    with gemm.collected(2) as later:
        later.expect(1 << 24, lambda: gemm.toucher(TARGET))
    later.wait()
    with pytest.raises(ZeroDivisionError), gemm.collected(2) as later:
        later.expect(1 << 24, lambda: gemm.toucher(TARGET))
        raise ZeroDivisionError


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages to ask for")
def test_touching_pages_changes_nothing_and_ends_where_it_should() -> None:
    mapping = mmap.mmap(-1, 64 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    words = np.frombuffer(mapping, np.int64)
    words[:] = np.arange(words.size)
    pages = Pages(gemm.toucher(TARGET), mapping, 48, np.zeros(1, np.int64))
    pages.touch()
    assert (words == np.arange(words.size)).all() and pages.claimed[0] == 48
    pages.stop()
    pages.give_back(40 * mmap.PAGESIZE - 1)
    kept = 40 * mmap.PAGESIZE // 8
    assert (words[:kept] == np.arange(kept)).all() and not words[kept:].any()


def test_packing_that_nobody_waits_for_is_given_up() -> None:
    large = np.ones((512, 256), np.float32)
    with pytest.raises(ZeroDivisionError), gemm.collected(2):
        packed_later(large)
        raise ZeroDivisionError
    assert gemm.prepack_b(large, TILES).all()
