"""Makes the random choices of generated strategies by hypothesis, from small pools of sizes, so that equalities happen by chance."""

# mypy: disable-error-code="no-any-return"
# What hypothesis draws has no type.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar

from hypothesis import strategies as st

from anyshape.rules import Vec

T = TypeVar("T")
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
"""Sizes of dims: none, one, a few, and those around vectors of 4, 8 and 16 elements"""
LARGE = (65, 129, 257, 513)
"""Sizes that are drawn rarely: one more than blocks of loops and of products"""
SMALL, TINY = (1, 2, 3, 5), (1, 2)
"""Sizes of dims for a call that has too many elements with others"""
MOST_ELEMENTS = 3000
RARELY = 20
"""Draws of which one disregards what the rule demands."""
SEEDS = st.integers(0, 2**32 - 1)


@cache
def numbered(place: int, n: int) -> st.SearchStrategy[tuple[int, int]]:
    """Makes a strategy for one of n numbers, of which smaller ones are simpler; it is cached, since making one costs more than drawing.
    No two places of a call have equal strategies: the test library copies values between equal ones, and most calls would be copies."""
    return st.sampled_from([(place, k) for k in range(n)])


class Choosing:
    """Draws by strategies of the test library, and numbers by the place of the draw in a call."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw
        self._place = 0

    def __call__(self, strategy: st.SearchStrategy[T]) -> T:
        return self._draw(strategy)

    def among(self, values: Sequence[T]) -> T:
        """Draws one of the values, of which the first is the simplest."""
        if len(values) == 1:
            return values[0]
        self._place += 1
        return values[self._draw(numbered(self._place, len(values)))[1]]

    def order(self, n: int) -> list[int]:
        """Draws an order of the numbers below n; ascending is the simplest."""
        rest = list(range(n))
        return [rest.pop(self.among(range(len(rest)))) for _ in range(n)]


def choosing(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Choosing:
    return draw if isinstance(draw, Choosing) else Choosing(draw)


class HypothesisDraw:
    """Choices for one random call. Most satisfy what the rule demands; one in RARELY does not."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = choosing(draw)
        self.pool = [self._size(), self.draw.among(SIZES[1:]), 1]
        self.again = (partial(self.restrict, SMALL), partial(self.restrict, TINY))
        """Restrictions with which a call that is too large, or has nothing to index, is drawn again."""

    def _size(self) -> int:
        return self.draw.among(SIZES) if self._mostly() else self.draw.among(LARGE)

    def restrict(self, sizes: Sequence[int]) -> None:
        """Restricts the sizes of later draws to these."""
        self.pool = [self.draw.among(sizes), self.draw.among(sizes), 1]

    def _among(self, *values: Any) -> Any:
        return self.draw.among(values)

    def _mostly(self) -> bool:
        return self._among(*range(RARELY)) != RARELY - 1

    def dim(self, name: str) -> int:
        return self._among(*self.pool, self.pool[0])

    def run(self, name: str) -> Vec:
        return Vec(self.dim(name) for _ in range(self._among(0, 1, 1, 2, 2, 3)))

    def maybe(self, name: str, needed: bool) -> Vec:
        return Vec((self.dim(name),)) if needed or self._among(True, True, False) else Vec(())

    def broadcastable(self, n: int) -> tuple[Vec, ...]:
        whole = self.run("whole")
        return tuple(self.broadcasting_to(whole) for _ in range(n))

    def broadcasting_to(self, shape: Sequence[int]) -> Vec:
        if not self._mostly():
            return self.run("any")
        kept = self._among(len(shape), len(shape), *range(len(shape)))
        return Vec(self._among(n, n, 1) for n in Vec(shape)[len(shape) - kept :])

    def broadcast_of(self, shape: Sequence[int]) -> Vec:
        if not self._mostly():
            return self.run("any")
        before = [self.dim("any") for _ in range(self._among(0, 0, 1))]
        return Vec((*before, *(self.dim("any") if n == 1 else n for n in shape)))

    def each_of(self, values: Sequence[int], n: int | None = None) -> tuple[int, ...]:
        count = self._among(1, 1, 2, 3) if n is None else n
        return tuple(self.mostly(values, lambda: self.dim("any")) for _ in range(count))

    def repeated(self, value: int) -> Vec:
        return Vec(value if self._mostly() else self.dim("any") for _ in range(self._among(0, 1, 1, 2)))

    def regrouped(self, shape: Sequence[int]) -> tuple[int, ...]:
        total = math.prod(shape)
        parts: list[int] = []
        rest = total
        for _ in range(self._among(0, 1, 2, 2, 3)):
            divisors = [k for k in range(1, min(rest, 64) + 1) if rest % k == 0] or [0]
            parts.append(self._among(*divisors))
            rest = rest // parts[-1] if parts[-1] else 0
        if rest != 1 or self._among(True, False):
            parts.append(rest)
        if parts and self._among(True, False):
            parts[self._among(*range(len(parts)))] = -1
        for k, n in enumerate(parts):
            if k < len(shape) and n == shape[k] and self._among(True, False, False):
                parts[k] = 0
        if parts and not self._mostly():
            parts[self._among(*range(len(parts)))] = self._among(-2, -1, 0, 3, 5)
        return tuple(parts)

    def partition(self, total: int) -> tuple[int, ...]:
        cuts = sorted(self._among(*range(total + 1)) for _ in range(self._among(0, 1, 2, 3)))
        parts = [b - a for a, b in zip([0, *cuts], [*cuts, total])]
        if not self._mostly():
            parts[0] += self._among(-1, 1)
        return tuple(parts)

    def axis(self, position: int, rank: int) -> int:
        return self._among(position, position - rank if rank else position)

    def free_axis(self, rank: int) -> int:
        return self._among(*range(-rank, rank), *([rank] if not rank or not self._mostly() else []))

    def axes(self, n: int, rank: int) -> tuple[int, ...]:
        order = self.draw.order(rank)[:n]
        return tuple(self.axis(a, rank) for a in order)

    def length(self, most: int) -> int:
        return self._among(*range(most + 1))

    def integer(self) -> int:
        return self._among(-3, -2, -1, 0, 1, 2, 3, 4)

    def ints(self, n: int) -> tuple[int, ...]:
        return tuple(self._among(-100, -3, -2, -1, 0, 1, 2, 3, 100, *self.pool) for _ in range(n))

    def positives(self, n: int) -> tuple[int, ...]:
        return self._once_wrong(tuple(self._among(1, 1, 2, 2, 3, 4) for _ in range(n)), 0)

    def sizes(self, n: int) -> tuple[int, ...]:
        return self._once_wrong(tuple(self._among(0, 1, 2, *self.pool) for _ in range(n)), -1)

    def _once_wrong(self, values: tuple[int, ...], other: int) -> tuple[int, ...]:
        """Replaces, rarely, one of the values by another one."""
        wrong = bool(values) and not self._mostly()
        return tuple(self.with_item(values, self._among(*range(len(values))), other)) if wrong else values

    def with_item(self, values: Sequence[int], k: int, item: int) -> Vec:
        return Vec(item if j == k else n for j, n in enumerate(values))

    def between(self, low: int | None, high: int | None) -> int:
        if low is None and high is None:
            return self.integer()
        if low is None or high is None:
            by = self._among(0, 1, 2, 3, 4)
            return (low or 0) + by if high is None else high - by
        near = [v for v in (low, low + 1, (low + high) // 2, high - 1, high) if low <= v <= high]
        return self._among(*near) if near and self._mostly() else self.integer()

    def each_between(
        self, n: int, low: int | Sequence[int] | None, high: int | Sequence[int] | None
    ) -> tuple[int, ...]:
        return tuple(self.between(_item(low, k), _item(high, k)) for k in range(n))

    def like(self, values: Sequence[int], alternatives: Sequence[int]) -> tuple[int, ...]:
        drawn = tuple(self._among(v, v, *alternatives) for v in values)
        return drawn if self._mostly() else self.sizes(self.length(3))

    def divisor(self, n: int) -> int:
        divisors = [k for k in range(1, min(abs(n), 64) + 1) if n % k == 0] or [1, 2]
        return self._among(*divisors) if self._mostly() else self.integer()

    def multiple(self, n: int) -> int:
        return max(0, n) * self._among(1, 0, 2, 3) if self._mostly() else self.dim("any")

    def real(self, default: float | None) -> float:
        if default is None:
            return self._among(0.0, 0.5, 1.0, -1.5)
        return default * self._among(1.0, 0.5, 2.0, 10.0)

    def truth(self) -> bool:
        return self._among(True, False)

    def member(self, members: Sequence[T]) -> T:
        return self._among(*members)

    def mostly(self, values: Sequence[T], other: Callable[[], T]) -> T:
        return self._among(*values) if self._mostly() else other()

    def together(self, n: int) -> tuple[bool, ...]:
        there = self._among(True, True, False)
        return tuple(there if self._mostly() else self._among(True, False) for _ in range(n))

    def default(self, value: T) -> T | None:
        return self._among(value, value, None)


def _item(bound: int | Sequence[int] | None, k: int) -> int | None:
    """Returns the bound of item k, from one bound for all or one for each."""
    if bound is None or isinstance(bound, int):
        return bound
    return bound[k] if k < len(bound) else None
