"""Lanes that are anywhere, on processors without an instruction that gathers: places are scalars, computed once for all rows, and a lane
that does not exist is read where another one is. Positions and floats are converted by way of 32 bits."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import Size
from anyshape.dtypes import F32, F64, I64
from anyshape.equations.functions import cast, clamp, pad, quotient
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.target import Target, processor
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

X86 = "x86_64-unknown-linux-gnu"
AVX2 = "+avx2,+fma,+f16c"
LOADS = processor(X86, "znver3", AVX2)
"""A processor that LLVM is not tuned to use gathers for."""
FAST = processor(X86, "znver3", f"{AVX2},+fast-gather")
AVX512 = processor(X86, "x86-64-v4", f"{AVX2},+avx512f,+avx512vl,+avx512bw,+avx512dq")
TARGETS = {name: host_target().limited(name) for name in ("avx512", "avx2", "sse")}
SIZES = [
    {N: n, M: m, K: k}
    for n, m, k in ((1, 5, 40), (40, 20, 70), (3, 300, 17), (33, 1, 64), (2, 0, 9), (0, 7, 30), (5, 64, 3))
]


def looked_up(dtype: str = "f32", outside: float = 0, apart: int = 3) -> Group:
    """Rows of k elements of rows of m, at places of which some are outside, all of a vector in some."""
    b = Builder("looked up")
    x, y = b.input([N, M], dtype), b.tensor([N, K], dtype)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], pad(x, outside)[i, quotient(j * M, K) * apart - 11])
    b.output(y)
    return b.group()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "u8", "i16", "i32", "i64", "bool"])
def test_lanes_that_do_not_exist_are_zero(dtype: str, target: Target) -> None:
    check(looked_up(dtype), SIZES, target=target)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_lanes_that_do_not_exist_are_what_is_outside(target: Target) -> None:
    check(looked_up(outside=2.5), SIZES, target=target)


def test_no_lane_has_a_branch_where_nothing_gathers() -> None:
    """A masked gather would be a test and a branch for each lane there; where it is an instruction it stays one."""
    gathered = {name: "masked.gather" in lower_group(looked_up(), t).text for name, t in
                (("loads", LOADS), ("sse", LOADS.limited("sse")), ("fast", FAST), ("avx512", AVX512))}  # fmt: skip
    assert gathered == {"loads": False, "sse": False, "fast": True, "avx512": True}


def test_places_are_scalars_before_the_rows() -> None:
    """The blocks that load a row's lanes, of a whole vector and of the rest, compute no places."""
    blocks = [b for b in _blocks(lower_group(looked_up(), LOADS).text) if len(re.findall(r"load float, ", b)) == 8]
    assert len(blocks) == 2
    assert not any("extractelement" in block for block in blocks)


def test_a_mask_takes_the_place_of_a_choice_of_zeros() -> None:
    """A choice of any other number is one."""
    chosen = [bool(re.search(r"icmp sge <", lower_group(looked_up(outside=n), AVX512).text)) for n in (0, -0.0, 1)]
    assert chosen == [False, True, True]


def _blocks(text: str) -> list[str]:
    return re.split(r"^b\d+:$", text, flags=re.MULTILINE)


def scattered(planes: Size, height: Size) -> Group:
    """Points of planes, whose places are the same in all of them, and differ from row to row."""
    b = Builder("scattered")
    x, shift, y = b.input([planes, height, M]), b.input([N, K]), b.tensor([planes, N, K])
    p, i, j = b.eqs.indices("i", y.shape)
    row, column = (cast(clamp(shift[i, j] * 9, 0, n - 1), I64) for n in (height, M))
    b.eqs.define(y[p, i, j], x[p, clamp(row, 0, height - 1), clamp(column, 0, M - 1)])
    b.output(y)
    return b.group()


@pytest.mark.parametrize("l2_bytes", [1 << 10, 1 << 20])
def test_planes_that_the_second_cache_holds_are_one_block(l2_bytes: int) -> None:
    target = replace(host_target(), l2_bytes=l2_bytes)
    check(scattered(B, 7), [{B: b, N: 3, M: 20, K: 21} for b in (1, 8, 9, 40)], target=target)


def test_an_image_is_what_the_lanes_may_look_up() -> None:
    """A plane where a place has a row and a column; the least of a plane and a row of it where the lanes have columns alone."""
    b = Builder("columns")
    x, y = b.input([40, 7, M]), b.tensor([40, N, K])
    p, i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[p, i, j], x[p, clamp(quotient(i * 7, N), 0, 6), clamp(quotient(j * M, K), 0, M - 1)])
    b.output(y)
    target = replace(LOADS, l2_bytes=12345)
    chosen = [
        next(block for block in _blocks(lower_group(g, target).text) if ", 12345\n" in block).split(", 12345\n")[0]
        for g in (scattered(40, 7), b.group())
    ]
    assert ["llvm.smin.i64" in block for block in chosen] == [False, True]


def positions(n: Size) -> Group:
    b = Builder("positions")
    y, z = b.tensor([3, n]), b.tensor([3, n], "f64")
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], cast(j, F32) * 0.5 + cast(i, F32))
    b.eqs.define(z[i, j], cast(j, F64) - 1)
    b.output(y)
    b.output(z)
    return b.group()


LONG = re.compile(r"sitofp <\d+ x i64>")


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_positions_are_floats(target: Target) -> None:
    check(positions(M), [{M: m} for m in (0, 1, 9, 33, 100)], target=target)
    check(positions(77), target=target)


def test_positions_of_32_bits_are_converted() -> None:
    """An axis may be of unknown size; AVX-512 converts 64 bits."""
    assert not LONG.search(lower_group(positions(77), LOADS).text)
    assert LONG.search(lower_group(positions(1 << 31), LOADS).text)
    assert "sitofp <8 x i32>" in lower_group(positions(M), LOADS).text
    assert LONG.search(lower_group(positions(77), AVX512).text)


def test_floats_are_integers_of_64_bits_whatever_they_are() -> None:
    """Vectors of which all lanes have 32 bits, and others: too large either way, infinite, NaN."""
    x = np.linspace(-1000, 1000, 320, dtype=np.float32)
    odd = [2.0**31, -(2.0**31), 2.0**31 - 128, 1e15, -1e18, 2.0**63, -(2.0**63), 1e30, -1e30, np.inf, -np.inf, np.nan]
    x[100 : 100 + 9 * len(odd) : 9] = odd
    got = anyshape.compile(anyshape.function([a := anyshape.input("a", "f32[n]")], ops.cast(a, to="i64")))(x)
    wide = np.nan_to_num(x.astype(np.float64), nan=0.0)
    want = np.where(wide >= 2.0**63, 2**63 - 1, np.clip(wide, -(2.0**63), 2.0**62).astype(np.int64))
    np.testing.assert_array_equal(got, want)


def test_places_that_are_known_no_further_out_are_gathered() -> None:
    """Each place is used once: a lane that does not exist is not read at all."""
    b = Builder("table")
    table, at, y = b.input([M]), b.input([K], "i64"), b.tensor([K], "f32")
    (i,) = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i], pad(table, 0)[at[i]])
    b.output(y)
    avx2 = processor("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma,+f16c")
    assert "masked.gather" in lower_group(b.group(), avx2).text
