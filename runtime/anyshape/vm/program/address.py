"""Addresses of arrays, fast: a compiled model asks for one per argument and result of every call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

Int64 = ctypes.c_int64
DATA_OFFSET = 16
"""Offset of the data pointer in an array object: the first field of NumPy's published PyArrayObject, after CPython's header."""


def _published_layout() -> bool:
    """Tests, once and on arrays of several kinds, whether arrays of this interpreter have their data pointer there."""
    try:
        trials: list[np.ndarray[Any, Any]] = [
            np.empty(3),
            np.empty((2, 5), np.float32)[1:],
            np.empty((), np.bool_),
            np.empty(0),
        ]
        return all(Int64.from_address(id(a) + DATA_OFFSET).value == a.ctypes.data for a in trials)
    except Exception:
        return False


def _fast(array: Any) -> int:
    return Int64.from_address(id(array) + DATA_OFFSET).value


def _slow(array: Any) -> int:
    return int(array.ctypes.data)


FAST = _published_layout()
address_of: Callable[[Any], int] = _fast if FAST else _slow
