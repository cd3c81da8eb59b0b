"""Limits of a call: its deadline, and cancellation.

In: `Executable.run(deadline=, cancellation=)` and `Executable.cancel()`. Out: errors, in the thread that calls. Machine code looks at words
of its state (`native/stop_code.py`); this is for everything around it: calls that run several programs, and programs that Python runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anyshape.errors import ArgumentError, Cancelled, DeadlineExceeded
from anyshape.public import public

_LOCAL = threading.local()
_NONE: tuple[int, None] = (0, None)
_FURTHEST = 1e9
"""Seconds to the latest deadline, longer than anybody waits."""


def cancelled_text(name: str) -> str:
    return f"{name}: the call was cancelled"


def late_text(name: str) -> str:
    return f"{name}: the call was not over at its deadline"


def checked_deadline(seconds: Any) -> float:
    """The deadline as a number of seconds. Raises ArgumentError for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise ArgumentError(f"deadline must be a number of seconds, not negative, got {seconds!r}")
    return min(float(seconds), _FURTHEST)


class Cancellation:
    """Stops the calls that it is passed to, `exe.run(inputs, cancellation=c)`, and no others: `cancel()`, from any thread. A call that it
    is passed to afterwards raises Cancelled at once."""

    @public
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []
        self.is_cancelled = False

    def cancel(self) -> None:
        """Makes calls that are under way stop soon, and later ones at once."""
        with self._lock:
            self.is_cancelled = True
            for stop in self._stops:
                stop()

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """Has `stop` called, by whichever thread cancels, while the block runs."""
        with self._lock:
            self._stops.append(stop)
            if self.is_cancelled:
                stop()
        try:
            yield
        finally:
            with self._lock:
                self._stops.remove(stop)


@contextmanager
def bounded(seconds: float | None, cancellation: Cancellation | None) -> Iterator[None]:
    """Bounds all calls of this thread: they end once so many seconds are over, or once they are cancelled."""
    outer = thread_limits()
    until, token = outer
    if seconds is not None:
        own = time.monotonic_ns() + round(seconds * 1e9)
        until = min(own, until) if until else own
    _LOCAL.limits = until, cancellation or token
    try:
        yield
    finally:
        _LOCAL.limits = outer


def thread_limits() -> tuple[int, Cancellation | None]:
    """The deadline of this thread's calls, in nanoseconds of the monotonic clock, 0 for none; and what may cancel them."""
    limits: tuple[int, Cancellation | None] = getattr(_LOCAL, "limits", _NONE)
    return limits


class CallLimits:
    """Bounds of one program that Python runs, made where its call begins: `look` raises once the call is to stop."""

    __slots__ = ("_cancellation", "_cancels", "_name", "_seen", "_until")

    def __init__(self, name: str, cancels: Sequence[int]) -> None:
        """`cancels` counts in its first element how often calls were cancelled."""
        self._name, self._cancels, self._seen = name, cancels, cancels[0]
        self._until, self._cancellation = thread_limits()

    def look(self) -> None:
        if self._cancels[0] != self._seen or (self._cancellation is not None and self._cancellation.is_cancelled):
            raise Cancelled(cancelled_text(self._name))
        if self._until and time.monotonic_ns() >= self._until:
            raise DeadlineExceeded(late_text(self._name))
