"""Arrays that begin at lines of the cache, so that no engine is luckier than another with where its memory lies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_LINE = 64


def aligned(*shape: int) -> NDArray[np.float32]:
    """Zeros that begin at a line of the cache."""
    return _memory(4 * math.prod(shape)).view(np.float32).reshape(shape)


def placed(a: Array) -> Array:
    """A copy of the array that begins at a line of the cache."""
    place: Array = _memory(a.nbytes).view(a.dtype).reshape(a.shape)
    place[...] = a
    return place


def _memory(size: int) -> NDArray[np.uint8]:
    whole = np.zeros(size + _LINE, np.uint8)
    start = -whole.ctypes.data % _LINE
    return whole[start : start + size]
