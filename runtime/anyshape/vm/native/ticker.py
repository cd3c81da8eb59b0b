"""Clock thread that makes calls look whether to stop: one per process, started by the first call, forgotten in a forked child, ended
before the interpreter.

In: generated code (`stop_code.py`). Out: words that it shares with all calls, behind those that kernels compare (`lower/llvm/polling.py`).
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from enum import IntEnum

from anyshape.lower.llvm.polling import ADDRESS, WORDS

PERIOD = 20_000_000
"""Nanoseconds between ticks."""


class ClockWord(IntEnum):
    """Places in the clock."""

    TICKS = 0
    ASLEEP = 1
    """0: the thread ticks; 1: it sleeps, or will after one more tick; 2: there is no thread."""
    LOOKED = 2
    """1: a call has looked since the last tick."""
    STOP = 3
    """1: the thread ends."""
    MAIN = 4
    """The system's number of Python's main thread."""
    NEXT = 5
    """Time before which Python is not asked for signals, in nanoseconds of the monotonic clock."""


ASLEEP_NOW, NO_THREAD = 1, 2


class Ticker:
    """Owner of the clock thread. `tick` is the life of the thread, `wake` wakes it."""

    def __init__(self, tick: Callable[[int], object], wake: Callable[[int], object]) -> None:
        self._tick, self._wake = tick, wake
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.forget()
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    @property
    def address(self) -> int:
        return ADDRESS

    def ensure(self) -> None:
        """Starts or wakes the thread, if the system allows one."""
        if WORDS[ClockWord.ASLEEP] == 0:
            return
        with self._lock:
            if self._thread is not None:
                self._wake(ADDRESS)
                return
            thread = threading.Thread(target=self._tick, args=(ADDRESS,), name="clock of anyshape", daemon=True)
            WORDS[ClockWord.ASLEEP] = WORDS[ClockWord.STOP] = 0
            try:
                thread.start()
            except RuntimeError:  # no more threads are to be had: calls end by themselves alone
                return
            self._thread = thread

    def stop(self) -> None:
        """Ends the thread, which may not be in generated code when that is unloaded."""
        with self._lock:
            if self._thread is not None:
                WORDS[ClockWord.STOP], WORDS[ClockWord.ASLEEP] = 1, NO_THREAD
                self._wake(ADDRESS)
                self._thread.join(timeout=5)
                self._thread = None

    def forget(self) -> None:
        """Resets the words in a forked child, where the thread does not exist."""
        self._lock = threading.Lock()
        self._thread = None
        WORDS[ClockWord.ASLEEP], WORDS[ClockWord.STOP], WORDS[ClockWord.NEXT] = NO_THREAD, 0, 0
        WORDS[ClockWord.MAIN] = threading.main_thread().ident or 0
