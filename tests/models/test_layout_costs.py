"""`benchmarks.layout_costs`: constants that layers imply by what they save, and a row for each size."""

from __future__ import annotations

import pytest

from anyshape.passes import layouts
from benchmarks import layout_costs
from benchmarks.layout_costs import LAYERS, Layer


def test_a_layer_that_saves_what_a_constant_says_implies_it() -> None:
    assert Layer("TAPS", 96, 5, True).implied(25 / layouts.TAPS) == layouts.TAPS
    assert Layer("FASTER", 64, 3, False).implied(64 * 9 / (layouts.LANES * layouts.FASTER)) == layouts.FASTER
    assert Layer("TAPS", 96, 5, True).implied(-1.0) == float("inf")


def test_every_constant_is_measured() -> None:
    assert {layer.constant for layer in LAYERS} == {"FASTER", "FASTER_PLAIN", "TAPS"}
    assert all(hasattr(layouts, layer.constant) for layer in LAYERS)


def test_a_row_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    costs = layout_costs.measure(Layer("TAPS", 16, 3, True), [4, 6], 0.01)
    assert len(costs) == 2 and all(c > 0 for c in costs)
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "depthwise 3 x 3, 16 channels, 4 x 4", "depthwise 3 x 3, 16 channels, 6 x 6",
    ]  # fmt: skip
