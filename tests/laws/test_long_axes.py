"""The law of long axes, on every op of specs/ that takes narrow floats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from anyshape.dtypes import parse_dtype
from anyshape_testing.laws.long_axes import *
from anyshape_testing.laws.long_axes import NOISE, ULPS, distance, growth_of

PACKAGE = "anyshape_ops"


def test_what_cancels_may_be_off_by_a_share_of_the_largest_operand_and_no_more() -> None:
    call: Any = SimpleNamespace(flat_inputs=lambda: [np.array([-16, 16], np.float16)])
    eps = float(np.finfo(np.float16).eps)

    def off(got: float, want: float) -> float:
        return float(distance(np.array(got, np.float32), np.array(want, np.float64), parse_dtype("f16"), call))

    assert off(0.99 * 16 * NOISE, 0.0) <= 1 < off(1.01 * 16 * NOISE, 0.0)
    allowed = ULPS * eps * 16 + 16 * NOISE
    assert off(16 + 0.99 * allowed, 16) <= 1 < off(16 + 1.01 * allowed, 16)
    assert off(np.nan, 0) > 1 and off(np.inf, 1) > 1


def test_results_of_an_algorithm_may_be_off_by_its_growth_times_what_the_largest_is_rounded_by() -> None:
    call: Any = SimpleNamespace(flat_inputs=lambda: [np.zeros(2, np.float16)])
    want, allowed = np.array([3e6, 1.0]), 16 * float(np.finfo(np.float32).eps) * 3e6

    def off(error: float, growth: float) -> float:
        got = np.array([3e6, 1 + error], np.float32)
        return float(distance(got, want, parse_dtype("f16"), call, growth)[1])

    assert growth_of("conv_by_2") == 16 and growth_of("conv") == growth_of("softmax") == 0
    assert off(0.9 * allowed, 16.0) <= 1 < off(1.1 * allowed, 16.0)
    assert off(0.9 * allowed, 0.0) > 1
