"""Pool of the threads that kernels are shared with: one per process, grown when a call may use more, forgotten by a forked child.

In: how many threads calls may use. Out: the address of the pool's words, and workers that wait there. A worker is a thread of Python that
lives in generated code and never holds the interpreter's lock. The first call that may use threads starts them.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable, Collection
from functools import cache

import numpy as np

from anyshape.processors import usable_processors
from anyshape.vm.native.pool_layout import MOST_THREADS, Line, PoolWord, place
from anyshape.vm.program.address import address_of

_LINE = 64
_LONGEST = 5.0
"""Seconds that the end of the process waits for a worker"""

Life = Callable[[int, int], object]
Dismissal = Callable[[int], object]


@cache
def usable_threads() -> int:
    """Number of threads that can run at once and that a pool can have."""
    return min(usable_processors(), MOST_THREADS)


class Pool:
    """Words and threads of the pool. `work` is the life of a worker, `dismiss` ends all workers; the words stay as long as the process."""

    def __init__(self, work: Life, dismiss: Dismissal) -> None:
        self._work, self._dismiss = work, dismiss
        self._memory = np.zeros(int(PoolWord.COUNT) + _LINE // 8, np.int64)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._memory))  # for workers that end after the interpreter
        start = -address_of(self._memory) % _LINE // 8
        self._words = self._memory[start : start + int(PoolWord.COUNT)]
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._processors: frozenset[int] = frozenset()
        self.address = address_of(self._words)

    @property
    def workers(self) -> int:
        return len(self._threads)

    def ensure(self, threads: int) -> None:
        """Starts workers until there are `threads - 1`, or as many as the system allows: calls run with those."""
        with self._lock:
            if self._words[PoolWord.STOP]:  # some are still to end
                return
            if len(self._threads) < min(threads, MOST_THREADS) - 1:
                self._let_go_anywhere()
            while len(self._threads) < min(threads, MOST_THREADS) - 1:
                name = f"anyshape-{len(self._threads) + 1}"
                thread = threading.Thread(
                    target=self._work, args=(self.address, len(self._threads)), name=name, daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no more threads are to be had
                    return
                if self._processors:
                    os.sched_setaffinity(thread.native_id or 0, self._processors)
                self._words[place(len(self._threads), Line.ID)] = thread.native_id or 0
                self._threads.append(thread)
                self._words[PoolWord.WORKERS] = len(self._threads)

    def pin(self, processors: Collection[int]) -> None:
        """Has workers, those of now and of later, run on these processors alone; on those of the main thread if there are none. Raises
        OSError where the system does not do that."""
        with self._lock:
            self._words[PoolWord.PINNED] = int(bool(processors))
            for thread in self._threads:
                os.sched_setaffinity(thread.native_id or 0, processors or os.sched_getaffinity(os.getpid()))
            self._words[PoolWord.AVOIDED] = 0
            self._processors = frozenset(processors)

    def _let_go_anywhere(self) -> None:
        """Lets workers run on all processors again (`pool_affinity.py`): more workers may need the one that they keep off."""
        if self._words[PoolWord.AVOIDED] and not self._processors:
            for thread in self._threads:
                os.sched_setaffinity(thread.native_id or 0, os.sched_getaffinity(0))
            self._words[PoolWord.AVOIDED] = 0

    def stop(self) -> None:
        """Ends all workers: none of them may be in generated code when that is unloaded. One that gets no processor meanwhile ends when it
        gets one."""
        with self._lock:
            self._dismiss(self.address)
            for thread in self._threads:
                thread.join(timeout=_LONGEST)
            self._threads = [t for t in self._threads if t.is_alive()]
            self._words[PoolWord.STOP] = int(bool(self._threads))

    def forget(self) -> None:
        """Empties the pool in a forked child, where the threads do not exist and a job may be unfinished."""
        self._lock = threading.Lock()
        self._threads.clear()
        self._words[:] = 0
        self._words[PoolWord.PINNED] = int(bool(self._processors))


def keep_in_order(pool: Pool) -> None:
    """Has threads end before the interpreter does, and a forked child begin without them."""
    atexit.register(pool.stop)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=pool.forget)
