"""Budget of a call that Python runs: bytes of intermediate values and results, counted as instructions demand them.

In: `within(budget)` around calls of this thread; numbers of bytes as text. Out: what the budget's owner raises once it is exceeded. The
interpreter counts; machine code does not, whose demand is known before (`export/call_bytes.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

_LOCAL = threading.local()
_LARGEST = (1 << 63) - 1
_UNITS: dict[str, int] = {
    "": 1,
    "B": 1,
    "KB": 1000,
    **{f"{p}B": 1000**k for k, p in enumerate("kMGT", 1)},
    **{f"{p}iB": 1024**k for k, p in enumerate("KMGT", 1)},
}


def byte_count(text: str) -> int | None:
    """Reads a number of bytes: `4096`, `64MB` (10^6), `512KiB` (2^10); None for another text."""
    digits = text.rstrip("BGKMTik")
    unit = _UNITS.get(text[len(digits) :])
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > len(str(_LARGEST)):
        return None
    number = int(digits) * unit
    return number if number <= _LARGEST else None


class MemoryBudget:
    """Counts the bytes of one call. `demand` is called with the bytes that are added, negative where some are given back."""

    def __init__(self, demand: Callable[[int], None]) -> None:
        self._demand = demand
        self._regions: dict[Hashable, int] = {}

    def take(self, size: int) -> None:
        self._demand(size)

    def give_back(self, size: int) -> None:
        self._demand(-size)

    def grow(self, region: Hashable, size: int) -> None:
        """Counts a region as the largest size that the call demands of it."""
        held = self._regions.get(region, 0)
        if size > held:
            self._demand(size - held)
            self._regions[region] = size

    def swap(self, one: Hashable, other: Hashable) -> None:
        held = self._regions
        held[one], held[other] = held.get(other, 0), held.get(one, 0)


@contextmanager
def within(budget: MemoryBudget) -> Iterator[None]:
    """Counts all calls of this thread that Python runs in a budget."""
    outer = memory_budget()
    _LOCAL.budget = budget
    try:
        yield
    finally:
        _LOCAL.budget = outer


def memory_budget() -> MemoryBudget | None:
    """The budget of this thread's calls, if there is one."""
    return getattr(_LOCAL, "budget", None)
