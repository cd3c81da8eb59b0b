"""Results that are made by Python: where there is no direct entry, whose results lie in memory that is allocated (`native/allocation.py`).

In: shape and dtype. Out: an array without contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError


def new_result(shape: Sequence[int], dtype: np.dtype[Any], name: str = "") -> NDArray[Any]:
    """An array of any contents, for the result of this name. Raises AnyshapeError where there is no memory, or no such array."""
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as e:
        raise AnyshapeError(
            f"the result {name}, of shape {list(shape)} and dtype {dtype}, cannot be made: {e}"
        ) from None


__all__ = ["new_result"]
