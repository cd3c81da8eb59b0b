"""What is known beyond the bounds that symbols are born with: equalities, bounds and other conditions that checks
established.

In: conditions that hold (`learn`). Out: decisions (`decide`) and canonical spellings (`canonical`) of dims and
conditions. An equality is solved for its youngest symbol, which is replaced from then on: numbers win over symbols,
older symbols over younger. A bound on one symbol becomes a twin of it with tighter bounds, put in its place while
something is decided. All else is kept as it is and found again by identity or by implication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from anyshape.dims.atoms import refinements
from anyshape.dims.bound import nonneg
from anyshape.dims.conditions import Truth, and_, implied, not_, or_, replace_quotient, solve
from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Size, replace_atoms, times
from anyshape.dims.substitution import substitute_atoms


class Facts:
    """A growing set of conditions that hold. `under(c)` is a copy that also assumes c, for one branch."""

    __slots__ = ("_decided", "_spelled", "_twins", "_values", "held")

    def __init__(self) -> None:
        self._values: dict[Atom, Size] = {}  # solved equalities; no value mentions a key
        self._twins: dict[Atom, Size] = {}
        self.held: dict[Cond, None] = {}
        self._decided: dict[Cond, Truth] = {}
        self._spelled: dict[Dim, Size] = {}

    @property
    def respells(self) -> bool:
        """Whether `canonical` can change anything."""
        return bool(self._values or self._twins)

    def under(self, c: Truth) -> Facts:
        branch = Facts()
        branch._values, branch._twins, branch.held = dict(self._values), dict(self._twins), dict(self.held)
        branch.learn(c)
        return branch

    def learn(self, c: Truth) -> None:
        """From now on c holds. A condition that cannot hold teaches nothing: whoever checks it raises."""
        c = self._restated(c)
        if c.__class__ is not Cond:
            return
        if c.kind == "and":
            for member in c.args:
                self.learn(member)
            return
        if c in self.held:
            return
        self._decided.clear()
        solved = solve(c.args[0]) if c.kind == "eq" else None
        if solved is not None:
            self._replace(*solved)
            return
        self.held[c] = None
        self._bound(c)

    def equate(self, a: Size, b: Size) -> None:
        if a is not b:
            self.learn(REBUILD["eq"](a - b))

    def _bound(self, c: Cond) -> None:
        """A bound of one symbol: its twin, tightened again if it has one, or the number it must be."""
        seen = substitute_atoms(c, self._twins)
        if seen.__class__ is not Cond or seen.kind in ("and", "or"):
            return
        told = refinements(seen.args[0])[1] if seen.kind == "not" else refinements(seen)[0]
        for twin, value in told.items():
            origin = next((x for x, t in self._twins.items() if t.__class__ is Dim and t.atom is twin), twin)
            if value.__class__ is int:
                self._replace(origin, value)
            elif seen.kind != "eq":
                self._twins[origin] = value
                self._spelled.clear()

    def _replace(self, x: Atom, value: Size) -> None:
        """x is `value` from now on, wherever it was mentioned before."""
        self._decided.clear()
        self._spelled.clear()
        only = {x: value}
        self._values = {y: substitute_atoms(v, only) for y, v in self._values.items()}
        self._values[x] = value
        twin = self._twins.pop(x, None)
        held, self.held = self.held, {}
        for c in held:
            self.learn(c)
        if twin.__class__ is Dim and value.__class__ is Dim:
            low, high = twin.terms[0][0][0].low, twin.terms[0][0][0].high
            if low is not None:
                self.learn(REBUILD["ge"](value - low))
            if high is not None:
                self.learn(REBUILD["ge"](high - value))

    @overload
    def canonical(self, e: bool | Cond) -> bool | Cond: ...  # type: ignore[overload-overlap]
    @overload
    def canonical(self, e: Size) -> Size: ...
    def canonical(self, e: Size | bool | Cond) -> Size | bool | Cond:
        """The expression with every replaced symbol in its canonical spelling, and what known bounds make of it:
        min(n, 512) is n where n <= 512 is known."""
        if not (self._values or self._twins) or e.__class__ is int or e.__class__ is bool:
            return e
        if e.__class__ is Cond:
            return self._restated(e)
        hit = self._spelled.get(e)  # type: ignore[arg-type]
        if hit is None:
            hit = self._spelled[e] = self._tightened(substitute_atoms(e, self._values))  # type: ignore[index]
        return hit

    def _tightened(self, e: Size) -> Size:
        if not self._twins or e.__class__ is not Dim or e.symbols.isdisjoint(self._twins):
            return e
        origins = {twin.terms[0][0][0]: origin.dim for origin, twin in self._twins.items() if twin.__class__ is Dim}
        tightened: Size = substitute_atoms(substitute_atoms(e, self._twins), origins)
        return tightened

    def _restated(self, c: Truth) -> Truth:
        return substitute_atoms(c, self._values) if c.__class__ is Cond and self._values else c

    def decide(self, c: Truth) -> Truth:
        """True or False where the facts settle c, else c in canonical spelling."""
        if c.__class__ is not Cond:
            return c
        hit = self._decided.get(c)
        if hit is None:
            hit = self._decided[c] = self._decide(self._restated(c))
        return hit

    def _decide(self, c: Truth) -> Truth:
        if c.__class__ is not Cond or not (self.held or self._twins):
            return c
        if c in self.held:
            return True
        if not_(c) in self.held:
            return False
        if c.kind in ("and", "or"):
            return (and_ if c.kind == "and" else or_)(*(self.decide(a) for a in c.args))
        if self._twins:
            seen = substitute_atoms(c, self._twins)
            if seen.__class__ is bool:
                return seen
        for known in self.held:
            told = implied(known, c)
            if told.__class__ is bool:
                return told
        return self._by_divisibility(c)

    def _by_divisibility(self, c: Cond) -> Truth:
        """b * (a // b) is a - a % b where b is not 0: with a % b == 0 known, the quotient disappears."""
        p = c.args[0]
        if c.kind == "not" or p.__class__ is not Dim:
            inner = self._by_divisibility(c.args[0])
            return not_(inner) if inner.__class__ is bool else c
        for monomial, _ in p.terms:
            for atom in monomial:
                if atom.kind != "floordiv" or atom.args[1].__class__ is int:
                    continue
                a, b = atom.args
                factor = _factor(p, atom, b)
                if factor and self._divides(a, b):
                    return self.decide(REBUILD[c.kind](self._divisible(replace_quotient(p, atom, factor))))
        return c

    def _divides(self, a: Size, b: Size) -> bool:
        equals: Callable[[Size], Truth] = REBUILD["eq"]
        return self.decide(equals(b)) is False and self.decide(equals(REBUILD["mod"](a, b))) is True

    def _divisible(self, p: Size) -> Size:
        """p without the remainders that are known to be 0."""
        if p.__class__ is int:
            return p
        gone = {
            a: 0
            for m, _ in p.terms  # type: ignore[union-attr]
            for a in m
            if a.kind == "mod" and self.decide(REBUILD["eq"](a.dim)) is True
        }
        return replace_atoms(p, gone) if gone else p  # type: ignore[arg-type]

    def nonneg(self, e: Size) -> bool:
        """Whether e >= 0 follows."""
        return nonneg(e) or self.decide(REBUILD["ge"](e)) is True


def _factor(p: Dim, quotient: Atom, b: Dim) -> int:
    """k, where k * b * quotient is a part of p (judged by b's first term); 0 if it is not."""
    lead, c = b.terms[0]
    wanted = times(lead, (quotient,))
    for monomial, coefficient in p.terms:
        if monomial == wanted and coefficient % c == 0:
            return coefficient // c
    return 0
