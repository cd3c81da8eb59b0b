"""Vectors of floats as integers of 64 bits where no instruction converts them: by shifts, and by way of 32 bits where all are short."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anyshape.dtypes import F32, F64, I32, I64, U64, DType
from anyshape.equations import Tensor
from anyshape.equations.functions import cast
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.llvm.jit import assembly
from tests.lower.groups import Builder, N
from tests.lower.native import Array, Native

AVX2 = host_target().limited("avx2")
needs_avx2 = pytest.mark.skipif(AVX2.vector_bytes != 32, reason="a processor with AVX2")
COUNT = 4_096


def converted(source: DType, to: DType) -> Group:
    b = Builder("cast")
    x = b.input([N], source)
    b.output(b.map(lambda v: cast(v, to), x, dtype=str(to)))
    return b.group()


@needs_avx2
@pytest.mark.parametrize("source", [F32, F64])
@pytest.mark.parametrize("to", [I32, I64, U64])
def test_no_lane_is_converted_by_itself(source: DType, to: DType) -> None:
    text = lower_group(converted(source, to), AVX2).text
    assert ("avx2.psrlv.q" in text) == (to != I32)
    if to != I32:
        assert "cvttss2si" not in assembly(text, AVX2) and "cvttsd2si" not in assembly(text, AVX2)


def expected(x: Array, to: DType) -> list[int]:
    low, high = (0, 2**64 - 1) if to == U64 else (-(2**63), 2**63 - 1)
    finite = [min(max(v, -(2.0**70)), 2.0**70) for v in map(float, x)]
    return [0 if math.isnan(v) else min(max(math.trunc(v), low), high) for v in finite]


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("source", [F32, F64])
@pytest.mark.parametrize("to", [I64, U64])
def test_values(source: DType, to: DType, level: str) -> None:
    rng, word = np.random.default_rng(0), {F32: np.uint32, F64: np.uint64}[source]
    native = Native(converted(source, to), host_target().limited(level))
    (x,), (y,) = native.group.inputs, native.group.outputs
    assert isinstance(x, Tensor) and isinstance(y, Tensor)
    bits = rng.integers(0, np.iinfo(word).max, COUNT, word, endpoint=True).view(
        np.dtype(str(word.__name__).replace("uint", "float"))
    )
    magnitudes = np.ldexp(rng.uniform(-1, 1, COUNT), rng.integers(-3, 67, COUNT)).astype(bits.dtype)
    short = rng.uniform(-3e9, 3e9, COUNT).astype(bits.dtype)
    short[: COUNT // 2] /= 2
    ends = np.array(
        [-(2.0**31), 2.0**31, -(2.0**63), 2.0**63, 2.0**64, 0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], bits.dtype
    )
    around = np.concatenate([ends, np.nextafter(ends, ends.dtype.type(0)), np.nextafter(ends, ends.dtype.type(np.inf))])
    for values in (bits, magnitudes, short, around):
        status, (got,) = native.run({x: values}, {N: len(values)})
        assert status == 0 and got.tolist() == expected(values, to)
