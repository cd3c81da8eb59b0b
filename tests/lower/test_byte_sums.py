"""Sums of bytes that stand for floats: which of them are sums of integers, and what comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape.dtypes import F32, parse_dtype
from anyshape.equations import Tensor
from anyshape.equations.functions import cast, reduce_, round_even
from anyshape.lower import Group, describe, host_target, lower_group
from anyshape.lower.schedule import byte_sums, kernel_schedule
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import check

LEVELS = pytest.mark.parametrize("level", ["avx512", "avxvnni", "avx2", "sse"])
SIZES = [{N: n, M: m, K: 5, B: 2} for n, m in ((3, 77), (1, 64), (2, 1), (0, 5), (4, 0), (3, 400), (70, 9), (2, 130))]


def sums(
    dtype: str = "u8",
    along: bool = True,
    scale: float | str | None = 0.02,
    point: str | None = "one",
    bytes_to: str | None = None,
    size: Any = M,
    kind: str = "sum",
) -> Group:
    """Sums of bytes of each row, or of each column, less a zero point, times a scale: a number, an operand or one for each."""
    b = Builder("sums")
    x, zero = b.input([N, size], dtype), b.input([size] if point == "columns" else [], dtype)
    scales = b.input([] if scale == "operand" else [N] if along else [size])
    y = b.tensor([N] if along else [size], bytes_to or F32)
    (i,) = b.eqs.indices("i", y.shape)

    def term(k: Any) -> Any:
        row, column = (i, k) if along else (k, i)
        value = cast(x[row, column], F32)
        if point is not None:
            value = value - cast(zero[column if point == "columns" else ()], F32)
        if scale == "operand":
            return value * scales[()]
        return value if scale is None else value * (scale if isinstance(scale, float) else scales[i])

    total = reduce_(kind, [size if along else N], term)
    if bytes_to is not None:
        total = cast(round_even(total / 30.0) + cast(zero[()], F32), parse_dtype(bytes_to))
    b.eqs.define(y[i], total)
    b.output(y)
    return b.group()


def with_scales(group: Group, values: Any) -> Group:
    scales: Tensor = group.inputs[2]
    return replace(group, constants={scales: np.asarray(values, np.float32)})


def is_of_integers(group: Group) -> bool:
    return "i32(x0" in describe(group)


def test_which_sums_are_of_integers() -> None:
    assert is_of_integers(sums())
    assert is_of_integers(sums("i8", along=False, scale=None))
    assert is_of_integers(sums(point=None))
    assert is_of_integers(with_scales(sums(scale="constant"), np.full(40, 0.5)))
    assert not is_of_integers(with_scales(sums(scale="constant"), [0.5, np.inf]))
    assert not is_of_integers(sums(scale="operand"))  # it may be infinite
    assert not is_of_integers(sums(scale=float("inf")))
    assert not is_of_integers(sums(point="columns"))  # it varies along the sum
    assert not is_of_integers(sums("u16"))
    assert not is_of_integers(sums(kind="max"))


@LEVELS
@pytest.mark.parametrize("scale", [0.02, None])
@pytest.mark.parametrize("point", [None, "one"])
@pytest.mark.parametrize("along", [True, False])
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_sums_of_bytes(dtype: str, along: bool, point: str | None, scale: float | None, level: str) -> None:
    group = sums(dtype, along, scale, point)
    x, zero, _ = group.inputs
    numpy = parse_dtype(dtype).numpy
    ends = np.iinfo(numpy)
    check(group, SIZES, target=host_target().limited(level))
    rng = np.random.default_rng(3)
    for point_at, values in [
        (ends.min, np.full((3, 300), ends.max)),
        (ends.max, rng.integers(ends.min, ends.max, (3, 300))),
    ]:
        fixed = {x: values.astype(numpy), zero: np.array(point_at, numpy)}
        check(group, [{N: 3, M: 300}], fixed=fixed, target=host_target().limited(level))


@pytest.mark.parametrize("along", [True, False])
def test_scales_of_each_result(along: bool) -> None:
    group = with_scales(sums("i8", along, "constant"), np.linspace(-1, 2, 3))
    sizes = {N: 3, M: 200} if along else {N: 200, M: 3}
    assert is_of_integers(group)
    check(group, [sizes], fixed=dict(group.constants))


@pytest.mark.parametrize("along", [True, False])
def test_sums_become_bytes_again(along: bool) -> None:
    """Means of channels: the sums are no part of the arithmetic that is computed for several vectors at once."""
    check(sums(along=along, bytes_to="u8"), [{N: 3, M: 300}, {N: 300, M: 130}, {N: 1, M: 1}])


def test_more_bytes_than_an_integer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that may have more have both versions, of which the size chooses one."""
    assert f"<= {byte_sums.MOST}" in describe(sums())
    assert "<=" not in describe(sums(size=1000))
    assert is_of_integers(sums(size=1000))
    monkeypatch.setattr(kernel_schedule, "MOST", 100)
    assert not is_of_integers(sums(size=1000))
    check(sums(), [{N: 2, M: 100}, {N: 2, M: 101}, {N: 2, M: 1000}])


def test_four_bytes_are_added_to_a_lane() -> None:
    """Along the lanes; where lanes are the results each of them adds up bytes of its own."""
    target = host_target()
    if not target.dots:
        pytest.skip("there is no instruction for dot products of bytes")
    assert "vpdpbusd" in lower_group(sums(), target).text
    assert "vpdpbusd" not in lower_group(sums(along=False), target).text
    assert "vpdpbusd" not in lower_group(sums(scale="operand"), target).text
