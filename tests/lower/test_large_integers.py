"""Integers near the ends of i64 as parameters: what is computed of them is right or refused, and nothing ends the process."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import symbol
from anyshape.equations.expr import Var, as_expr
from anyshape.equations.functions import eq, ge, lt
from anyshape.errors import AnyshapeError

ENDS = (2**63 - 1, 2**63 - 2, 2**62, -(2**62), 1 - 2**63, -(2**63))


@pytest.mark.parametrize("loop", ["native", "python"])
@pytest.mark.parametrize("upper", [True, False])
def test_a_diagonal_beyond_any_matrix(upper: bool, loop: str) -> None:
    x, k = anyshape.input("x", "f32[n, m]"), anyshape.input("k", "i64[]")
    f = anyshape.compile(anyshape.function([x, k], ops.trilu(x, k, upper=upper)), loop=loop)
    ones = np.ones((3, 3), np.float32)
    for e in ENDS:
        expected = ones if (e < 0) is upper else 0 * ones
        np.testing.assert_array_equal(f(ones, np.array(e)), expected, str(e))
        fixed = anyshape.compile(anyshape.function([x], ops.trilu(x, e, upper=upper)), loop=loop)
        np.testing.assert_array_equal(fixed(ones), expected, str(e))
    np.testing.assert_array_equal(f(ones, np.array(1)), np.triu(ones, 1) if upper else np.tril(ones, 1))


def test_an_integer_of_any_size_stands_alone_in_a_comparison() -> None:
    i, j, k = Var("i", 3), Var("j", 4), symbol("k", low=None)
    assert ge(j, i + k) is ge(j - i, k) and lt(k - i, j) is lt(k, i + j) and eq(j - k, i) is eq(j - i, k)
    assert ge(j, i + ENDS[0]) is ge(j - i, ENDS[0])


def test_sizes_and_small_numbers_stay_where_they_are() -> None:
    i, j, n = Var("i", 3), Var("j", 4), symbol("n")
    k = symbol("k", low=None)
    for right in (i + n, i + 7, as_expr(k), i * k):
        assert str(ge(j, right)) == f"({j} >= {right})"


def test_a_step_beyond_any_tensor_becomes_code() -> None:
    x, w = anyshape.input("x", "f32[1, 1, n]"), anyshape.input("w", "f32[1, 1, 1]")
    f = anyshape.compile(anyshape.function([x, w], ops.conv(x, w, strides=[2**62], auto_pad="SAME_UPPER")))
    assert f(np.full((1, 1, 3), 2, np.float32), np.full((1, 1, 1), 3, np.float32)).tolist() == [[[6]]]


@pytest.mark.parametrize("size", [2**62 - 2, 2**62 - 1, 2**61])
def test_results_of_nearly_all_addresses_are_refused(size: int) -> None:
    """Sizes are more than 63 bits with the head of a block, or a little less."""
    stop = anyshape.input("stop", "i64[]")
    f = anyshape.compile(anyshape.function([stop], ops.arange(0, stop, dtype="u16")))
    with pytest.raises(AnyshapeError, match="cannot be allocated"):
        f(np.array(size))
    assert f(np.array(3)).tolist() == [0, 1, 2]


def test_more_results_than_there_is_memory_for_a_list_of_them() -> None:
    x = anyshape.input("x", "f32[n]")
    for parts in (2**31, 2**63 - 1):
        with pytest.raises(AnyshapeError, match="longer than any"):
            ops.split(x, parts=parts)
