"""Functions of one byte: looked up in a table where they take long enough and nothing else varies, and computed elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import F32, U8, parse_dtype
from anyshape.equations import Tensor
from anyshape.equations.functions import cast, exp, round_even
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.llvm.jit import assembly
from anyshape.lower.target import Target
from tests.lower.groups import Builder, M, N
from tests.lower.native import check

TARGET = replace(host_target(), permutes_bytes=True)
PERMUTES = "llvm.x86.avx512.vpermi2var.qi.512"
AVX2 = host_target().limited("avx2")
PICKS = "llvm.x86.avx2.pshuf.b"
needs_avx2 = pytest.mark.skipif(not AVX2.picks_of_sixteen, reason="a processor that picks bytes out of 16")


def quantised(kind: str, dtype: str = "u8") -> Group:
    """Bytes less a zero point, their exponential, and bytes again; what else there is, `kind` says."""
    b = Builder(kind)
    byte = parse_dtype(dtype)
    x, zero = b.input([N, M], dtype), b.input([], dtype)
    other = {"two bytes": b.input([N, M], dtype), "a scale each": b.input([M])}.get(kind)
    y = b.tensor([N, M], dtype)
    i, j = b.eqs.indices("i", y.shape)
    known = cast(x[i, j], F32) - cast(zero[()], F32)
    if kind == "two bytes":
        known = known * cast(other[i, j], F32)
    elif kind == "a scale each":
        known = known * other[j]
    elif kind == "a position":
        known = known + cast(j, F32)
    value = known if kind == "cheap" else exp(known * 0.1) * 3.0
    b.eqs.define(y[i, j], cast(round_even(value), byte))
    b.output(y)
    return b.group()


@pytest.mark.parametrize("kind", ["plain", "cheap", "two bytes", "a scale each", "a position"])
def test_what_is_looked_up(kind: str) -> None:
    text = lower_group(quantised(kind), TARGET).text
    assert (PERMUTES in text) == (kind == "plain")
    assert PERMUTES not in lower_group(quantised(kind), replace(TARGET, permutes_bytes=False)).text


@needs_avx2
@pytest.mark.parametrize("kind", ["plain", "cheap", "two bytes", "a scale each", "a position"])
def test_what_is_looked_up_by_sixteenths(kind: str) -> None:
    assert (PICKS in lower_group(quantised(kind), AVX2).text) == (kind == "plain")


@needs_avx2
@pytest.mark.parametrize("columns", [32, 256])
def test_a_table_is_for_more_elements_than_it_has(columns: int) -> None:
    b = Builder("known sizes")
    x = b.input([4, columns], "u8")
    b.output(b.map(lambda v: cast(round_even(exp(cast(v, F32) * 0.01) * 3.0), U8), x, dtype="u8"))
    assert (PICKS in lower_group(b.group(), AVX2).text) == (columns == 256)


@needs_avx2
def test_vectors_of_bytes_are_read_and_looked_up_whole() -> None:
    """Results of bytes that a vector of f32 has, a quarter of those that an instruction takes, are not looked up."""
    text = assembly(lower_group(quantised("plain"), AVX2).text, AVX2)
    assert len(re.findall(r"vpshufb\s+%ymm\d+, %ymm\d+", text)) == 16
    assert "vpmovzxbd" not in text.split("vpsubsb")[1]


@pytest.mark.parametrize("target", [None, AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_all_bytes(dtype: str, target: Target | None) -> None:
    group = quantised("plain", dtype)
    x = group.inputs[0]
    codes = np.arange(256, dtype=np.uint8).view(dtype.replace("u8", "uint8").replace("i8", "int8"))
    arrays: dict[Tensor, np.ndarray] = {x: np.resize(codes, (4, 77))}
    check(group, [{N: 4, M: 77}], fixed=arrays, target=target)
    check(group, [{N: 3, M: 1}, {N: 0, M: 5}, {N: 1, M: 1000}], target=target)


def test_behind_a_padded_read() -> None:
    """The byte of a pad is looked up as any other."""
    x = anyshape.input("x", "u8[n, 70]")
    known = ops.dequantize_linear(ops.pad(x, pads=[0, 1, 0, 2]), np.float32(0.05), np.uint8(100))
    y = ops.quantize_linear(ops.sigmoid(known), np.float32(0.004), np.uint8(3))
    f = anyshape.function([x], y)
    codes = np.random.default_rng(1).integers(0, 256, (5, 70)).astype(np.uint8)
    native, slow = (anyshape.compile(f, kernels=kernels)(codes) for kernels in ("native", "interpret"))
    np.testing.assert_array_equal(native, slow)
