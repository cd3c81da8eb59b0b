"""Results that are arrays, or lists of them in any depth."""

from __future__ import annotations

from typing import Any

import numpy as np


def same(got: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Asserts that values have the same lengths, shapes and dtypes, and elements that are equal up to a tolerance."""
    if isinstance(expected, list):
        assert isinstance(got, list) and len(got) == len(expected)
        for g, w in zip(got, expected):
            same(g, w, rtol, atol)
        return
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if rtol or atol:
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got, expected)
