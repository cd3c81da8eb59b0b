"""The law of gradients, on every op of specs/ that makes floats of floats."""

from __future__ import annotations

import anyshape
from anyshape import ops
from anyshape_testing.gradients import *  # noqa: F403
from anyshape_testing.gradients import _rounds

PACKAGE = "anyshape_ops"


def test_an_absent_input_of_fewer_bits_does_not_round():
    """attention without a bias, for which f32 was drawn, is differentiated in f64; with one of f32 it is not."""
    q, narrow = anyshape.input("q", "f64[1, 2, 3, 4]"), anyshape.input("b", "f32[3, 3]")
    for value, rounds in ((ops.attention(q, q, q), False), (ops.attention(q, q, q, narrow), True)):
        assert value.node is not None
        assert _rounds(value.node) is rounds
