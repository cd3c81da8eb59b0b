"""Limits of a call: its deadline, and cancellation.

In: `Executable.run(deadline=)` and `Executable.cancel()`. Out: errors, in the thread that calls. Machine code looks at words of its state
(`native/stop_code.py`); this is for everything around it: calls that run several programs, and programs that Python runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anyshape.errors import ArgumentError, Cancelled, DeadlineExceeded

_LOCAL = threading.local()
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


@contextmanager
def until(seconds: float) -> Iterator[None]:
    """Bounds all calls of this thread: they end by then."""
    outer = deadline()
    own = time.monotonic_ns() + round(seconds * 1e9)
    _LOCAL.deadline = min(own, outer) if outer else own
    try:
        yield
    finally:
        _LOCAL.deadline = outer


def deadline() -> int:
    """The deadline of this thread's calls, in nanoseconds of the monotonic clock; 0: none."""
    return int(getattr(_LOCAL, "deadline", 0))


class CallLimits:
    """Bounds of one program that Python runs, made where its call begins: `look` raises once the call is to stop."""

    __slots__ = ("_cancels", "_name", "_seen", "_until")

    def __init__(self, name: str, cancels: Sequence[int]) -> None:
        """`cancels` counts in its first element how often calls were cancelled."""
        self._name, self._until, self._cancels, self._seen = name, deadline(), cancels, cancels[0]

    def look(self) -> None:
        if self._cancels[0] != self._seen:
            raise Cancelled(cancelled_text(self._name))
        if self._until and time.monotonic_ns() >= self._until:
            raise DeadlineExceeded(late_text(self._name))
