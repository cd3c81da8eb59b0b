"""The law of gradients, on every op of specs/ that makes floats of floats."""

from __future__ import annotations

import numpy as np

import anyshape
from anyshape import ops
from anyshape.properties import Case
from anyshape_testing.calls.call import Recipe, build_call
from anyshape_testing.calls.contents import RISING
from anyshape_testing.calls.packages import register
from anyshape_testing.draw.validity import refused_by_elements
from anyshape_testing.laws.gradients import *
from anyshape_testing.laws.gradients import _rounds, holds, in_f64

PACKAGE = "anyshape_ops"


def test_an_absent_input_of_fewer_bits_does_not_round():
    """attention without a bias, for which f32 was drawn, is differentiated in f64; with one of f32 it is not."""
    q, narrow = anyshape.input("q", "f64[1, 2, 3, 4]"), anyshape.input("b", "f32[3, 3]")
    for value, rounds in ((ops.attention(q, q, q), False), (ops.attention(q, q, q, narrow), True)):
        assert value.node is not None
        assert _rounds(value.node) is rounds


def test_integers_that_the_asserts_accept_are_kept():
    """The start of a block of tensor_scatter is in range in few draws, which law 10 does not draw anew."""
    case = Case({"x": (3, 3), "update": (3, 0), "index": (3,)}, {"axis": 1, "mode": "linear"})
    p = register("anyshape_ops")["tensor_scatter"]
    c = build_call(p, Recipe(case, {"T": "f32"}, 0, RISING))
    assert not refused_by_elements(c)
    assert "leaves the 3 that there are" in refused_by_elements(build_call(p, Recipe(case, {"T": "f64"}, 0, "plain")))
    other = in_f64(c, "plain")
    np.testing.assert_array_equal(other.inputs["index"], c.inputs["index"])
    assert not refused_by_elements(other)
    assert other.inputs["x"].dtype == np.float64 and not np.isin(other.inputs["x"], c.inputs["x"]).any()
    assert holds(other)
