"""Symbols that dims define: `n` alone, and `2*k` or `n + m` where all but one name is known.

In: dims, each with the place where its size is read. Out: for every symbol that they define, the place, and what to do with the size there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from anyshape.dims.division import floordiv
from anyshape.dims.expr import Dim, Size
from anyshape.dims.substitution import free_symbols, substitute

P = TypeVar("P")


@dataclass(frozen=True)
class Definition(Generic[P]):
    """The symbol is (size at the place - rest) / factor, which must leave nothing."""

    place: P
    factor: int = 1
    rest: Size = 0

    @property
    def is_alone(self) -> bool:
        """Whether the dim is the symbol itself."""
        return self.factor == 1 and self.rest.__class__ is int and self.rest == 0

    def of(self, size: Size, values: Mapping[Dim, Size] | None = None) -> Size:
        """The symbol, of the size at the place; `values` are those of symbols in the rest."""
        return floordiv(size - (substitute(self.rest, values) if values else self.rest), self.factor)


def linear(n: Size, s: Dim) -> tuple[int, Size] | None:
    """The factor and the rest of n = factor * s + rest; None if n is not of that form."""
    if not isinstance(n, Dim):
        return None
    factor = next((c for m, c in n.terms if len(m) == 1 and m[0].dim is s), 0)
    rest = n - s * factor
    return (factor, rest) if factor and s not in free_symbols(rest) else None


def definitions(sizes: Iterable[tuple[P, Size]], before: Collection[Dim] = ()) -> dict[Dim, Definition[P]]:
    """Returns the definitions of symbols by the dims at some places: symbols that stand alone first, then those of dims of which all others
    are known, be it from before."""
    listed = [(place, n) for place, n in sizes if isinstance(n, Dim)]
    known: dict[Dim, Definition[P]] = {}
    for place, n in listed:
        if n.is_symbol and n not in before:
            known.setdefault(n, Definition(place))
    while True:
        solved = False
        for place, n in listed:
            left = [*(free_symbols(n) - known.keys() - set(before))]
            parts = linear(n, left[0]) if len(left) == 1 else None
            if parts is not None:
                known[left[0]] = Definition(place, *parts)
                solved = True
        if not solved:
            return known
