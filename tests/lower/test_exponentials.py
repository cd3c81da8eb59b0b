"""Exponentials of magnitudes: which forms are recognised, and their values where they leave the range of a dtype."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.equations import Expr
from anyshape.equations.functions import exp, ge, le, log1p, where
from anyshape.lower import describe
from tests.lower.groups import Builder, N


def form(function) -> str:
    b = Builder("map")
    b.output(b.map(function, b.input([N])))
    return describe(b.group()).splitlines()[-1].strip()


def logistic(v: Expr) -> Expr:
    e = exp(where(ge(v, 0), -v, v))
    return where(ge(v, 0), 1, e) / (1 + e)


def test_what_is_recognised() -> None:
    assert form(logistic) == "t0[i0] = sigmoid(x0[i0])"
    assert form(lambda v: log1p(exp(where(le(v, 0), v, -v)))) == "t0[i0] = log1p(exp(neg(abs(x0[i0]))))"


@pytest.mark.parametrize(
    "function",
    [
        lambda v: 1 / (1 + exp(-v)),
        lambda v: exp(where(ge(v, 0), v, -v)),
        lambda v: exp(where(ge(v, 1), -v, v)),
        lambda v: exp(where(le(v, 0), v, -v - 1)),
    ],
)
def test_what_is_not(function) -> None:
    text = form(function)
    assert "sigmoid" not in text and "abs" not in text


@pytest.mark.parametrize("target", ["host", "avx2", "sse"])
@pytest.mark.parametrize("dtype, low, high", [("f32", -106.0, -86.0), ("f64", -748.0, -707.0)])
def test_where_results_are_subnormal(dtype: str, low: float, high: float, target: str) -> None:
    """log(1 + e**x), the logistic function and e**x itself are the same there, and gradual down to 0."""
    x = anyshape.input("x", f"{dtype}[n]")
    run = anyshape.compile(anyshape.function([x], [ops.exp(x), ops.softplus(x), ops.sigmoid(x)]), target=target)
    values = np.linspace(low, high, 4001).astype({"f32": np.float32, "f64": np.float64}[dtype])
    exact = np.exp(values.astype(np.longdouble))
    least = np.finfo(values.dtype).smallest_subnormal
    for got in run(values):
        wrong = np.abs(got.astype(np.longdouble) - exact)
        assert np.all(wrong <= np.maximum(least, np.abs(exact) * 3 * np.finfo(values.dtype).eps))


@pytest.mark.parametrize("target", ["host", "avx2", "sse"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_special_numbers(dtype: str, target: str) -> None:
    x = anyshape.input("x", f"{dtype}[n]")
    run = anyshape.compile(
        anyshape.function([x], [ops.exp(x), ops.softplus(x), ops.sigmoid(x), ops.erf(x), ops.tanh(x)]), target=target
    )
    numbers = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e30, -1e30] * 5, dtype.replace("f", "float"))
    powers, soft, logistic_, errors, tangents = run(numbers)
    nan, inf, ln2 = np.nan, np.inf, np.log(2)
    np.testing.assert_array_equal(powers[:8], [1, 1, inf, 0, nan, nan, inf, 0])
    np.testing.assert_allclose(soft[:8], [ln2, ln2, inf, 0, nan, nan, 1e30, 0], rtol=1e-6)
    np.testing.assert_array_equal(logistic_[:8], [0.5, 0.5, 1, 0, nan, nan, 1, 0])
    for odd in (errors, tangents):
        np.testing.assert_array_equal(odd[:8], [0, -0.0, 1, -1, nan, nan, 1, -1])
        np.testing.assert_array_equal(np.signbit(odd[:2]), [False, True])
