"""Bytes of sums of integers times constants: those of bounded constants are not cut, and a table maps them further, a vector at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape.dtypes import F32, I32, parse_dtype
from anyshape.equations.functions import cast, exp, reduce_, round_even
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.kernel import magnitude_bound
from anyshape.lower.sharing import StructuralKeyWriter
from tests.lower.groups import Builder, K, N
from tests.lower.native import check

LEVELS = pytest.mark.parametrize("level", ["avx512", "avxvnni", "avx2", "sse"])
COLUMNS = 100


def bytes_of(scales: Any, biases: Any, *, product: bool = False, table: bool = False, dtype: str = "i8") -> Group:
    """Integers, or their products, times a scale of each column and with a bias, as bytes; or e ** (that byte / 50) as bytes again."""
    b = Builder("bytes")
    x, w = b.input([N, K] if product else [N, COLUMNS], "i8" if product else "i32"), b.input([K, COLUMNS], "i8")
    scale, bias, zero = b.input([COLUMNS]), b.input([COLUMNS]), b.input([], dtype)
    y = b.tensor([N, COLUMNS], dtype)
    i, j = b.eqs.indices("i", y.shape)
    total = reduce_("sum", [K], lambda k: cast(x[i, k], I32) * cast(w[k, j], I32)) if product else x[i, j]
    byte = parse_dtype(dtype)
    value = cast(round_even((cast(total, F32) * scale[j] + bias[j]) / 0.05) + cast(zero[()], F32), byte)
    if table:
        value = cast(round_even(exp((cast(value, F32) - cast(zero[()], F32)) / 50.0) * 9.0), byte)
    b.eqs.define(y[i, j], value)
    b.output(y)
    constants = {t: np.resize(np.float32(a), COLUMNS) for t, a in ((scale, scales), (bias, biases))}
    return replace(b.group(), constants=constants)


def is_cut(group: Group, level: str = "avx512") -> bool:
    return " fcmp olt " in lower_group(group, host_target().limited(level)).text


def test_which_bytes_are_cut() -> None:
    assert not is_cut(bytes_of(0.001, [1.0, -3.0]))
    assert not is_cut(bytes_of([2.0**-6, -(2.0**-6)], 4096.0))
    assert is_cut(bytes_of(0.02, 1.0))  # times 2 ** 31 over 0.05 it may be more than an integer holds
    assert is_cut(bytes_of(0.001, [1.0, 1e8]))
    for number in (math.nan, math.inf, -math.inf):
        assert is_cut(bytes_of([0.001, number], 1.0))
        assert is_cut(bytes_of(0.001, [1.0, number]))


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("product", [False, True])
@LEVELS
def test_bytes_of_integers_of_all_magnitudes(level: str, product: bool, dtype: str) -> None:
    rng = np.random.default_rng(4)
    wide = (rng.integers(-(2**31), 2**31, (7, COLUMNS)) >> rng.integers(0, 32, (7, COLUMNS))).astype(np.int32)
    wide[0, :4] = [-(2**31), 2**31 - 1, 0, -1]
    numbers = (0.001, 0.015), ([math.nan, 0.001, 0.9, math.inf], [1.0, -math.inf, 1e9])
    for scales, biases in ((numbers[0], [4.0, -4096.0]), numbers[1]):
        for table in (False, True):
            group = bytes_of(scales, biases, product=product, table=table, dtype=dtype)
            fixed = {group.inputs[4]: np.array(7, parse_dtype(dtype).numpy), **group.constants}
            if not product:
                fixed[group.inputs[0]] = wide
            check(group, [{N: 7, K: 9}], fixed=fixed, target=host_target().limited(level))


def test_a_table_is_asked_for_whole_vectors() -> None:
    """Four vectors of integers are one of bytes; of products these are two at a time."""
    target = replace(host_target().limited("avx512"), permutes_bytes=True)
    if target.vector_bytes != 64:
        pytest.skip("vectors have fewer bytes than a table's")
    for product in (False, True):
        text = lower_group(bytes_of(0.001, 1.0, table=True, product=product), target).text
        assert "packsswb" in text
        assert f"store <{32 if product else 64} x i8>" in text


def test_bounds_of_constants() -> None:
    assert [magnitude_bound(np.float32([0.0, -n])) for n in (0.01, 0.02, 1.0, 1.5, 4096.0, 4097.0)] == [
        2.0**-6, 1.0, 1.0, 4096.0, 4096.0, None,
    ]  # fmt: skip
    for number in (math.nan, math.inf, -math.inf):
        assert magnitude_bound(np.float32([0.5, number])) is None
    assert magnitude_bound(np.float32([])) is None
    assert magnitude_bound(np.ones(3)) is None
    assert magnitude_bound(np.zeros(1 << 15, np.float32)) is None
    assert magnitude_bound(np.zeros((2, 2, 2), np.float32)) is None


def test_bounds_are_part_of_a_form() -> None:
    def form(*constants: Any) -> Any:
        return StructuralKeyWriter().group(bytes_of(*constants))

    assert form(0.001, 1.0) == form(0.002, -0.5)
    assert len({form(0.001, 1.0), form(0.5, 1.0), form(0.001, 2.0), form(0.001, 9999.0)}) == 4
