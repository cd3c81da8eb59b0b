"""Clocks of the system, read in generated code.

In: an open function and the number of a clock. Out: nanoseconds, 0 where the clock may not be read.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I32, I64, PTR, Val, const

MONOTONIC = const(I32, 1)
"""The clock that never goes back: its number on Linux."""
_SECOND = 1_000_000_000


def nanoseconds(f: FunctionBuilder, clock: Val = MONOTONIC) -> Val:
    """Reads the clock."""
    f.module.declare("clock_gettime", I32, [I32, PTR])
    time = f.alloca(I64, 2)
    for word in range(2):
        f.store(const(I64, 0), time, word)
    f.call("clock_gettime", I32, [clock, time])
    return f.add(f.mul(f.load(time, I64, 0), _SECOND), f.load(time, I64, 1))
