"""A limit of processor time for code that may not end: references, and mutants.

In: seconds. Out: nothing, or TooLong. For the main thread of a process alone, since it takes a signal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TooLong(Exception):
    """It does not end."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Of the processor, so that a busy machine kills no mutant."""

    def stop(number: int, frame: Any) -> None:
        raise TooLong(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
