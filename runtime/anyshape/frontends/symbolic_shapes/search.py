"""Finds sizes that satisfy conditions: equations are solved for a dim where they are linear in it, and what is left is searched.

In: conditions on dims. Out: `SearchResult`: what dims must be in terms of others, what remains to hold, and the smallest sizes of all.
Sizes are ordered by their sum, of elements that may be negative by the sum of their amounts. The search takes the least sum first (uniform-
cost search, Russell and Norvig, Artificial Intelligence, 3.4.2), and solves equations again after each number that it chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from math import gcd
from operator import attrgetter

from anyshape.dims import Cond, Dim, Size, bounds, exact_div, free_symbols, ge, le, linear, substitute

UP_TO = 1024
"""The largest number that the search chooses for a dim, unless the caller names another"""
MOST_STATES = 50_000
"""Choices after which the search gives up, some seconds"""


class Outcome(Enum):
    """How a search ends."""

    SOLVED = "solved"
    IMPOSSIBLE = "impossible"
    """the conditions have no solution: algebra or an exhausted range shows it"""
    NONE_FOUND = "none found"
    """the part of the range that was searched has none"""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """`values` are dims that the conditions determine, in terms of others or as numbers; `rest` is what must hold of those others;
    `smallest` has a number for each dim in the conditions, empty if there is none. `tried` counts choices of the search; `gave_up` says
    that it ended at MOST_STATES."""

    outcome: Outcome
    values: Mapping[Dim, Size]
    rest: tuple[Cond, ...]
    smallest: Mapping[Dim, int]
    tried: int
    gave_up: bool = False


def solve(conditions: Iterable[bool | Cond], up_to: int = UP_TO) -> SearchResult:
    """Finds the sizes for which all conditions hold."""
    asked = [c for c in _conjuncts(conditions) if c is not True]
    state = solve_equations(asked)
    if state is None:
        return SearchResult(outcome=Outcome.IMPOSSIBLE, values={}, rest=(), smallest={}, tried=0)
    numbers: dict[Dim, int] = {}
    tried = 0
    for component in _components([c for c in asked if isinstance(c, Cond)]):
        part = _SizeSearch(component, up_to, MOST_STATES - tried).run()
        tried += part.tried
        numbers.update(part.smallest)
        if part.outcome is not Outcome.SOLVED:
            return replace(part, values=state.values, rest=state.rest, tried=tried)
    return SearchResult(outcome=Outcome.SOLVED, values=state.values, rest=state.rest, smallest=numbers, tried=tried)


def _conjuncts(conditions: Iterable[bool | Cond]) -> Iterator[bool | Cond]:
    for c in conditions:
        yield from c.args if isinstance(c, Cond) and c.kind == "and" else (c,)


def least(s: Dim) -> int:
    """The number of a dim of which nothing is asked: 1, or the nearest that its bounds allow."""
    low, high = bounds(s)
    number = 1 if low is None else max(1, low)
    return number if high is None else min(number, high)


def _number(n: Size) -> int:
    assert isinstance(n, int)
    return n


@dataclass(frozen=True)
class _Elimination:
    """Dims that are determined, and what must hold of the others."""

    values: Mapping[Dim, Size]
    rest: tuple[Cond, ...]


def solve_equations(conditions: Iterable[bool | Cond], values: Mapping[Dim, Size] | None = None) -> _Elimination | None:
    """Eliminates a dim by each equation that is linear in it and leaves no fraction; None where a condition cannot hold."""
    solved = dict(values or {})
    waiting = list(conditions)
    rest: dict[Cond, None] = {}
    while waiting:
        c = waiting.pop(0)
        if c is False:
            return None
        if c is True or not isinstance(c, Cond):
            continue
        if c.kind == "and":
            waiting = [*c.args, *waiting]
            continue
        if c.kind == "eq" and _has_no_solution(c.args[0]):
            return None
        solution = _solution(c) if c.kind == "eq" else None
        if solution is None:
            rest[c] = None
            continue
        s, value = solution
        only = {s: value}
        solved = {other: substitute(v, only) for other, v in solved.items()} | only
        waiting = [substitute(known, only) for known in (*rest, *waiting)] + list(_within_bounds(s, value))
        rest.clear()
    return _Elimination(solved, tuple(rest))


def _has_no_solution(p: Dim) -> bool:
    """Whether p == 0 has no whole numbers as a solution: the constant is no multiple of what divides all coefficients."""
    common = gcd(*(c for m, c in p.terms if m))
    return p.constant % common != 0


def _solution(c: Cond) -> tuple[Dim, Size] | None:
    """A dim that the equation determines, and its value; of several the last by name, so that `past + seq == 8` says what seq is."""
    p = c.args[0]
    for s in sorted(free_symbols(p), key=attrgetter("name"), reverse=True):
        parts = linear(p, s)
        if parts is None:
            continue
        factor, rest = parts
        if isinstance(rest, int) or all(coefficient % factor == 0 for _, coefficient in rest.terms):
            return s, -exact_div(rest, factor)
    return None


def _within_bounds(s: Dim, value: Size) -> Iterator[bool | Cond]:
    low, high = bounds(s)
    if low is not None:
        yield ge(value, low)
    if high is not None:
        yield le(value, high)


def _components(conditions: Sequence[Cond]) -> list[list[Cond]]:
    """Splits conditions into groups that share no dim, so that each group is searched alone."""
    groups: list[tuple[set[Dim], list[Cond]]] = []
    for c in conditions:
        symbols, joined = set(free_symbols(c)), [c]
        apart = []
        for group in groups:
            if symbols.isdisjoint(group[0]):
                apart.append(group)
            else:
                symbols |= group[0]
                joined = [*group[1], *joined]
        groups = [*apart, (symbols, joined)]
    return [joined for _, joined in groups]


def _range(s: Dim, conditions: Iterable[Cond]) -> tuple[int | None, int | None]:
    """The least and the greatest number of a dim, by its bounds and by conditions `factor * s + number >= 0`."""
    low, high = bounds(s)
    for c in conditions:
        parts = linear(c.args[0], s) if c.kind == "ge" else None
        if parts is None:
            continue
        factor, rest = parts
        if isinstance(rest, Dim):
            continue
        if factor > 0:
            first = -(rest // factor)
            low = first if low is None else max(low, first)
        else:
            last = rest // -factor
            high = last if high is None else min(high, last)
    return low, high


@dataclass(frozen=True)
class _SearchNode:
    """Numbers that are chosen or follow, and what is left; `at` counts the numbers tried of the next dim."""

    numbers: Mapping[Dim, int]
    state: _Elimination
    at: int


class _SizeSearch:
    """One search for the least sum, over the dims of one group of conditions."""

    def __init__(self, conditions: Sequence[Cond], up_to: int, budget: int) -> None:
        self.conditions, self.up_to, self.budget = conditions, up_to, budget
        self.symbols = sorted(frozenset[Dim]().union(*map(free_symbols, conditions)), key=attrgetter("name"))
        self.waiting: list[tuple[int, int, _SearchNode]] = []
        self.order = count()
        self.is_cut = False
        """whether numbers beyond `up_to` were left out"""

    def run(self) -> SearchResult:
        tried, first = 0, solve_equations(self.conditions)
        if first is not None:
            self._put(_SearchNode({}, first, 0))
        while self.waiting:
            _, _, choice = heappop(self.waiting)
            left = self._open(choice)
            if not left:
                return self._answer(Outcome.SOLVED, tried, choice)
            tried += 1
            if tried > self.budget:
                return self._answer(Outcome.NONE_FOUND, tried, gave_up=True)
            self._try(choice, left[0])
        return self._answer(Outcome.NONE_FOUND if self.is_cut else Outcome.IMPOSSIBLE, tried)

    def _open(self, choice: _SearchNode) -> list[Dim]:
        return [s for s in self.symbols if s not in choice.numbers and s not in choice.state.values]

    def _try(self, choice: _SearchNode, s: Dim) -> None:
        """Adds the choice with the next number for s, and itself to go on behind that number."""
        low, high = _range(s, choice.state.rest)
        number = _numbered(choice.at, low, high)
        if number is None:
            return
        if abs(number) > self.up_to:
            self.is_cut = True
            return
        self._put(_SearchNode(choice.numbers, choice.state, choice.at + 1), s)
        only: dict[Dim, Size] = {s: number}
        values = {other: substitute(v, only) for other, v in choice.state.values.items()}
        state = solve_equations([substitute(c, only) for c in choice.state.rest], values)
        if state is not None:
            self._put(_SearchNode({**choice.numbers, s: number}, state, 0))

    def _put(self, choice: _SearchNode, s: Dim | None = None) -> None:
        """Queues a choice by the sum that it has at least: numbers of its dims, and the next one of s."""
        cost = sum(abs(n) for n in choice.numbers.values())
        cost += sum(abs(v) for v in choice.state.values.values() if isinstance(v, int))
        if s is not None:
            number = _numbered(choice.at, *_range(s, choice.state.rest))
            if number is None:
                return
            cost += abs(number)
        heappush(self.waiting, (cost, next(self.order), choice))

    def _answer(
        self, outcome: Outcome, tried: int, choice: _SearchNode | None = None, gave_up: bool = False
    ) -> SearchResult:
        numbers: dict[Dim, int] = {}
        if choice is not None:
            numbers = dict(choice.numbers)
            numbers.update((s, _number(substitute(v, choice.numbers))) for s, v in choice.state.values.items())
        return SearchResult(outcome=outcome, values={}, rest=(), smallest=numbers, tried=tried, gave_up=gave_up)


def _numbered(at: int, low: int | None, high: int | None) -> int | None:
    """The number at a position in the order of amounts, 0 1 -1 2 …, of those from low to high; None behind the last one."""
    if low is not None and high is not None and at > high - low:
        return None
    if low is not None and low >= 0:
        return low + at
    if high is not None and high <= 0:
        return high - at
    sides = [side for side in (high, None if low is None else -low) if side is not None]
    both = min(sides, default=at)  # up to this amount there are a number and its negative
    if at <= 2 * both:
        return (at + 1) // 2 if at % 2 else -(at // 2)
    further = at - both
    return further if high is None or high > both else -further
