"""Budget of a call that Python runs: bytes of intermediate values and results, counted as instructions demand them.

In: `within(budget)` around calls of this thread. Out: what the budget's owner raises once it is exceeded. The interpreter counts; machine
code does not, whose demand is known before (`export/call_bytes.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

_LOCAL = threading.local()


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
