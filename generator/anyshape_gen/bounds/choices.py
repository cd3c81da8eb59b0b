"""Splits conditions on dims by the conditions of selects in them.

In: conditions on dims. Out: the condition of a select in one of them; and the conditions with every select on that condition
replaced by one of its sides.
"""

from __future__ import annotations

from typing import Any

from anyshape.dims import Atom, Cond, Dim, Size
from anyshape.dims.expr import REBUILD
from anyshape_gen.bounds.terms import Truth


def choice(c: Cond) -> Cond | None:
    """Returns the condition of the first select in a condition; for nested selects, that of the innermost."""
    for p in c.args:
        inner = choice(p) if isinstance(p, Cond) else _choice_in(p)
        if inner is not None:
            return inner
    return None


def _choice_in(p: Size) -> Cond | None:
    atoms = [a for m, _ in p.terms for a in m if a.kind != "symbol"] if isinstance(p, Dim) else []
    for a in atoms:
        if a.kind == "select":
            inner = choice(a.args[0])
            return inner if inner is not None else a.args[0]
    for a in atoms:
        for x in a.args:
            within = _choice_in(x)
            if within is not None:
                return within
    return None


def choices(c: Truth, conditions: dict[Cond, None]) -> None:
    """Adds the conditions of all selects in a condition."""
    for p in c.args if isinstance(c, Cond) else ():
        choices(p, conditions) if isinstance(p, Cond) else _choices_in(p, conditions)


def _choices_in(p: Size, conditions: dict[Cond, None]) -> None:
    for m, _ in p.terms if isinstance(p, Dim) else ():
        for a in m:
            for x in a.args if a.kind != "symbol" else ():
                if isinstance(x, Cond):
                    conditions[x] = None
                    choices(x, conditions)
                else:
                    _choices_in(x, conditions)


def settled(c: Truth, condition: Cond, holds: bool) -> Truth:
    """Rebuilds c for the case that a condition holds, or that it does not."""
    result: Truth = _Settled(condition, holds)(c)
    return result


class _Settled:
    """Rebuilds conditions and dims, each node once."""

    def __init__(self, condition: Cond, holds: bool) -> None:
        self.condition, self.holds = condition, holds
        self.done: dict[Dim | Cond, Any] = {}
        self.atoms: dict[Atom, Size] = {}

    def __call__(self, e: Any) -> Any:
        if not isinstance(e, (Dim, Cond)):
            return e
        if e not in self.done:
            self.done[e] = self._cond(e) if isinstance(e, Cond) else self._dim(e)
        return self.done[e]

    def _cond(self, c: Cond) -> Truth:
        if c is self.condition:
            return self.holds
        args = [self(a) for a in c.args]
        if all(x is y for x, y in zip(args, c.args)):
            return c
        rebuilt: Truth = REBUILD[c.kind](*args)
        return rebuilt

    def _dim(self, p: Dim) -> Size:
        if not any(a.kind != "symbol" for m, _ in p.terms for a in m):
            return p
        total: Size = 0
        for monomial, coefficient in p.terms:
            product: Size = coefficient
            for atom in monomial:
                product = product * self._atom(atom)
            total = total + product
        return total

    def _atom(self, atom: Atom) -> Size:
        if atom.kind == "symbol":
            return atom.dim
        if atom not in self.atoms:
            self.atoms[atom] = self._rebuilt(atom)
        return self.atoms[atom]

    def _rebuilt(self, atom: Atom) -> Size:
        rebuilt: Size
        if atom.kind == "select" and atom.args[0] is self.condition:
            rebuilt = self(atom.args[1] if self.holds else atom.args[2])
            return rebuilt
        args = [self(a) for a in atom.args]
        if all(x is y for x, y in zip(args, atom.args)):
            return atom.dim
        rebuilt = REBUILD[atom.kind](*args)
        return rebuilt
