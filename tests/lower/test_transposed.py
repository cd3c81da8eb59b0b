"""Maps that turn an operand: bare copies by the library, others by blocks, short sides element by element; ends that overlap."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from anyshape.equations.functions import exp
from anyshape.lower import Group, lower_group
from anyshape.lower.gemm.library import library_module, resolve
from anyshape.lower.gemm.transposition import TRANSPOSE_ARGUMENTS, transpose_name
from anyshape.lower.llvm.jit import compile_module
from anyshape.lower.llvm.types import F32, I16
from anyshape.lower.target import host_target
from benchmarks.gemm_measure import aligned
from tests.lower.groups import B, Builder, M, N
from tests.lower.native import check

PAST = [
    (64, 48),
    (300, 64),
    (64, 80),
    (33, 65),
    (17, 48),
    (80, 40),
    (16, 16),
    (600, 32),
    (2, 64),
    (137, 150),
    (150, 137),
    (40, 31),
]
SIZES = [(16, 16), (17, 33), (100, 70), (3, 90), (90, 3), (1, 1), (15, 16), (0, 20), (20, 0), (65, 129)]


def transposed(bare: bool, dtype: str = "f32") -> Group:
    b = Builder("turned")
    x = b.input([B, N, M], dtype)
    y = b.tensor([B, M, N], dtype)
    n, i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, j], x[n, j, i] if bare else exp(x[n, j, i]))
    b.output(y)
    return b.group()


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "i8", "i16", "bool"])
def test_copies(dtype: str, level: str) -> None:
    target = host_target().limited(level)
    assert lower_group(transposed(True, dtype), target).schedule == ("transposed",)
    check(transposed(True, dtype), [{B: 2, N: n, M: m} for n, m in SIZES], target=target)


def test_maps_of_short_elements_are_rows() -> None:
    """The library copies them, and has no packers that would put a block into scratch."""
    assert lower_group(transposed(False, "f16"), host_target()).schedule == ("rows",)


@pytest.mark.parametrize("bare", [False, True])
def test_few_planes_of_known_number(bare: bool) -> None:
    """A copy picks lanes; a map reads its elements one by one."""
    b = Builder("planes")
    x = b.input([B, N, 3], "u8" if bare else "f32")
    y = b.tensor([B, 3, N], x.dtype)
    n, i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i, j], x[n, j, i] if bare else exp(x[n, j, i]))
    b.output(y)
    assert lower_group(b.group(), host_target()).schedule == (("transposed",) if bare else ("rows",))
    check(b.group(), [{B: 2, N: n} for n in (0, 1, 3, 15, 16, 17, 64, 333)])


@pytest.mark.parametrize("few", [1, 2, 3, 5, 7, 8, 9, 12, 15])
@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_few_planes(few: int, level: str) -> None:
    """Planes become elements side by side, and back: a copy, by picking lanes, or in squares of which some rows are left out."""
    sizes = [{B: 2, N: few, M: m} for m in (16, 17, 40, 129, 200)] + [
        {B: 2, N: m, M: few} for m in (16, 17, 40, 129, 200)
    ]
    for dtype in ("f32", "i64", "u8", "i16"):
        check(transposed(True, dtype), sizes, target=host_target().limited(level))


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize(("dtype", "lanes", "line"), [("i16", 8, 32), ("u8", 16, 64)])
def test_rows_of_results_that_are_no_longer_than_a_line(dtype: str, lanes: int, line: int, level: str) -> None:
    """Strips of 16 squares and a rest, of one square in a row, of two that overlap, of whole lines, and of a line and one more element."""
    rows = (lanes, lanes + 1, line - 1, line, line + 1)
    columns = (lanes, 16 * lanes, 16 * lanes + 1, 33 * lanes - 1)
    sizes = [{B: 2, N: n, M: m} for n in rows for m in columns]
    check(transposed(True, dtype), sizes, target=host_target().limited(level))


def test_rows_of_short_elements_of_at_most_a_line_go_on_along_the_columns() -> None:
    """The strip's squares are side by side where a row of the result is no longer than a line; the library has both orders."""
    text = library_module(host_target(), I16).text()
    assert "icmp sle i64 %to_step, 32\n" in text
    assert "icmp sle i64 %to_step" not in library_module(host_target(), F32).text()


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_copies_past_the_caches(level: str) -> None:
    """Whole lines of results are stored past a last cache that holds less than is moved, and ends are not. Results begin at lines in runs
    of one part and of three, and so do their rows if these are as long; otherwise lines are put together."""
    target = replace(host_target().limited(level), l3_bytes=8 << 10)
    for dtype in ("f32", "f64", "i32", "u8", "i16"):
        check(transposed(True, dtype), [{B: 2, N: n, M: m} for n, m in PAST], target=target)


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
def test_part_of_a_line_is_stored_otherwise(level: str) -> None:
    """Rows that end within a line of a result, whose own rows go on behind them."""
    module = library_module(host_target().limited(level), F32)
    loaded = compile_module(module, resolve(module.imports, module.target))
    iteration = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(TRANSPOSE_ARGUMENTS))(
        loaded.address(transpose_name(F32))
    )
    rows, columns, step = 40, 33, 64
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    y = aligned(columns * step)
    y[:] = -1.0
    iteration(x.ctypes.data, columns, rows, 0, columns, columns, y.ctypes.data, step, 1 << 40)
    y = y.reshape(columns, step)
    assert np.array_equal(y[:, :rows], x.T)
    assert (y[:, rows:] == -1.0).all()


def test_what_the_last_cache_holds_stays_there() -> None:
    """Three quarters of it, read and written."""
    text = library_module(replace(host_target(), l3_bytes=4 << 20), F32).text()
    assert f"icmp sgt i64 %moved, {3 << 20}\n" in text


def test_maps() -> None:
    group = transposed(False)
    assert lower_group(group, host_target()).schedule == ("transposed",)
    check(group, [{B: 2, N: n, M: m} for n, m in SIZES])
