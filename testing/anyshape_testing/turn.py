"""How long a law may take while somebody waits for it: `make test OP=` answers in seconds, whatever the op.

In: seconds. Out: whether they are over. A law whose turn is over has had its first calls, and says how many these were; one that has had
too few to be said to hold goes on until the patience is over.
"""

from __future__ import annotations

import math
import time

_end = _last = math.inf


def begin(seconds: float = math.inf, patience: float = 0.0) -> None:
    """The turn of the next law; `patience`: seconds more, for what it cannot do without."""
    global _end, _last
    _end = time.monotonic() + seconds
    _last = _end + patience


def is_limited() -> bool:
    """Whether somebody waits: the turn has an end."""
    return _end < math.inf


def is_over() -> bool:
    return time.monotonic() >= _end


def is_spent() -> bool:
    """Whether the patience is over, too."""
    return time.monotonic() >= _last
