"""Law 10 says nothing at a corner or a step, which differences straddle, and something beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.graph.value import Value
from anyshape.properties import Case
from anyshape_testing.calls.call import Recipe, build_call
from anyshape_testing.calls.packages import register
from anyshape_testing.laws import gradients as law
from anyshape_testing.laws.gradients import STEP, holds


@pytest.mark.parametrize(("x", "says"), [(STEP / 1000, False), (-STEP / 1000, False), (0.5, True), (-0.5, True)])
def test_a_corner_is_passed_over(x: float, says: bool) -> None:
    c = build_call(
        register("anyshape_ops")["leaky_relu"], Recipe(Case({"x": (1,)}, {"alpha": 0.01}), {"T": "f64"}, 0, "plain")
    )
    assert holds(replace(c, inputs={"x": np.array([x])})) is says


@pytest.mark.parametrize(("x", "says"), [(3.0, False), (3.0 - STEP / 1000, False), (3.5, True)])
def test_a_step_is_passed_over_however_steep_the_rest_is(x: float, says: bool) -> None:
    """What is left of a division by 1 falls by 1 at every integer; beside it another element has a slope of 1e5."""
    c = build_call(
        register("anyshape_ops")["mod"],
        Recipe(Case({"a": (2,), "b": (2,)}, {"truncated": True}), {"T": "f64"}, 0, "plain"),
    )
    assert holds(replace(c, inputs={"a": np.array([x, 1e5 + 0.3]), "b": np.array([1.0, 1.0 + 1e-9])})) is says


@pytest.mark.parametrize("gap", [STEP / 1000, STEP / 100, STEP / 10, 1.0])
def test_two_of_many_elements_may_change_places_within_a_step(gap: float) -> None:
    """Two elements that change places change the slope by 1, and the slopes of all elements sum to a thousand."""
    c = build_call(
        register("anyshape_ops")["unique"], Recipe(Case({"x": (65,)}, {"sorted": True}), {"T": "f64"}, 5, "plain")
    )
    x = c.inputs["x"].copy()
    x[7] = x[3] + gap
    holds(replace(c, inputs={"x": x}))


def test_a_slope_that_is_off_by_a_hundredth_is_noticed_among_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    c = build_call(
        register("anyshape_ops")["unique"], Recipe(Case({"x": (65,)}, {"sorted": True}), {"T": "f64"}, 5, "plain")
    )
    exact = law.evaluate
    factors = chain([1.01], repeat(1.0))  # gradients are evaluated first, then the total at five points

    def evaluated(values: Sequence[Value], arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        factor = next(factors)
        return [a * factor for a in exact(values, arrays)]

    monkeypatch.setattr(law, "evaluate", evaluated)
    with pytest.raises(AssertionError, match="gradients say"):
        holds(c)
