"""Positions that only the run tells, tried one after the other: what is the same for all of them is known before.

choices = Choices()
while choices.again():
    ... one run of a rule, in which `choices.of(a, positions)` gives the position that stands for a in this run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

LIMIT = 1000
"""Most runs that are worth it: a transpose of rank 6 has 720 orders."""


class Chosen(NamedTuple):
    """The position chosen for an axis of a tensor of this rank; `distinct`: it is one of several that must differ."""

    position: int
    rank: int
    distinct: bool


class Choices:
    """A walk through every way to choose, the last choice changing first."""

    def __init__(self, ranks: bool = False) -> None:
        self.ranks = ranks
        """Whether sizes on which ranks depend are chosen too: not where positions shall be those of operands."""
        self._taken: list[int] = []
        self._counts: list[int] = []
        self._by_axis: dict[Any, Chosen] = {}
        self._runs = 0

    def again(self) -> bool:
        """Whether there is a way that was not tried. Call `exhausted` when there is none: it tells that all were. If the first way shows
        that there are too many, it is the last."""
        self._by_axis.clear()
        if self._runs == 0:
            self._runs = 1
            return True
        if self._runs == 1 and prod(self._counts) > LIMIT:
            return False
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

    @property
    def chosen(self) -> Mapping[Any, Chosen]:
        """The choices of this run so far."""
        return dict(self._by_axis)

    def of(self, a: Any, rank: int, positions: Sequence[int], distinct: bool = False) -> int | None:
        """The position for a, the same wherever this run asks for it; None if there are none to choose from."""
        if a in self._by_axis:
            return self._by_axis[a].position
        if not positions:
            return None
        at = len(self._by_axis)
        if at == len(self._taken):
            self._taken.append(0)
            self._counts.append(len(positions))
        self._by_axis[a] = Chosen(positions[self._taken[at]], rank, distinct)
        return self._by_axis[a].position
