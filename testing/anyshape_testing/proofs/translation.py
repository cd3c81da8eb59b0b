"""Translates sizes and conditions of `anyshape.dims` to terms of z3 over the unbounded integers.

In: a size or a condition. Out: a z3 term, and the bounds of the symbols in it. Operations are translated by their definitions, not by
what the arithmetic of dims knows of them: the bounds that it derives for an operation are not used.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import z3

from anyshape.dims import Atom, Cond, Dim, Size
from anyshape_gen.bounds.terms import Literal

LEAST, MOST = -(1 << 63), (1 << 63) - 1


class Translation:
    """Terms of one claim. A symbol is one unknown of z3 wherever it occurs."""

    def __init__(self) -> None:
        self.bounds: list[Any] = []
        self.symbols: dict[Dim, Any] = {}
        self._done: dict[Dim | Cond | Atom, Any] = {}

    def size(self, e: Size) -> Any:
        if not isinstance(e, Dim):
            return z3.IntVal(e)
        if e not in self._done:
            self._done[e] = z3.Sum([self._product(coefficient, monomial) for monomial, coefficient in e.terms])
        return self._done[e]

    def operand(self, e: Size) -> Any:
        """An operand of an operation other than sums, products and choices."""
        return self.size(e)

    def truth(self, c: bool | Cond) -> Any:
        if not isinstance(c, Cond):
            return z3.BoolVal(c)
        if c not in self._done:
            self._done[c] = self._condition(c)
        return self._done[c]

    def literal(self, part: Literal) -> Any:
        p = self.size(part.p)
        return p == 0 if part.zero else p >= 0

    def _product(self, coefficient: int, monomial: tuple[Atom, ...]) -> Any:
        product = z3.IntVal(coefficient)
        for atom in monomial:
            product = product * self._atom(atom)
        return product

    def _condition(self, c: Cond) -> Any:
        match c.kind:
            case "eq":
                return self.size(c.args[0]) == 0
            case "ge":
                return self.size(c.args[0]) >= 0
            case "not":
                return z3.Not(self.truth(c.args[0]))
            case "and":
                return z3.And([self.truth(part) for part in c.args])
            case "or":
                return z3.Or([self.truth(part) for part in c.args])
        raise NotImplementedError(c.kind)

    def _atom(self, atom: Atom) -> Any:
        if atom not in self._done:
            self._done[atom] = self._symbol(atom) if atom.kind == "symbol" else self._operation(atom)
        return self._done[atom]

    def _symbol(self, atom: Atom) -> Any:
        """An unknown, numbered since symbols of one name may have different bounds."""
        unknown = z3.Int(f"{atom.name}#{len(self.symbols)}")
        self.symbols[atom.dim] = unknown
        if atom.low is not None:
            self.bounds.append(unknown >= atom.low)
        if atom.high is not None:
            self.bounds.append(unknown <= atom.high)
        return unknown

    def _operation(self, atom: Atom) -> Any:
        if atom.kind == "select":
            condition, yes, no = atom.args
            return z3.If(self.truth(condition), self.size(yes), self.size(no))
        args = [self.operand(a) for a in atom.args]
        match atom.kind:
            case "max" | "min":
                extreme = args[0]
                for x in args[1:]:
                    extreme = z3.If(x > extreme if atom.kind == "max" else x < extreme, x, extreme)
                return extreme
            case "floordiv":
                return floordiv(*args)
            case "mod":
                x, y = args
                return z3.If(y == 0, 0, x - y * floordiv(x, y))
            case "bcast":
                x, y = args
                return z3.If(x == 1, y, x)
        raise NotImplementedError(atom.kind)


class OfAnyOperands(Translation):
    """Terms in which some operands of operations are any integers of 64 bits: what is left of a sum or a product that overflowed."""

    def __init__(self, operands: Collection[Size]) -> None:
        super().__init__()
        self._any = {e: z3.Int(f"operand {k}") for k, e in enumerate(operands)}
        self.bounds += [z3.And(unknown >= LEAST, unknown <= MOST) for unknown in self._any.values()]

    def operand(self, e: Size) -> Any:
        return self._any[e] if e in self._any else self.size(e)


def floordiv(x: Any, y: Any) -> Any:
    """The floored quotient, 0 for a divisor of 0; that of z3 rounds down for positive divisors only."""
    return z3.If(y > 0, x / y, z3.If(y < 0, (-x) / (-y), 0))
