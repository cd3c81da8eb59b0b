"""Packing of large constants beside the rest of a compile, and after it: threads copy what is known by now while Python goes on.

In: tables of strips for the packers of the library. Out: arrays that are filled once `wait` has returned. Most of the time of packing is
page faults of fresh memory. So the arrays lie one behind the other in huge pages, where the system has them, and a thread takes all work
that waits with one call, which does not need the interpreter's lock: a thread that had to acquire it after each array would wait longer
than it copies. Outside of `collected` nothing is deferred.

A call that streams all weights through a core would otherwise miss the TLB for every 4 KiB (`python -m benchmarks.huge_pages`). Nothing
takes longer than those pages where a virtual machine gets its memory from a host only on first use. So a caller that says how many bytes to
expect has a helper touch them from the beginning on, before it is known what goes where.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from .tiles import ALIGN

LARGE = 1 << 18
"""Bytes of an array from which on filling it is deferred."""
HUGE_PAGE = 1 << 21
PIECE = 16 * HUGE_PAGE
"""Bytes of one mapping. Pages that no array lies in are never touched, and take no memory."""

Words = NDArray[np.int64]
TOUCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
PACK_ALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)

_collecting: ContextVar[BackgroundPacking | None] = ContextVar("collecting", default=None)


@dataclass(frozen=True, eq=False)
class Strips:
    """Rows of a table for a packer at an address, each done by the thread that claims it; `claimed` counts them. `kept` owns the memory."""

    packer: int
    table: Words
    claimed: Words
    kept: tuple[object, ...]

    @property
    def is_open(self) -> bool:
        return int(self.claimed[0]) < len(self.table)

    def work(self) -> None:
        """Takes part until every row is claimed."""
        PACK_ALL(self.packer)(self.table.ctypes.data, len(self.table), self.claimed.ctypes.data)


@dataclass(eq=False)
class Pages:
    """The first `count` pages of a mapping, to be touched by machine code; `claimed` counts those that some thread has begun. `used`:
    whether arrays lie there."""

    toucher: int
    mapping: mmap.mmap
    count: int
    claimed: Words
    used: bool = False

    @property
    def is_open(self) -> bool:
        return int(self.claimed[0]) < self.count

    def touch(self) -> None:
        first = ctypes.c_char.from_buffer(self.mapping)
        TOUCH(self.toucher)(ctypes.addressof(first), mmap.PAGESIZE, self.count, self.claimed.ctypes.data)

    def stop(self) -> None:
        self.claimed[0] = self.count

    def take(self) -> mmap.mmap:
        """Marks the mapping as used; returns it."""
        self.used = True
        return self.mapping

    def give_back(self, used: int) -> None:
        """Returns the pages behind the bytes in use to the system."""
        begin = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
        if begin < len(self.mapping):
            self.mapping.madvise(mmap.MADV_DONTNEED, begin, len(self.mapping) - begin)


def mapped(size: int) -> mmap.mmap:
    """Maps so many bytes at least, in huge pages."""
    mapping = mmap.mmap(-1, max(PIECE, -(-size // HUGE_PAGE) * HUGE_PAGE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


class BackgroundPacking:
    """Deferred work and the threads that do it: `threads - 1` helpers from the first piece of work on, and the first caller of `wait`."""

    def __init__(self, threads: int) -> None:
        self._helpers_wanted = threads - 1
        self._helpers: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._waiting: list[Strips] = []
        self._begun: list[Strips] = []
        self._over = self._done = False
        self._joining = threading.Lock()
        self._mapping: mmap.mmap | None = None
        self._used = 0
        self._ahead: list[Pages] = []
        self._expected = 0

    def expect(self, size: int, toucher: Callable[[], int]) -> None:
        """Has helpers touch the pages of so many bytes, which include those expected before; `toucher` gives the address of the machine
        code for that."""
        more = size - self._expected
        if self._helpers_wanted < 1 or more < LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
            return
        with suppress(OSError, ValueError):
            pages = Pages(toucher(), mapped(more), more // mmap.PAGESIZE, np.zeros(1, np.int64))
            with self._changed:
                self._ahead.append(pages)
                self._changed.notify()
            self._expected = size
            self._start_helpers()

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> NDArray[Any]:
        """Raises OSError and ValueError where the system has no such memory."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if self._mapping is None or self._used + size > len(self._mapping):
            self._give_back()
            self._mapping = self._next(size)
            self._used = 0
        array: NDArray[Any] = np.ndarray(shape, dtype, self._mapping, self._used)
        self._used += -(-size // ALIGN) * ALIGN
        return array

    def _give_back(self) -> None:
        """Returns touched pages behind the arrays to the system."""
        for pages in self._ahead:
            if pages.mapping is self._mapping:
                pages.give_back(self._used)

    def _next(self, size: int) -> mmap.mmap:
        """The mapping to continue in: one of which the pages are touched, if there is any left."""
        for pages in self._ahead:
            if not pages.used and size <= len(pages.mapping):
                return pages.take()
        return mapped(size)

    def add(self, packer: int, table: Words, *kept: object) -> None:
        """Adds a table of strips. `kept` are the arrays that the table has addresses of."""
        with self._changed:
            self._waiting.append(Strips(packer, table, np.zeros(1, np.int64), kept))
            self._changed.notify()
        self._start_helpers()

    def _start_helpers(self) -> None:
        while len(self._helpers) < self._helpers_wanted:
            helper = threading.Thread(
                target=self._help
            )  # no daemon: the code it runs is there as long as the interpreter
            try:
                helper.start()
            except RuntimeError:  # no more threads are to be had
                self._helpers_wanted = len(self._helpers)
                break
            self._helpers.append(helper)

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be added."""
        return self._over

    def close(self) -> None:
        """Ends adding. Helpers end when everything is done; where there are none, it is done now."""
        if not self._over:
            self._end()
        if self._helpers:
            _open.add(self)
        else:
            self.wait()

    def give_up(self) -> None:
        """Drops all work that is not begun."""
        with self._changed:
            self._waiting.clear()
            for strips in self._begun:
                strips.claimed[0] = len(strips.table)
        self._end()

    def _end(self) -> None:
        for pages in self._ahead:
            pages.stop()
        self._give_back()
        self._mapping = None  # it lives as long as any array in it
        with self._changed:
            self._ahead = []
            self._over = True
            self._changed.notify_all()

    def wait(self) -> None:
        """Returns when everything is done, and takes part in it. Any number of threads may wait, after `close`."""
        if self._done:
            return
        self._work()
        with self._joining:
            for helper in self._helpers:
                helper.join()
            self._helpers.clear()
            self._begun = []
            self._done = True
        _open.discard(self)

    def _help(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._waiting or self._untouched())
                pages = self._untouched()
            if pages is not None:
                pages.touch()
                del pages
                continue
            with self._changed:
                if not self._waiting and not any(s.is_open for s in self._begun):
                    return  # over
            self._work()

    def _untouched(self) -> Pages | None:
        return next((p for p in self._ahead if p.is_open), None)

    def _work(self) -> None:
        """Does all work that waits, and helps with what others began."""
        with self._changed:
            self._begun = [*(s for s in self._begun if s.is_open), *_joined(self._waiting)]
            self._waiting = []
            begun = list(self._begun)
        for strips in begun:
            strips.work()


def _joined(several: list[Strips]) -> Iterator[Strips]:
    """Merges the tables of one packer."""
    for packer in dict.fromkeys(s.packer for s in several):
        own = [s for s in several if s.packer == packer]
        yield Strips(packer, np.concatenate([s.table for s in own]), np.zeros(1, np.int64), tuple(s.kept for s in own))


_open: WeakSet[BackgroundPacking] = WeakSet()


def _before_fork() -> None:
    """Finishes the work: a child process has no helpers."""
    for later in tuple(_open):
        later.wait()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)


@contextmanager
def collected(threads: int) -> Iterator[BackgroundPacking]:
    """Defers packing inside. No array may be read before `wait` has returned."""
    later = BackgroundPacking(threads)
    token = _collecting.set(later)
    try:
        yield later
    except BaseException:
        later.give_up()
        raise
    finally:
        _collecting.reset(token)
    later.close()


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> NDArray[Any]:
    """An array to be filled, from the beginning of a line of the cache: the kernels' vectors are lines, and what lies across two is
    read twice. A large one of a collection is in huge pages, where the system has them."""
    size = prod(shape) * np.dtype(dtype).itemsize
    later = collecting(size)
    if later is not None and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            return later.zeros(shape, dtype)
        except (OSError, ValueError):
            pass
    memory = np.zeros(size + ALIGN, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % ALIGN)


def collecting(size: int) -> BackgroundPacking | None:
    """Returns the packing that fills an array of so many bytes later, if there is one."""
    return _collecting.get() if size >= LARGE else None
