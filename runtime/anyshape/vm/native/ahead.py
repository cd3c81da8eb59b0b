"""Touching memory of the store before a call needs it.

In: the types of a program's results. Out: nothing; where typical calls have large results, a thread has the system put memory behind as
much of the store as the largest of them need. A call that is the first to touch memory waits for it page by page: the step of a decoder
whose cache is larger than all before would take several times as long as the next one.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
from collections.abc import Sequence

from anyshape.types import ListType, TensorType
from anyshape.vm.native.allocator_code import LARGE, PIECE, START
from anyshape.vm.program.memory_layout import Tenant, at_typical_points
from anyshape.vm.run.available import available_memory

MOST = 1 << 25
"""Bytes that are touched at most: far less than a process has that runs a model with such results."""
_NAME = "anyshape-ahead"
AVAILABLE = 8
"""Times as much memory must be available as is touched."""


def typical_bytes(types: Sequence[TensorType | ListType]) -> int:
    """Bytes of all results together in the largest of typical calls; 0 if half of those calls need fewer than LARGE, or nobody knows."""
    if any(isinstance(t, ListType) or t.shape is None for t in types):
        return 0
    tenants = [Tenant(t.count() * t.dtype.itemsize, 0, 0) for t in types if isinstance(t, TensorType)]
    totals = at_typical_points(tenants).sum(axis=0).tolist()
    return int(min(max(totals), MOST)) if totals and statistics.median(totals) >= LARGE else 0


def wait() -> None:
    """Returns once no memory is being touched any more."""
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join()


class Ahead:
    """The low end of one store, as far as it was touched."""

    def __init__(self, store: int, touch: int, touched: int) -> None:
        """`store`: address of an allocator, or 0; `touch` and `touched`: addresses of the functions TOUCH and TOUCHED."""
        self._store, self._end, self._lock = store, 0, threading.Lock()
        self._start = ctypes.c_int64.from_address(store + 8 * START).value if store else 0
        self._touch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(touch)
        self._touched = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(touched)

    def expect(self, size: int) -> threading.Thread | None:
        """Starts a thread that touches so many bytes; None where they were touched before, or where there is no store."""
        with self._lock:
            begin, self._end = self._end, max(self._end, -(-size // PIECE))
            pieces = self._end - begin
        if not pieces or not self._start:
            return None
        thread = threading.Thread(target=self._go, args=(begin, pieces), name=_NAME, daemon=True)
        thread.start()
        return thread

    def _go(self, begin: int, pieces: int) -> None:
        if available_memory() >= AVAILABLE * pieces * PIECE:
            self._touched(self._store, self._touch(self._start + begin * PIECE, pieces))
