"""Polynomials of an equation are fused multiply-adds, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.lower import describe
from tests.lower.groups import Builder, N
from tests.lower.native import Native


def form(function, *, inputs: int = 1, dtype: str = "f32") -> str:
    b = Builder("map")
    b.output(b.map(function, *(b.input([N], dtype) for _ in range(inputs))))
    return describe(b.group()).splitlines()[-1]


@pytest.mark.parametrize(
    "function, steps",
    [
        (lambda v: 1.0 + v * (2.0 + v * (3.0 + v * 4.0)), 2),
        (lambda v: (v * (v * 3.0 - 2.0)) - 1.0, 1),
        (lambda v: 1.0 + v * v * (2.0 + v * v * (3.0 - v * v * 4.0)), 2),
    ],
)
def test_steps_are_fused(function, steps: int) -> None:
    assert form(function).count("fma(") == steps
    b = Builder("map")
    x = b.input([N], "f64")
    b.output(b.map(function, x))
    values = np.random.default_rng(0).normal(0, 1, 37)
    status, (got,) = Native(b.group()).run({x: values}, {N: 37})
    assert status == 0
    np.testing.assert_allclose(got, function(values), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "function, inputs",
    [
        (lambda v: 1.0 + v * 2.0, 1),
        (lambda v: 1.0 + v * (v + v * v), 1),
        (lambda v, w: 1.0 + v * (2.0 + w * 3.0), 2),
        (lambda v, w: w + v * (w + v * 2.0), 2),
    ],
)
def test_what_is_no_polynomial(function, inputs: int) -> None:
    assert "fma(" not in form(function, inputs=inputs)


def test_polynomials_of_two_ops_are_not_one() -> None:
    """What an op gives does not depend on which kernel it is in."""
    b = Builder("two")
    inner = b.map(lambda v: 2.0 + v * 3.0, b.input([N]))
    b.output(b.map(lambda v, p: 1.0 + v * p, b.inputs[0], inner))
    assert "fma(" not in "\n".join(describe(b.group()).splitlines())


def test_floats_of_sixteen_bits_and_integers_are_not_fused() -> None:
    assert "fma(" not in form(lambda v: 1 + v * (2 + v * (3 + v * 4)), dtype="i32")
