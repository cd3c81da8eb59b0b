"""What laws let pass beside what is equal, each with what it must not let pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.dtypes import F32, I64
from anyshape.equations import Equations, Tensor
from anyshape.equations.functions import reduce_
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.compare.results import same
from anyshape_testing.compare.tolerance import (
    ULPS_ELEMENTWISE,
    ULPS_REDUCTION,
    Allowance,
    allowance,
    assert_close,
    underflow,
)

ORDINARY, EXTREME = np.full(100, 5, np.float32), np.full(2, 3e38, np.float32)
NAN, INF, ONE = np.float32([np.nan]), np.float32([np.inf]), np.float32([1])


def allowed(*inputs: NDArray[Any]) -> Allowance:
    return Allowance(ULPS_ELEMENTWISE, 1.0, inputs=inputs)


def test_infinities_meet_or_not_where_inputs_are_extreme() -> None:
    assert_close(NAN, INF, allowed(EXTREME, EXTREME), "x")
    assert_close(INF, NAN, allowed(EXTREME, EXTREME), "x")


@pytest.mark.parametrize(
    ("got", "want", "inputs"),
    [(NAN, INF, ORDINARY), (INF, NAN, ORDINARY), (NAN, ONE, EXTREME), (ONE, NAN, EXTREME)]
    + [(ONE, INF, inputs) for inputs in (ORDINARY, EXTREME)]
    + [(INF, ONE, EXTREME), (-INF, INF, ORDINARY), (np.float32([1e38]), INF, ORDINARY)],
)
def test_nothing_else_stands_for_nan_or_an_infinity(
    got: NDArray[Any], want: NDArray[Any], inputs: NDArray[Any]
) -> None:
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        assert_close(got, want, allowed(inputs, inputs), "x")


def recurrence(array: NDArray[Any]) -> Allowance:
    """Computes the allowance of y[s + 1] = the sum of y[s] * x[s, k] over k, from 1 on."""
    x, y = Tensor("x", F32, array.shape), Tensor("y", F32, (len(array) + 1,))
    eqs = Equations("op", {"x": x}, {"y": y})
    s = eqs.index("s", len(array))
    eqs.define(y[0], 1.0)
    eqs.step(y[s + 1], reduce_("sum", [array.shape[1]], lambda k: y[s] * x[s, k]), s)
    return allowance(eqs.equations, [array], y.shape)


def test_a_recurrence_on_finite_numbers_may_overflow_on_the_way() -> None:
    """Three factors of 1e15 leave the range, which no product of two inputs tells; infinities that are given are what they are."""
    finite = recurrence(np.full((3, 2), 1e15, np.float32))
    assert_close(NAN, INF, finite, "x")
    assert_close(INF, -INF, finite, "x")
    for got, allowed_ in ((ONE, finite), (NAN, recurrence(np.float32([[1.0, np.inf]])))):
        with pytest.raises(AssertionError, match="1 of 1 elements differ"):
            assert_close(got, INF, replace(allowed_, scale=0.0), "x")


def twice(array: NDArray[Any], reads: int) -> Allowance:
    """Computes the allowance of y = the sum of x[k] ** reads over k, written as a product."""
    x, y = Tensor("x", F32, array.shape), Tensor("y", F32, ())
    eqs = Equations("op", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("sum", [len(array)], lambda k: x[k] * x[k] if reads == 2 else x[k]))
    return allowance(eqs.equations, [array], y.shape)


def test_a_term_with_two_elements_of_one_operand_leaves_the_range_by_both() -> None:
    large = np.float32([1e20, 1e20])
    assert_close(NAN, INF, replace(twice(large, 2), scale=0.0), "x")
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        assert_close(NAN, INF, replace(twice(large, 1), scale=0.0), "x")


def test_what_underflows_is_lost_times_the_other_factors() -> None:
    """1e-30 * 1e-10 is a subnormal number of five bits; times 1e15 its error is 1e-30, beside which nothing more is excused."""
    a, r, b = (np.float32([v]) for v in (1e-30, 1e-10, 1e15))
    exact, rounded = 1e-25, float(a[0] * r[0]) * 1e15
    assert 0 < abs(exact - rounded) <= underflow([a, r, b]) < 2e-30
    assert underflow([a, r]) == 2.0**-149 and underflow([np.arange(3), a, r]) == 3 * 2.0**-149


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_what_rounding_makes_infinite_or_not(dtype: Any) -> None:
    largest, infinite = np.array([ml_dtypes.finfo(dtype).max], dtype), np.array([np.inf], dtype)
    for got, want in ((largest, infinite), (infinite, largest), (-largest, -infinite)):
        assert_close(got, want, Allowance(ULPS_ELEMENTWISE, 0.0), "x")
        with pytest.raises(AssertionError, match="1 of 1 elements differ"):
            assert_close(got, -want, Allowance(ULPS_ELEMENTWISE, 0.0), "x")


# --- an element near zero


@pytest.mark.parametrize(
    ("dtype", "passes", "fails"),
    [(np.float32, 1e-38, 1e-37), (np.float16, 1e-7, 5e-5), (ml_dtypes.bfloat16, 1e-40, 1e-37)],
)
def test_only_what_the_dtype_cannot_tell_from_zero_is_flushed(dtype: Any, passes: float, fails: float) -> None:
    zero = np.zeros(1, dtype)
    assert_close(np.array([passes], dtype), zero, Allowance(ULPS_ELEMENTWISE, 0.0), "x")
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        assert_close(np.array([fails], dtype), zero, Allowance(ULPS_ELEMENTWISE, 0.0), "x")


def test_a_zero_that_is_moved_keeps_its_sign() -> None:
    plus, minus = np.zeros(1, np.float32), -np.zeros(1, np.float32)
    assert_close(plus, minus, Allowance(0, 0.0), "x")
    assert_close(minus, minus, Allowance(0, 0.0, signed_zeros=True), "x")
    assert_close(-NAN, NAN, Allowance(0, 0.0, signed_zeros=True), "x")
    with pytest.raises(AssertionError, match="signs of zeros"):
        assert_close(plus, minus, Allowance(0, 0.0, signed_zeros=True), "x")


# --- products


LOST = Allowance(ULPS_REDUCTION, 1.0, leaves_range=True)
"""The allowance of a product whose factors leave the range of the dtype in one order, and not in another."""


@pytest.mark.parametrize(("got", "want"), [(np.inf, 7.0), (0.0, 7.0), (np.nan, 7.0), (7.0, 1e-40)])
def test_a_product_that_leaves_its_range_on_the_way_may_be_anything_there(got: float, want: float) -> None:
    assert not assert_close(np.float32([got]), np.float32([want]), LOST, "x"), "and such an element tells nothing"


def test_beside_it_a_product_is_compared() -> None:
    assert assert_close(np.float32([np.inf, 7]), np.float32([1e30, 7]), LOST, "x")
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_close(np.float32([np.inf, 7]), np.float32([1e30, 8]), LOST, "x")


def test_nothing_is_said_where_nothing_is_determined_and_beside_it_all_is() -> None:
    here = Allowance(ULPS_REDUCTION, 1.0, undetermined=np.array([True, False]))
    assert assert_close(np.float32([1, 7]), np.float32([np.nan, 7]), here, "x")
    assert not assert_close(np.float32([1]), np.float32([np.nan]), replace(here, undetermined=np.array([True])), "x")
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_close(np.float32([1, 7]), np.float32([np.nan, 8]), here, "x")


# --- sums


def compared(got: NDArray[Any], want: NDArray[Any], *operands: NDArray[Any]) -> bool:
    """What laws say of results of the sum over the last axis."""
    register("anyshape_ops")
    c = Call(PROPERTIES["sum"], {"x": operands[0]}, {"axes": (-1,)})
    return same([got], [want], c, static_node(c), "sums")


def test_terms_of_one_sum_excuse_that_sum_alone() -> None:
    """64 ulps of 1e8, the largest term, are 760, which would let anything pass in another row."""
    x = np.float32([[1e8, -1e8], [1, 2]])
    assert compared(np.float32([4.0, 3]), np.float32([0, 3]), x)
    assert not compared(np.float32([4.0]), np.float32([0]), x[:1]), "what only its uncertainty lets pass tells nothing"
    with pytest.raises(AssertionError, match="by its own terms: 1 of 2 elements differ"):
        compared(np.float32([0, 4]), np.float32([0, 3]), x)


def test_updates_of_floats_are_sums() -> None:
    """An oracle is not told in which order updates come to an element, whatever the dtype."""
    x, at, y = Tensor("x", F32, (3,)), Tensor("at", I64, (3,)), Tensor("y", F32, (2,))
    eqs = Equations("op", {"x": x, "at": at}, {"y": y})
    i, j = eqs.index("i", 2), eqs.index("j", 3)
    eqs.define(y[i], np.float32(0))
    plain = allowance(eqs.equations, [], (2,))
    eqs.update(y[at[j]], "add", x[j])
    assert plain.ulps == 0 and allowance(eqs.equations, [], (2,)).ulps == ULPS_REDUCTION
    kept = Equations("op", {"x": x, "at": at}, {"y": y})
    kept.update(y[at[j]], "max", x[j])
    assert allowance(kept.equations, [], (2,)).ulps == 0


# --- what tells nothing


@pytest.mark.parametrize(
    ("want", "scale", "telling"),
    [
        ([], 0.0, False),
        ([0.0], 0.0, False),
        ([1.0], 0.0, True),
        ([1.0], 1e6, False),
        ([1.0, 1e8], 1e6, True),
        ([np.nan], 1e9, True),
    ],
)
def test_a_comparison_says_whether_it_could_have_failed(want: list[float], scale: float, telling: bool) -> None:
    a = np.float32(want)
    assert assert_close(a, a, Allowance(ULPS_REDUCTION, scale), "x") == telling
    assert assert_close(a, a, Allowance(0, 0.0), "x") == bool(want)
