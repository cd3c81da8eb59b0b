"""Results that are arrays, or lists of them in any depth."""

from __future__ import annotations

from typing import Any

import numpy as np


def same(got: Any, wanted: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Asserts that values have the same lengths, shapes and dtypes, and elements that are equal up to a tolerance."""
    if isinstance(wanted, list):
        assert isinstance(got, list) and len(got) == len(wanted)
        for g, w in zip(got, wanted):
            same(g, w, rtol, atol)
        return
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    if rtol or atol:
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got, wanted)
