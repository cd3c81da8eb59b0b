"""Limits the processor time of code that may not end: references, and mutants.

In: seconds. Out: nothing, or TooLong. It works only in the main thread, since it uses a signal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TooLong(Exception):
    """Raised where code did not end within its time limit."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooLong after so many seconds of processor time, not of the clock, so that a busy machine kills no mutant."""

    def stop(number: int, frame: Any) -> None:
        raise TooLong(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
