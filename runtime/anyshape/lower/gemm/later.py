"""Packing of large constants, put off until all of them are known, and then shared out to threads.

In: jobs that fill arrays which exist already. Much of their time goes to page faults of fresh memory, outside of the interpreter's
lock. Outside of `collected` a job is done at once. The arrays of one collection lie side by side in huge pages: a call that streams all
weights through a core would otherwise look up the address of every 4 KiB (`python -m benchmarks.huge_pages`).
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .tiles import ALIGN

Job = Callable[[], object]

LARGE = 1 << 18
"""Bytes of an array from which on filling it is put off."""

HUGE_PAGE = 1 << 21
PIECE = 16 * HUGE_PAGE
"""Bytes of one mapping. What no array lies in is never touched, and takes no memory."""


@dataclass
class _Collection:
    """`mapping` has room for more from `used` on; it lives as long as any array in it."""

    jobs: list[Job] = field(default_factory=list)
    mapping: mmap.mmap | None = None
    used: int = 0

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Raises OSError and ValueError where the system has no such memory."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if self.mapping is None or self.used + size > len(self.mapping):
            self.mapping = mmap.mmap(
                -1, max(PIECE, -(-size // HUGE_PAGE) * HUGE_PAGE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            )
            self.mapping.madvise(mmap.MADV_HUGEPAGE)
            self.used = 0
        found = np.ndarray(shape, dtype, self.mapping, self.used)
        self.used += -(-size // ALIGN) * ALIGN
        return found


_collecting: ContextVar[_Collection | None] = ContextVar("collecting", default=None)


@contextmanager
def collected() -> Iterator[list[Job]]:
    """The jobs that were put off inside. Whoever opens it does them, before anybody reads the arrays."""
    collection = _Collection()
    token = _collecting.set(collection)
    try:
        yield collection.jobs
    finally:
        _collecting.reset(token)


def later(job: Job, size: int) -> None:
    """Does the job, which fills an array of so many bytes, or puts it off."""
    collection = _collecting.get()
    if collection is None or size < LARGE:
        job()
    else:
        collection.jobs.append(job)


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array for a job to fill, from the beginning of a line of the cache: the kernels' vectors are lines, and what lies across two is
    read twice. A large one of a collection is in huge pages, where the system has them."""
    size = prod(shape) * np.dtype(dtype).itemsize
    collection = _collecting.get()
    if collection is not None and hasattr(mmap, "MADV_HUGEPAGE") and size >= LARGE:
        try:
            return collection.zeros(shape, dtype)
        except (OSError, ValueError):
            pass
    memory = np.zeros(size + ALIGN, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % ALIGN)


def do_all(jobs: Sequence[Job], threads: int) -> None:
    """All of them, by this thread and others. Raises what the first job that failed raised."""
    left = iter(jobs)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for job in left:  # taking the next one is a single operation
                job()
        except BaseException as e:
            failures.append(e)

    others = [threading.Thread(target=work) for _ in range(min(threads, len(jobs)) - 1)]
    started = []
    for t in others:
        try:
            t.start()
        except RuntimeError:  # no more threads are to be had
            break
        started.append(t)
    work()
    for t in started:
        t.join()
    if failures:
        raise failures[0]


__all__ = ["collected", "do_all", "later", "zeros"]
