"""Vectors of maps whose elements are all narrower than an f32: as wide as the processor's, and no wider where something else is in them."""

from __future__ import annotations

import pytest

from anyshape.dtypes import BOOL, F32, I16, U8
from anyshape.equations.functions import abs_, and_, bit_or, bit_xor, cast, exp, lt, where
from anyshape.lower import Group, host_target, lower_group
from tests.lower.groups import Builder, M, N
from tests.lower.native import check

AVX2 = host_target().limited("avx2")
SIZES = [{N: 3, M: 77}, {N: 0, M: 5}, {N: 2, M: 256}, {N: 5, M: 1}]


def mapped(kind: str) -> Group:
    """Two tensors as one, by a map of bytes, of words of 16 bits or of something wider."""
    b = Builder(kind)
    narrow = {"i16": I16, "bytes of i16": I16, "floats": F32}.get(kind, BOOL if kind == "bool" else U8)
    x, y = b.input([N, M], narrow), b.input([N, 1] if kind == "one a row" else [N, M], narrow)
    z = b.tensor([N, M], BOOL if kind in ("bool", "floats") else I16 if kind == "i16" else U8)
    i, j = b.eqs.indices("i", z.shape)
    first, second = x[i, j], y[i, 0 if kind == "one a row" else j]
    value = {
        "bool": lambda: and_(first, second),
        "u8": lambda: first * second + 3,
        "one a row": lambda: bit_xor(first, second),
        "chosen": lambda: where(lt(first, second), first, second - first),
        "i16": lambda: abs_(first) - second,
        "bytes of i16": lambda: cast(first + second, U8),
        "floats": lambda: lt(first, second),
        "a position": lambda: first + cast(j, U8),
        "divided": lambda: first // bit_or(second, 1),
        "in f32": lambda: cast(exp(cast(first, F32) * -1.0) * cast(second, F32), U8),
    }[kind]()
    b.eqs.define(z[i, j], value)
    b.output(z)
    return b.group()


KINDS = {"bool": 32, "u8": 32, "one a row": 32, "chosen": 32, "i16": 16, "bytes of i16": 16}
AS_F32 = ["floats", "a position", "divided", "in f32"]


@pytest.mark.skipif(AVX2.vector_bytes != 32, reason="a processor with AVX2")
@pytest.mark.parametrize("kind", [*KINDS, *AS_F32])
def test_elements_of_a_vector(kind: str) -> None:
    text = lower_group(mapped(kind), AVX2).text
    lanes = [n for n in (32, 16, 8) if f"load <{n} x " in text]
    assert lanes[:1] == [KINDS.get(kind, 8)]


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("kind", [*KINDS, *AS_F32])
def test_results(kind: str, level: str) -> None:
    check(mapped(kind), SIZES, target=host_target().limited(level))
