"""Sizes as values: the table that the caller of a kernel fills, and sums of values times sizes.

In: dims, conditions on dims, the positions of recurrences around. Out: scalars, each loaded once, at the outermost level that has all it
needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape.errors import UnsupportedError
from anyshape.lower.emit.values.levels import Levels
from anyshape.lower.llvm.types import I64, Val, const

FAR = 1 << 48
"""A number of elements that no tensor has: the addresses of a process have no more bits."""


class SizeTable:
    """`table` is what the caller fills, in order of first use; numbers above `most_literal` are in it too, where that is given."""

    def __init__(self, levels: Levels, table: dict[Any, int] | None = None, most_literal: int | None = None) -> None:
        self.table: dict[Any, int] = {} if table is None else table
        self.most_literal = most_literal
        self._levels, self._f = levels, levels.f
        self._assumed: dict[Size, int] = {}

    def of(self, s: Any) -> Val:
        """A dim (or a condition on dims, as 0 or 1): a literal, or an entry of the table, plus a multiple of a position."""
        if isinstance(s, (bool, int)):
            return const(I64, int(s)) if self.is_literal(s) else self._passed(s)
        levels, key = self._levels, ("scalar", s)
        value = levels.find(key)
        if value is None and levels.step_depth((s,)):
            rest, steps = self.stepped(s)
            with levels.at(levels.step_depth((s,))):
                value = levels.remember(key, self.offset(steps, rest))
        elif value is None:
            with levels.at(0):
                value = levels.remember(key, self.load(s))
        return value

    def is_literal(self, n: int) -> bool:
        return self.most_literal is None or n <= self.most_literal

    def _passed(self, n: int) -> Val:
        """A number that the caller passes all the same, so that kernels that differ in it alone have one text."""
        key = ("scalar", n)
        value = self._levels.find(key)
        if value is None:
            with self._levels.at(0):
                value = self._levels.remember(key, replace(self.load(n), number=n))
        return value

    def load(self, s: Any) -> Val:
        """Loads an entry of the table at the current place."""
        return self._f.load(self._f.args[0], I64, self.add(s))

    def add(self, s: Any) -> int:
        """Puts a size into the table, unless it is there; returns its number."""
        return self.table.setdefault(s, len(self.table))

    def stepped(self, s: Size) -> tuple[Size, list[tuple[Val, Size]]]:
        """Splits a size into one that mentions no position, and positions with their factors."""
        parts: list[tuple[Val, Size]] = []
        stepping = self._levels.stepping
        for position in [p for p in stepping if p in dims.free_symbols(s)]:
            rest = dims.substitute(s, {position: 0})
            factor = dims.substitute(s, {position: 1}) - rest
            if rest + factor * position != s:
                raise UnsupportedError(f"{s} is no linear function of the position of a recurrence")
            parts.append((stepping[position][0], factor))
            s = rest
        return s, parts

    @contextmanager
    def assume(self, c: Size, number: int) -> Iterator[None]:
        """Code of a version in which a run-time coefficient is this number."""
        self._assumed[c] = number
        yield
        del self._assumed[c]

    def coefficient(self, c: Size) -> Size:
        return self._assumed.get(c, c)

    def offset(self, parts: Sequence[tuple[Val, Size]], fixed: Size = 0) -> Val:
        """Adds products: sum(value * coefficient) + fixed, vectors and scalars mixed. A coefficient that is larger than any tensor is of a
        variable that is 0 wherever the place is one of the tensor's; it is cut, so that no product of it is a place by overflow."""
        total = const(I64, fixed) if isinstance(fixed, int) else self.of(fixed)
        for value, c in parts:
            c = max(-FAR, min(c, FAR)) if isinstance(c, int) else c
            term = value if c == 1 else self._f.mul(value, self.of(c))
            total = term if total.number == 0 else self._f.add(total, term)
        return total
