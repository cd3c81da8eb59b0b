"""How long a law may take while somebody waits for it: `make test OP=` answers in seconds, whatever the op.

In: seconds. Out: whether they are over. A law whose turn is over has had its first calls, and says how many these were.
"""

from __future__ import annotations

import math
import time

_end = math.inf


def begin(seconds: float = math.inf) -> None:
    """The turn of the next law."""
    global _end
    _end = time.monotonic() + seconds


def is_limited() -> bool:
    """Whether somebody waits: the turn has an end."""
    return _end < math.inf


def is_over() -> bool:
    return time.monotonic() >= _end
