"""Threads for compiled kernels: `anyshape_pool` of an exported header, over threads of Python that the parts of kernels run in.

In: how many threads there may be. Out: the structure that exported functions take. Parts do not hold Python's lock while they run.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache

_PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


class PoolStruct(ctypes.Structure):
    """`anyshape_pool`: the context is the number of threads."""

    _fields_ = [("threads", ctypes.c_int64), ("context", ctypes.c_void_p), ("parallel_for", _PARALLEL_FOR)]


@cache
def pool_of(threads: int) -> PoolStruct | None:
    """The pool of so many threads; None for one."""
    return PoolStruct(threads, threads, _SHARE) if threads > 1 else None


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, "anyshape")


def _share(threads: int, parts: int, part: int, job: int) -> None:
    """Runs part(job, k) for each k, in this thread and in those of the executor that are free. Those that did not begin when all parts were
    taken are not waited for, so that calls that run at once, and a process that was forked, end too."""
    run, numbers = _PART(part), iter(range(parts))

    def work() -> None:
        for k in numbers:
            run(job, k)

    helping: list[Future[None]] = []
    with suppress(RuntimeError):  # no thread can be started, as when Python ends
        for _ in range(min(threads, parts) - 1):
            helping.append(_executor(threads).submit(work))
    work()
    for future in helping:
        if not future.cancel():
            future.result()


_SHARE = _PARALLEL_FOR(_share)
