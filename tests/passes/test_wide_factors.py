"""Constant factors of 16 bits: which become constants of f32, and that no bit of a result changes by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dtypes import parse_dtype
from anyshape.graph.function import Function
from anyshape.passes import fuse, layouts, wide_factors
from anyshape.passes.fuse import fuse as fused
from anyshape.passes.pipeline import optimise
from anyshape.passes.steps import KernelStep


def depthwise(dtype: str, channels: int = 40, taps: int = 5, groups: int | None = None, **params: Any) -> Function:
    groups = channels if groups is None else groups
    numbers = np.random.RandomState(0).randn(channels, channels // groups, taps, taps).astype(parse_dtype(dtype).numpy)
    x = anyshape.input("x", f"{dtype}[b, {channels}, h, w]")
    y = ops.conv(x, anyshape.constant(numbers), pads=[taps // 2] * 4, groups=groups, **params)
    return anyshape.function([x], y)


def constants(f: Function) -> list[str]:
    """The dtypes of the constants of all kernels."""
    steps = [s for s in fused(optimise(f)).steps if isinstance(s, KernelStep)]
    return [v.type.dtype.name for s in steps for v in s.inputs if v.constant is not None]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_weights_of_windows_are_wide(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = depthwise(dtype, strides=[2, 1])
    assert constants(f) == ["f32"]
    wide = anyshape.compile(f)
    monkeypatch.setattr(fuse, "with_wide_factors", lambda schedule: schedule)
    assert constants(f) == [dtype]
    narrow = anyshape.compile(f)
    for shape in ((1, 40, 7, 7), (2, 40, 3, 33)):
        x = np.random.RandomState(1).randn(*shape).astype(parse_dtype(dtype).numpy)
        assert wide(x).tobytes() == narrow(x).tobytes()


def test_what_is_multiplied_as_whole_vectors_stays_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of a product, and those of windows whose lanes are the channels."""
    assert constants(depthwise("f16", groups=1, channels=64)) == ["f16"]
    numbers = np.random.RandomState(0)
    first, w = (anyshape.constant(numbers.randn(*s).astype(np.float16)) for s in ((48, 64, 3, 3), (48, 1, 5, 5)))
    x = anyshape.input("x", "f16[b, 64, h, w]")
    f = anyshape.function([x], ops.conv(ops.conv(x, first), w, groups=48))
    assert constants(f) == ["f16", "f16"]
    monkeypatch.setattr(layouts._ValueUses, "pays", lambda self, group: False)
    assert constants(f) == ["f16", "f32"]


def test_few_and_many_bytes_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert constants(depthwise("f16", channels=wide_factors.LEAST_BYTES // 2 // 25)) == ["f16"]
    assert constants(depthwise("f16", channels=wide_factors.LEAST_BYTES // 2 // 25 + 1)) == ["f32"]
    monkeypatch.setattr(wide_factors, "MOST_BYTES", 40 * 25 * 2 - 1)
    assert constants(depthwise("f16")) == ["f16"]


def test_a_constant_that_others_read_too_stays_beside_the_wide_one() -> None:
    numbers = anyshape.constant(np.random.RandomState(0).randn(40, 1, 5, 5).astype(np.float16))
    x, other = anyshape.input("x", "f16[b, 40, h, w]"), anyshape.input("other", "f16[40, 1, 5, 5]")
    f = anyshape.function([x, other], [ops.conv(x, numbers, pads=[2] * 4, groups=40), ops.add(other, numbers)])
    assert sorted(constants(f)) == ["f16", "f32"]


def test_f32_is_left_alone() -> None:
    f = optimise(depthwise("f32"))
    schedule = fused(f)
    assert wide_factors.with_wide_factors(schedule) is schedule
