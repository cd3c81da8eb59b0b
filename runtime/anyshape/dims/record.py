"""Dims and conditions as plain data, which JSON can hold, and back.

In: sizes and conditions. Out: one list per symbol and nested lists for the rest; a number or a truth value is itself. Text
(`parse_dim`) will not do for files: names of symbols may be anything a model calls its dims, and two unknowns may print alike.

    write = SizeWriter();  data = [write(e) for e in sizes];  keep(write.symbols)
    read = SizeReader(symbols);  sizes = [read(d) for d in data]

A symbol that `fresh` made is equal to nothing else, so reading makes it fresh again; any other is found by its name and bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Size
from anyshape.dims.symbols import fresh, is_fresh, symbol
from anyshape.errors import ParseError

Truth = bool | Cond


class SizeWriter:
    """Expressions to data. `symbols` grows by what they mention: [name, low, high, whether it is fresh]."""

    def __init__(self) -> None:
        self.symbols: list[list[Any]] = []
        self._numbers: dict[Atom, int] = {}

    def __call__(self, e: Size | Truth) -> Any:
        if isinstance(e, Dim):
            return ["+", *([c, *map(self._atom, monomial)] for monomial, c in e.terms)]
        if isinstance(e, Cond):
            return [e.kind, *map(self, e.args)]
        return e

    def _atom(self, atom: Atom) -> Any:
        """The number of a symbol, or an operation."""
        if atom.kind != "symbol":
            return [atom.kind, *map(self, atom.args)]
        if atom not in self._numbers:
            self._numbers[atom] = len(self.symbols)
            self.symbols.append([atom.name, atom.low, atom.high, is_fresh(atom)])
        return self._numbers[atom]


class SizeReader:
    """Data to expressions, each simplified anew. Raises ParseError for data that no writer made."""

    def __init__(self, symbols: Sequence[Any]) -> None:
        try:
            self.symbols: list[Dim] = [_symbol(*s) for s in symbols]
        except TypeError:
            raise ParseError("a symbol of the record is not [name, low, high, fresh]") from None

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, list):
            return data
        try:
            kind, *parts = data
            if kind != "+":
                return REBUILD[kind](*map(self, parts))
            total: Size = 0
            for coefficient, *atoms in parts:
                product: Size = coefficient
                for a in atoms:
                    product = product * (self(a) if isinstance(a, list) else self.symbols[a])
                total = total + product
            return total
        except (KeyError, IndexError, TypeError, ValueError):
            raise ParseError(f"no dim or condition is recorded as {data!r}") from None


def _symbol(name: str, low: int | None, high: int | None, is_new: bool) -> Dim:
    if not is_new:
        return symbol(name, low, high)
    prefix = "?" if name.startswith("?") else name.rpartition(".")[0]
    return fresh(prefix, low, high)
