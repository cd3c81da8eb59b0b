"""Limits the time of a law, for `make test OP=`, which answers in seconds whatever the op.

In: seconds. Out: whether they are over. A law whose time is over has had its first calls, and says how many these were; one that has had
too few to be said to hold continues through a grace period.
"""

from __future__ import annotations

import math
import time

_end = _last = math.inf


def begin(seconds: float = math.inf, grace: float = 0.0) -> None:
    """Starts the time of the next law; `grace`: further seconds for the calls that it cannot do without."""
    global _end, _last
    _end = time.monotonic() + seconds
    _last = _end + grace


def is_limited() -> bool:
    """Whether the law's time is limited."""
    return _end < math.inf


def is_over() -> bool:
    """Whether the law's time is over, the grace period apart."""
    return time.monotonic() >= _end


def is_spent() -> bool:
    """Whether the grace period is over, too."""
    return time.monotonic() >= _last
