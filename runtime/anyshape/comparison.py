"""Measures the difference of two results as a share of the largest element: one number for any size and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from anyshape.strings import as_objects


def apart(expected: Any, got: Any) -> float:
    """Returns 0 for equal arrays; for floats the largest difference over the largest finite element; for other dtypes 1 if an element
    differs; inf where dtype or shape differ, or where one is infinite or NaN and the other is not."""
    a, b = (as_objects(np.asarray(r)) for r in (expected, got))
    if a.dtype != b.dtype or a.shape != b.shape:
        return float("inf")
    if a.dtype.kind in "biuSUO":
        return 0.0 if np.array_equal(a, b) else 1.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if np.any(~same & ~(np.isfinite(a) & np.isfinite(b))):
        return float("inf")
    size = np.abs(a[np.isfinite(a)]).max(initial=0.0) or 1.0
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(a - b)).max(initial=0.0) / size)
