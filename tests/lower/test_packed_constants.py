"""Constants that are laid out at compile time: filled together, in memory that they share."""

from __future__ import annotations

import mmap
from functools import partial

import numpy as np
import pytest

from anyshape.lower import gemm
from anyshape.lower.llvm.types import F32
from anyshape.lower.target import host_target


def test_packed_constants_of_a_collection_share_mappings_and_outlive_each_other() -> None:
    tiles = gemm.tiles_for(host_target(), F32)
    arrays = [np.full((300, width), float(width), np.float32) for width in (901, 3, 1000)]
    with gemm.collected() as jobs:
        packed = [gemm.prepack_b(a, tiles) for a in arrays]
    gemm.do_all(jobs, 1)
    assert len(jobs) == 2  # the one of three columns is small
    if hasattr(mmap, "MADV_HUGEPAGE"):
        assert packed[0].base is packed[2].base and packed[1].base is not packed[0].base
    assert [a.ctypes.data % 64 for a in packed] == [0, 0, 0]
    del packed[0]
    np.testing.assert_array_equal(packed[1], gemm.prepack_b(arrays[2], tiles))


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages to ask for")
def test_packed_constants_lie_in_ordinary_memory_where_no_mapping_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError("out of mappings")

    tiles = gemm.tiles_for(host_target(), F32)
    array = np.ones((300, 900), np.float32)
    with monkeypatch.context() as patched, gemm.collected() as jobs:
        patched.setattr(mmap, "mmap", refuse)
        packed = gemm.prepack_b(array, tiles)
    gemm.do_all(jobs, 1)
    assert isinstance(packed.base, np.ndarray) and packed.ctypes.data % 64 == 0
    np.testing.assert_array_equal(packed, gemm.prepack_b(array, tiles))


def test_large_constants_are_packed_together() -> None:
    tiles = gemm.tiles_for(host_target(), F32)
    large = np.random.default_rng(3).normal(size=(2, 300, 5 * tiles.columns + 3)).astype(np.float32)
    small, wanted = large[:, :2], gemm.prepack_b(large, tiles)
    with gemm.collected() as jobs:
        got, at_once = gemm.prepack_b(large, tiles), gemm.prepack_b(small, tiles)
    assert len(jobs) == 1 and not got.any()
    np.testing.assert_array_equal(at_once, wanted[:, :, :2])
    gemm.do_all(jobs, 3)
    np.testing.assert_array_equal(got, wanted)
    done: list[int] = []
    gemm.do_all([partial(done.append, k) for k in range(50)], 4)
    assert sorted(done) == list(range(50))
    with pytest.raises(ZeroDivisionError):
        gemm.do_all([lambda: done.append(0), lambda: 1 // 0], 2)
