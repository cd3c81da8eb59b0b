"""Positions that only the run tells, tried one after the other: what is the same for all of them is known before.

choices = Choices()
while choices.again():
    ... one run of a rule, in which `choices.of(a, positions)` gives the position that stands for a in this run
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LIMIT = 1000
"""How many runs are worth it: a transpose of rank 6 has 720 orders."""


class Choices:
    """A walk through every way to choose, the last choice changing first."""

    def __init__(self) -> None:
        self._taken: list[int] = []
        self._counts: list[int] = []
        self._made: dict[Any, int] = {}
        self._runs = 0

    def again(self) -> bool:
        """Whether there is a way that was not tried. Call `exhausted` when there is none: it tells that all were."""
        self._made.clear()
        if self._runs == 0:
            self._runs = 1
            return True
        while self._taken and self._taken[-1] + 1 == self._counts[-1]:
            self._taken.pop()
            self._counts.pop()
        if not self._taken or self._runs == LIMIT:
            return False
        self._taken[-1] += 1
        del self._counts[len(self._taken) :]
        self._runs += 1
        return True

    @property
    def exhausted(self) -> bool:
        """Whether every way was tried."""
        return not self._taken

    def of(self, a: Any, positions: Sequence[int]) -> int | None:
        """The position for a, the same wherever this run asks for it; None if there are none to choose from."""
        if a in self._made:
            return self._made[a]
        if not positions:
            return None
        at = len(self._made)
        if at == len(self._taken):
            self._taken.append(0)
            self._counts.append(len(positions))
        self._made[a] = positions[self._taken[at]]
        return self._made[a]
