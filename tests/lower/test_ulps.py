"""Errors of transcendental functions are within the bounds of docs/vector-math.md, in every dtype of floats, over all of their domain."""

from __future__ import annotations

import re

import pytest

from anyshape.equations.expr import OPERATIONS
from benchmarks import ulps

EXACT = {
    *("add", "sub", "mul", "div", "trunc_div", "floordiv", "mod", "fmod", "min", "max", "neg", "abs"),
    *(
        "bit_and",
        "bit_or",
        "bit_xor",
        "shift_left",
        "shift_right",
        "and",
        "or",
        "not",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ),
    *(
        "floor",
        "ceil",
        "round_even",
        "round_bf16",
        "round_f16",
        "trunc",
        "cast",
        "select",
        "wrap",
        "within",
        "philox",
        "entropy",
        "bitcast",
    ),
}
"""Operations that are exact, or rounded once by definition."""


@pytest.mark.skipif(not ulps.IS_WIDE, reason="long double has no more digits here than f64 has")
@pytest.mark.parametrize("name", ulps.BOUNDS)
def test_errors_are_within_bounds(name: str) -> None:
    for dtype in ulps.DTYPES:
        for level, (worst, at) in ulps.measure(name, dtype, count=5000).items():
            assert worst <= ulps.BOUNDS[name].bound(dtype, level), f"{name} of {at}, {dtype}, {level}"


def test_every_function_of_equations_has_a_bound() -> None:
    assert ulps.FUNCTIONS.keys() == OPERATIONS.keys() - EXACT


def test_the_page_has_these_bounds() -> None:
    text = ulps.PAGE.read_text()
    for name, f in ulps.BOUNDS.items():
        row = re.search(rf"^\| {name} \| (.*) \|$", text, re.M)
        assert row is not None, name
        cells = row[1].split(" | ")
        bounds = [float(cells[k]) for k in (4, 6, 9, 11)]
        assert bounds == [f.bound(dtype, level) for dtype in ("f32", "f64") for level in ("host", "sse")], name
        assert all(
            float(cells[k]) <= bound for k, bound in zip((0, 1, 2, 5, 7, 10), (f.bound("f16", ""),) * 2 + tuple(bounds))
        ), name
