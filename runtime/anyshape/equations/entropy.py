"""Numbers that no other call gets: the seeds of what is drawn without a seed.

A counter of the process, from a place that the operating system's randomness chose. Kernels count it in memory (`ADDRESS`, under the
name `SYMBOL`), the slow reading of equations through `draw`, so that whatever executes a program draws the same numbers in its order.
"""

from __future__ import annotations

import ctypes
import os
from threading import Lock

from anyshape.equations.philox import words
from anyshape.public import public

SYMBOL = "anyshape_entropy"
_counter = ctypes.c_int64()
ADDRESS = ctypes.addressof(_counter)
_one_by_one = Lock()


def draw() -> int:
    """The next random number."""
    with _one_by_one:
        drawn = _counter.value
        _counter.value = drawn + 1
    return drawn


def restart(at: int) -> None:
    """Sets the next number that `draw` returns."""
    _counter.value = at


@public
def seed(n: int) -> None:
    """Makes programs that draw without a seed of their own draw the same, from here on, in every process that says the same `n` and
    then makes the same calls, one after the other. Without it nothing that is drawn can be foretold."""
    low, high, _, _ = words((n & 0xFFFFFFFF, n >> 32 & 0xFFFFFFFF), (0, 0, 0, 0))
    restart(int(low) << 31 ^ int(high))


def _anew() -> None:
    restart(int.from_bytes(os.urandom(8), "little") >> 1)


_anew()
os.register_at_fork(after_in_child=_anew)
