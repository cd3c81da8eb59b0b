"""The width of the strips in which a transpose is copied, seen in what its code writes.

Rows of the result that overlap tell the order of stores: where a strip ends between two columns, the end of the first column's row is
written before the beginning of the second's, and the other way round within a strip, whose rows go from the first to the last together.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape.lower.gemm.library import library_module, resolve
from anyshape.lower.gemm.transposition import TRANSPOSE_ARGUMENTS, transpose_name
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import F32
from anyshape.lower.target import Target, host_target

L1, L3 = 32 << 10, 32 << 20
NEAR = L3 // 4
"""The most bytes moved that count as near."""
NARROW, WIDE = 1, 4
"""Vectors of columns in a strip."""
COLUMNS = 6
"""Vectors of columns in all."""
LEVELS = ["avx512", "avx2", "sse"]


def target_of(level: str) -> Target:
    return replace(host_target().limited(level), l1_bytes=L1, l3_bytes=L3)


@cache
def library(level: str) -> Loaded:
    module = library_module(target_of(level), F32)
    return compile_module(module, resolve(module.imports, module.target))


def iteration(level: str) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(TRANSPOSE_ARGUMENTS))(
        library(level).address(transpose_name(F32))
    )


def strip(level: str, row_step: int, to_step: int, moved: int) -> int:
    """Vectors of columns in the first strip. Elements are told apart by where they come from; steps are in elements."""
    lanes = target_of(level).lanes(F32.bytes)
    assert to_step >= lanes, "the end of a row comes with the beginning of the next"
    rows, columns = to_step + lanes, COLUMNS * lanes
    x = np.arange((rows - 1) * row_step + columns, dtype=np.int32)
    y = np.full((columns - 1) * to_step + rows, -1, np.int32)
    iteration(level)(x.ctypes.data, row_step, rows, 0, columns, columns, y.ctypes.data, to_step, moved)
    assert (y >= 0).all()
    ends = (k for k in range(1, COLUMNS) if y[k * lanes * to_step] == k * lanes)
    return next(ends, COLUMNS)


@pytest.mark.parametrize("level", LEVELS)
def test_near_strips_are_wide_unless_their_rows_drive_each_other_out(level: str) -> None:
    """The rows drive each other out where those of four vectors of columns begin so far apart that not one line of each has a place of its
    own."""
    lanes = target_of(level).lanes(F32.bytes)
    apart = 2 * L1 // (4 * lanes) // F32.bytes
    widths = {to_step: strip(level, 100, to_step, NEAR) for to_step in (apart, 2 * apart, 3 * apart)}
    assert set(widths.values()) == {NARROW}, widths
    steps = (apart // 2, apart - 1, apart + 1, apart + apart // 2)
    widths = {to_step: strip(level, 100, to_step, NEAR) for to_step in steps}
    assert set(widths.values()) == {WIDE}, widths


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("row_step", "to_step", "width"),
    [
        (300, 299, WIDE),
        (300, 300, WIDE),
        (300, 301, NARROW),
        (4096, 1024, WIDE),
        (64, 1024, NARROW),
        (64, 1000, NARROW),
    ],
)
def test_far_strips_are_wide_where_rows_of_the_operand_have_the_longer_step(
    level: str, row_step: int, to_step: int, width: int
) -> None:
    assert strip(level, row_step, to_step, NEAR + 1) == width


@pytest.mark.parametrize("level", LEVELS)
def test_near_is_a_quarter_of_the_last_cache(level: str) -> None:
    """Equal steps have opposite widths on either side of it."""
    assert [strip(level, 1024, 1024, moved) for moved in (NEAR, NEAR + 1)] == [NARROW, WIDE]
    assert [strip(level, 64, 1000, moved) for moved in (NEAR, NEAR + 1)] == [WIDE, NARROW]


@pytest.mark.skipif(target_of("avx512").lanes(F32.bytes) != 16, reason="figures are of vectors of sixteen")
@pytest.mark.parametrize(
    ("shape", "perm", "width"),
    [
        ((512, 768), (1, 0), NARROW),
        ((1024, 1024), (1, 0), NARROW),
        ((1024, 1025), (1, 0), WIDE),
        ((1025, 1024), (1, 0), NARROW),
        ((1001, 777), (1, 0), WIDE),
        ((8, 128, 256), (0, 2, 1), WIDE),
        ((8, 256, 128), (0, 2, 1), NARROW),
        ((8, 12, 128, 64), (0, 1, 3, 2), WIDE),
        ((8, 64, 56, 56), (0, 2, 3, 1), WIDE),
        ((8, 56, 56, 64), (0, 3, 1, 2), NARROW),
    ],
)
def test_widths_of_shapes(shape: tuple[int, ...], perm: tuple[int, ...], width: int) -> None:
    """What a few transposes of f32 take, by the steps of dense tensors."""
    operand = np.empty(shape, np.float32)
    result = np.empty([shape[p] for p in perm], np.float32)
    row_step = operand.strides[perm[-1]] // operand.itemsize
    to_step = result.strides[perm.index(len(shape) - 1)] // result.itemsize
    assert strip("avx512", row_step, to_step, operand.nbytes + result.nbytes) == width
