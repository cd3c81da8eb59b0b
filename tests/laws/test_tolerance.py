"""What laws allow: an infinity for NaN where terms leave the dtype's range, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anyshape.testing.tolerance import ULPS_ELEMENTWISE, Allowance, assert_close

ORDINARY, EXTREME = np.full(100, 5, np.float32), np.full(2, 3e38, np.float32)
NAN, INF, ONE = np.float32([np.nan]), np.float32([np.inf]), np.float32([1])


def allowed(*inputs: NDArray[Any]) -> Allowance:
    return Allowance(ULPS_ELEMENTWISE, 1.0, inputs=inputs)


def test_infinities_meet_or_not_where_inputs_are_extreme() -> None:
    assert_close(NAN, INF, allowed(EXTREME, EXTREME), "x")
    assert_close(INF, NAN, allowed(EXTREME, EXTREME), "x")


@pytest.mark.parametrize(
    ("got", "want", "inputs"),
    [(NAN, INF, ORDINARY), (INF, NAN, ORDINARY), (NAN, ONE, EXTREME), (ONE, NAN, EXTREME)],
)
def test_nothing_else_stands_for_nan(got: NDArray[Any], want: NDArray[Any], inputs: NDArray[Any]) -> None:
    with pytest.raises(AssertionError, match="1 of 1 elements differ"):
        assert_close(got, want, allowed(inputs, inputs), "x")
