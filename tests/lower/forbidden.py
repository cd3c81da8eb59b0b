"""Memory whose end, or begin, is that of what may be touched."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np


def before_forbidden_memory(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy whose last byte is the last one of a page, the next page being unreadable: an access beyond is fatal."""
    pages = -(-x.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    view = _with_forbidden(pages + mmap.PAGESIZE, pages)
    return _copied(x, view[pages - x.nbytes : pages])


def behind_forbidden_memory(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy whose first byte is the first one of a page, the page before being unreadable."""
    pages = -(-x.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    view = _with_forbidden(pages + mmap.PAGESIZE, 0)
    return _copied(x, view[mmap.PAGESIZE :][: x.nbytes])


def _with_forbidden(size: int, at: int) -> np.ndarray[Any, Any]:
    """Memory of which one page is unreadable."""
    view = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(view.ctypes.data + at), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return view


def _copied(x: np.ndarray[Any, Any], to: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = to.view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy
