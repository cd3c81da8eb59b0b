"""Regions in which elements of captured values are sizes: the surroundings load them, also where the region computes such a value anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops

Body = Callable[[Any, Any], Any]
"""Makes a vector of a vector and of one number"""
BODIES: dict[str, tuple[Body, dict[int, list[float]]]] = {
    "captured": (lambda x, s: ops.tile(x, s), {1: [0, 1], 3: [0, 1, 0, 1, 0, 1]}),
    "joined": (lambda x, s: ops.tile(x, ops.concat([s], axis=0)), {1: [0, 1], 3: [0, 1, 0, 1, 0, 1]}),
    "back again": (lambda x, s: ops.tile(x, (s + 1) - 1), {1: [0, 1], 3: [0, 1, 0, 1, 0, 1]}),
    "smaller": (lambda x, s: ops.tile(x, (s + 1) - 2), {1: [], 3: [0, 1, 0, 1]}),
    "made anew by a kernel": (lambda x, s: ops.resize(x, sizes=s), {1: [0], 3: [0, 0, 1]}),
}
"""Bodies of loops, and what each makes of 0, 1 and the number"""


def _branch(x: Any, s: Any, c: Any, body: Body) -> Any:
    return control.if_(c, lambda: body(x, s), lambda: ops.relu(x))[0]


def _loop(x: Any, s: Any, c: Any, body: Body) -> Any:
    return control.loop(2, lambda _, total: [total + ops.sum(body(x, s))], [anyshape.constant(np.float32(0))])[0]


def _of_outer(x: Any, s: Any, c: Any, body: Body) -> Any:
    more = s + 1
    return control.if_(c, lambda: body(x, more - 1), lambda: ops.relu(x))[0]


def _nested(x: Any, s: Any, c: Any, body: Body) -> Any:
    return control.if_(c, lambda: control.if_(c, lambda: body(x, s), lambda: x), lambda: ops.relu(x))[0]


def _branch_in_loop(x: Any, s: Any, c: Any, body: Body) -> Any:
    return control.loop(
        2, lambda _, total: [total + ops.sum(_branch(x, s, c, body))], [anyshape.constant(np.float32(0))]
    )[0]


REGIONS = {
    "branch": _branch,
    "loop": _loop,
    "of outer": _of_outer,
    "nested": _nested,
    "branch in loop": _branch_in_loop,
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("region", REGIONS)
def test_elements_of_what_is_captured_are_sizes(options: dict[str, Any], region: str, name: str) -> None:
    x, s, c = anyshape.input("x", "f32[n]"), anyshape.input("s", "i64[1]"), anyshape.input("c", "bool[]")
    body, results = BODIES[name]
    exe = anyshape.compile(anyshape.function([x, s, c], REGIONS[region](x, s, c, body)), **options)
    for number, elements in results.items():
        for holds in (True, False):
            expected: Any = elements if holds or region == "loop" else [0, 1]
            if "loop" in region:
                expected = 2 * sum(expected)
            result = exe(np.arange(2, dtype=np.float32), np.array([number]), np.array(holds))
            np.testing.assert_array_equal(result, expected)
