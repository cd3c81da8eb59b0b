"""Memory whose end is the end of what may be touched."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np


def before_forbidden_memory(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy whose last byte is the last one of a page, the next page being unreadable: an access beyond is fatal."""
    pages = -(-x.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    view = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(view.ctypes.data + pages), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = view[pages - x.nbytes : pages].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy
