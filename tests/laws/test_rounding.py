"""What random programs may differ by: told by the operations, and only where rounding or order decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape_testing.execution.evaluation import evaluate
from anyshape_testing.programs.laws import close
from anyshape_testing.programs.rounding import Rounding, order_decides_product, order_decides_sum

PART = 2e-6
F32 = np.dtype(np.float32)


def readings(f: Any, *arrays: Any) -> list[Any]:
    """A value as it is read plainly, and with rounding up and down."""
    inputs = {f"x{k}": np.asarray(a, np.float32) for k, a in enumerate(arrays)}
    value = f(*(anyshape.input(n, f"f32[{', '.join(map(str, a.shape))}]") for n, a in inputs.items()))
    return [evaluate([value], inputs, Rounding(part, 0) if part else None)[0] for part in (0, PART, -PART)]


@pytest.mark.parametrize(
    ("factors", "decides"),
    [
        ([1e20, 1e20, 0], True),
        ([0, 2, 3e38], True),
        ([1e30, 1e30, 1e-30], True),
        ([1e-30, 1e-30, 1e30], True),
        ([1e20, 0, 1e-20], False),
        ([1e-30, 1e-30, 0.5], False),
        ([1e-30, 1e-30, 0, 5], False),
        ([1e30, 1e30], False),
        ([2, 3, 0], False),
        ([np.inf, 0], False),
    ],
)
def test_products_that_an_order_decides(factors: list[float], decides: bool) -> None:
    terms = np.asarray(factors, np.float32).astype(np.longdouble)
    assert order_decides_product(terms, (0,), F32).tolist() == [decides]


@pytest.mark.parametrize(
    ("terms", "decides"),
    [([3e38, 3e38, -3e38], True), ([3e38, 3e38], False), ([-3e38, -3e38, 1], True), ([1e38, -1e38, 2e38], False)],
)
def test_sums_that_an_order_decides(terms: list[float], decides: bool) -> None:
    assert order_decides_sum(np.asarray(terms, np.longdouble), (0,), F32).tolist() == [decides]


def test_a_product_without_a_value_is_compared_with_nothing_and_one_with_a_value_is() -> None:
    plain, *near = readings(lambda x: ops.prod(x, axes=(1,)), [[1e20, 1e20, 0], [2, 3, 0]])
    got = np.asarray([np.nan, 0], np.float32)
    close(got, plain, near, "the order decides the first")
    for wrong in (np.nan, 1e-3):
        with pytest.raises(AssertionError, match="in place of"):
            close(np.asarray([0, wrong], np.float32), plain, near, "no order makes this of 2 * 3 * 0")


def test_a_number_at_an_edge_may_fall_on_either_side_where_it_is_rounded() -> None:
    """A third of 3 is 1 or a little less; a half of 2 is 1, whoever computes it."""
    _, *near = readings(lambda x: ops.floor(ops.mul(x, np.float32(1 / 3))), [3, 4, 6])
    assert not np.array_equal(near[0], near[1]) and near[0][1] == near[1][1] == 1
    half = readings(lambda x: ops.floor(ops.div(x, np.float32(2))), [2, 3, 4])
    assert all(np.array_equal(h, [1, 1, 2]) for h in half)


def test_a_sum_is_changed_by_a_part_of_its_terms() -> None:
    plain, *near = readings(lambda x: ops.sum(x, axes=(1,)), [[1e6, -1e6, 0.1], [1, 2, 3], [1e-3, 1e-3, 0.1]])
    moved = np.abs(np.asarray(near) - plain).max(axis=0)
    assert 0.1 < moved[0] < 8 and moved[1] == 0 and 0 < moved[2] < 1e-6
