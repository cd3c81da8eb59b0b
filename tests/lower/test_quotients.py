"""Quotients by a number as products: for which divisors they need one multiply-add, and that they are rounded as quotients are."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.lower.llvm.quotients import is_exact_in_two, is_plain, reciprocal_of

DIVISORS = [2**24 - 3, 2**23 + 1, 3 << 22, 12582911, 10066330, 10651742, 2**23]
DIVIDENDS = np.arange(2**23, 2**24, dtype=np.float64)


def wrong(digits: int) -> int:
    """How many dividends of 24 bits have another quotient by a product and a multiply-add; in f64, which holds both products."""
    first, left = reciprocal_of(float(digits))
    small = (DIVIDENDS * left).astype(np.float32).astype(np.float64)
    got = (DIVIDENDS * first + small).astype(np.float32)
    return int((got != (DIVIDENDS / digits).astype(np.float32)).sum())


@pytest.mark.parametrize("digits", DIVISORS)
def test_divisors_that_need_one_multiply_add(digits: int) -> None:
    assert is_exact_in_two(float(digits))
    assert is_exact_in_two(float(digits) * 2.0**-30)
    assert wrong(digits) == 0


def test_a_divisor_that_needs_two() -> None:
    divisor = float(np.float32(0.03))
    assert not is_exact_in_two(divisor)
    assert wrong(int(divisor * 2.0**29)) > 0


@pytest.mark.parametrize("divisor", [0.05, 0.03, 2.0 - 2.0**-22, 0.7])
def test_two_multiply_adds(divisor: float) -> None:
    """A product that is corrected is the quotient; computed in f64, in which nothing but the casts is rounded."""
    of = float(np.float32(divisor))
    a = DIVIDENDS[::61]
    reciprocal, _ = reciprocal_of(of)
    product = (a * reciprocal).astype(np.float32).astype(np.float64)
    rest = (a - product * of).astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal((product + rest * reciprocal).astype(np.float32), (a / of).astype(np.float32))


def test_plain_divisors() -> None:
    assert all(map(is_plain, (0.05, 1.0, 2.0**-60, 3e15)))
    assert not any(map(is_plain, (0.0, -0.05, 2.0**-61, 2.0**61, 2.0 - 2.0**-23)))
