"""Strings as tensors of characters: `char[*d, w]` holds strings of at most w code points each, filled up with zeros.

That is how NumPy lays out strings of a fixed width (`<U5`), so that neither way copies the elements of a dense array.
As in NumPy, zeros at the end of a string are no part of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR

Array = NDArray[Any]


def is_text(a: Array) -> bool:
    """Whether an array is one of strings: of a fixed width, or of Python objects."""
    return a.dtype.kind in "UO"


def as_chars(a: Array) -> Array:
    """The characters of strings: `<U1[*d, w]` of any array of d strings. Raises TypeError for an element that is not a string."""
    if a.dtype.kind == "O":
        wrong = next((e for e in a.flat if not isinstance(e, str)), None)
        if wrong is not None:
            raise TypeError(f"{wrong!r} is not a string")
        a = a.astype(str) if a.size else np.zeros(a.shape, "<U1")
    width = a.dtype.itemsize // 4
    if a.size == 0 or width == 0:
        return np.zeros((*a.shape, width), CHAR.numpy)
    dense = np.ascontiguousarray(a, a.dtype.newbyteorder("="))
    return dense.reshape(-1).view(CHAR.numpy).reshape(*a.shape, width)


def as_strings(chars: Array) -> Array:
    """The strings of `<U1[*d, w]`: `<Uw[*d]`, a view where the characters are dense."""
    *dims, width = chars.shape
    if chars.size == 0:
        return np.zeros(dims, f"<U{max(width, 1)}")
    return np.ascontiguousarray(chars).reshape(-1).view(f"<U{width}").reshape(dims)


def as_objects(a: Any) -> Any:
    """Strings as Python objects, as ONNX hands them round; every other array as it is. Lists are lists of such."""
    if isinstance(a, list):
        return [as_objects(e) for e in a]
    return a.astype(object) if isinstance(a, np.ndarray) and a.dtype.kind == "U" else a
