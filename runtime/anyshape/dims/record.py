"""Dims and conditions as plain data, which JSON can hold, and back.

In: sizes and conditions. Out: a table in which every symbol and every expression stands once, behind those it is made of, and numbers of
its entries; a number or a truth value is itself. Expressions share what they are made of, and written as trees could be of any size. Text
(`parse_dim`) will not do for files either: names of symbols may be anything a model calls its dims, and two unknowns may print alike.

    write = SizeWriter();  data = [write(e) for e in sizes];  keep(write.table)
    read = SizeReader(table);  sizes = [read(d) for d in data]

A symbol that `fresh` made is equal to nothing else, so reading makes it fresh again; any other is found by its name and bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Size
from anyshape.dims.symbols import fresh, is_fresh, symbol
from anyshape.errors import ParseError

Truth = bool | Cond


_SYMBOL = "symbol"


class SizeWriter:
    """Expressions to data: [number of an entry of `table`]. An entry is a symbol, its name, bounds and whether it is fresh; a sum, its
    terms as a factor and numbers of atoms each; or an operation with its arguments as data."""

    def __init__(self) -> None:
        self.table: list[list[Any]] = []
        self._numbers: dict[Atom | Dim | Cond, int] = {}

    def __call__(self, e: Size | Truth) -> Any:
        return [self._number(e)] if isinstance(e, Dim | Cond) else e

    def _number(self, e: Atom | Dim | Cond) -> int:
        number = self._numbers.get(e)
        if number is None:
            entry = self._entry(e)
            number = self._numbers[e] = len(self.table)
            self.table.append(entry)
        return number

    def _entry(self, e: Atom | Dim | Cond) -> list[Any]:
        if isinstance(e, Dim):
            return ["+", *([c, *map(self._number, monomial)] for monomial, c in e.terms)]
        if isinstance(e, Atom) and e.kind == _SYMBOL:
            return [_SYMBOL, e.name, e.low, e.high, is_fresh(e)]
        return [e.kind, *map(self, e.args)]


class SizeReader:
    """Data to expressions, each simplified anew. Raises ParseError for data that no writer made."""

    def __init__(self, table: Sequence[Any]) -> None:
        self._read: list[Any] = []
        for entry in table:
            try:
                self._read.append(self._entry(*entry))
            except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                raise ParseError(f"no dim or condition is recorded as {entry!r}") from None

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, list):
            return data
        try:
            (number,) = data
            return self._at(number)
        except (IndexError, TypeError, ValueError):
            raise ParseError(f"no dim or condition is recorded as {data!r}") from None

    def _at(self, number: int) -> Any:
        if number < 0:
            raise IndexError(number)
        return self._read[number]

    def _entry(self, kind: str, *parts: Any) -> Any:
        if kind == _SYMBOL:
            return _symbol(*parts)
        if kind != "+":
            return REBUILD[kind](*map(self, parts))
        total: Size = 0
        for coefficient, *atoms in parts:
            product: Size = coefficient
            for a in atoms:
                product = product * self._at(a)
            total = total + product
        return total


def _symbol(name: str, low: int | None, high: int | None, is_new: bool) -> Dim:
    if not is_new:
        return symbol(name, low, high)
    return fresh(name.rpartition(".")[0] or "?", low, high)
