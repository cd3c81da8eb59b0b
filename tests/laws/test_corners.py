"""Law 10 says nothing at a corner, which differences straddle, and something beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from anyshape.properties import Case
from anyshape_testing.calls import Recipe, build_call
from anyshape_testing.gradients import STEP, holds
from anyshape_testing.running import register


@pytest.mark.parametrize(("x", "says"), [(STEP / 1000, False), (-STEP / 1000, False), (0.5, True), (-0.5, True)])
def test_a_corner_is_passed_over(x: float, says: bool) -> None:
    c = build_call(
        register("anyshape_ops")["leaky_relu"], Recipe(Case({"x": (1,)}, {"alpha": 0.01}), {"T": "f64"}, 0, "plain")
    )
    assert holds(replace(c, inputs={"x": np.array([x])})) is says
