"""Allocation of results by NumPy, where there is no direct entry to make them (`native/allocator_code.py`).

In: shape and dtype. Out: an array without contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError


def new_result(shape: Sequence[int], dtype: np.dtype[Any], name: str = "") -> NDArray[Any]:
    """Makes an array of any contents for the result of this name. Raises AnyshapeError where there is no memory, or no such array."""
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as e:
        raise AnyshapeError(
            f"the result {name}, of shape {list(shape)} and dtype {dtype}, cannot be allocated: {e}"
        ) from None
