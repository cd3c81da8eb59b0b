"""What is known beyond the initial bounds of symbols: equalities, bounds and other conditions that checks
established.

In: conditions that hold (`learn`). Out: decisions (`decide`) and canonical spellings (`canonical`) of dims and
conditions. An equality is solved for its youngest symbol, which is replaced from then on: numbers win over symbols,
older symbols over younger. A bound on one symbol becomes a twin of it with tighter bounds, put in its place while
something is decided. All else is kept as it is and found again by identity or by implication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, overload

from anyshape.dims.cases import refinements
from anyshape.dims.conditions import SMALL, Truth, and_, implied, not_, or_, replace_quotient, solve
from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Size, replace_atoms, times
from anyshape.dims.substitution import substitute_atoms

ASKED = 64
"""How many conditions that are no bound of one symbol a question is held against, the newest first."""
MOST_STATES = 1 << 12
_STATES: dict[tuple[int, Cond], int] = {}
"""A number for each state of knowledge, by the state before and the condition learned."""
_NUMBERS = count(1)


class Facts:
    """A growing set of conditions that hold. `under(c)` knows all that this one knows, and c, for one branch.

    Everything is found by the symbols it mentions, and a branch holds only what it adds: learning and asking cost what they touch,
    whatever else is known.
    """

    __slots__ = (
        "_after", "_decided", "_deciders", "_mentions", "_origins", "_outer", "_spelled", "_state", "_twins",
        "_values", "held", "relates", "renamed", "respells"
    )  # fmt: skip

    def __init__(self, outer: Facts | None = None) -> None:
        self._outer = outer
        self._values: dict[Atom, Size] = {}  # solved equalities; no value mentions a key
        self._twins: dict[Atom, Size] = {}
        self._origins: dict[Atom, Atom] = {}  # of twins
        self.held: dict[Cond, None] = {}
        self._mentions: dict[Atom, dict[Atom | Cond, None]] = {}  # symbol -> whose value it is in, what holds of it
        self._deciders: dict[Atom, dict[Any, Cond]] = {}  # symbol -> what may decide a question about it
        self._decided: dict[Cond, Truth] = {}
        self._spelled: dict[Dim, Size] = {}
        self.respells: bool = outer is not None and outer.respells
        """Whether `canonical` can change anything."""
        self.relates: bool = outer is not None and outer.relates
        """Whether a bound of several symbols is known, which may settle a minimum."""
        self.renamed: Mapping[Dim, Size] = {} if outer is None else outer.renamed
        """The sizes that replace symbols which existed when conditions of regions were learned."""
        self._after: list[Cond] = []  # what was learned since `state` was asked for
        self._state = 0

    def state(self) -> int | None:
        """A number that is equal for facts that learned the same in the same order, and so decide everything alike; 0 if they learned
        nothing. None for a branch: what is known around it may grow."""
        if self._outer is not None:
            return None
        for c in self._after:
            known = _STATES.get((self._state, c))
            if known is None:
                if len(_STATES) >= MOST_STATES:
                    _STATES.clear()  # a number is never given twice
                known = _STATES[self._state, c] = next(_NUMBERS)
            self._state = known
        self._after.clear()
        return self._state

    def under(self, c: Truth) -> Facts:
        branch = Facts(self)
        branch.learn(c)
        return branch

    def _layers(self) -> Iterator[Facts]:
        layer: Facts | None = self
        while layer is not None:
            yield layer
            layer = layer._outer

    def learn(self, c: Truth) -> None:
        """Takes c for true from now on. A condition that cannot hold teaches nothing: whoever checks it raises."""
        c = self._restated(c)
        if not isinstance(c, Cond):
            return
        if c.kind == "and":
            for member in c.args:
                self.learn(member)
            return
        if self._holds(c):
            return
        if self._outer is None:
            self._after.append(c)
        self._decided.clear()
        solved = solve(c.args[0]) if c.kind == "eq" else None
        if solved is not None:
            self._replace(*solved)
            return
        self.held[c] = None
        for x in c.symbols:
            self._mentions.setdefault(x, {})[c] = None
        if not self._bound(c):
            self._tell(c)

    def _holds(self, c: Cond) -> bool:
        return any(c in layer.held for layer in self._layers())

    def _tell(self, c: Cond) -> None:
        """Indexes c for questions: a bound of a polynomial by all its symbols, the tightest one only; alternatives by those of one
        of them, since they have to decide a question each. Nothing follows from other conditions but themselves."""
        if c.kind == "ge":
            p = c.args[0]
            key: Any = tuple(t for t in p.terms if t[0])
            for x in c.symbols:
                known = self._deciders.setdefault(x, {}).get(key)
                if known is None or known.args[0].constant > p.constant:
                    self._deciders[x][key] = c
            if len(c.symbols) > 1:
                self.relates = self.respells = True
                self._spelled.clear()
        elif c.kind == "or":
            for x in min((a.symbols for a in c.args), key=len):
                self._deciders.setdefault(x, {})[c] = c

    def _bound(self, c: Cond) -> bool:
        """A bound of one symbol: its twin, tightened again if it has one, or the number it must be. Whether that says all of c."""
        seen = self._with_twins(c)
        if not isinstance(seen, Cond) or seen.kind in ("and", "or"):
            return seen is True
        refined = refinements(seen.args[0])[1] if seen.kind == "not" else refinements(seen)[0]
        for twin, value in refined.items():
            origin = next((layer._origins[twin] for layer in self._layers() if twin in layer._origins), twin)
            if isinstance(value, int):
                self._replace(origin, value)
            elif seen.kind != "eq" or (value.is_symbol and value.name == twin.name):
                self._twins[origin] = value
                self._origins[value.terms[0][0][0]] = origin
                self._spelled.clear()
                self.respells = True
        return bool(refined) and c.kind == "ge"

    def _replace(self, x: Atom, value: Size) -> None:
        """x is `value` from now on, wherever it was mentioned before."""
        self._decided.clear()
        self._spelled.clear()
        self.respells = True
        only, touched = {x: value}, [m for layer in self._layers() for m in layer._mentions.get(x, ())]
        twin = self._twin_of(x)
        self._put(x, value)
        for y in touched:
            if isinstance(y, Atom):
                before = self._value_of(y)
                if isinstance(before, Dim) and x in before.symbols:
                    self._put(y, substitute_atoms(before, only))
        for c in touched:
            if isinstance(c, Cond):
                self.held.pop(c, None)
                self.learn(c)
        if isinstance(twin, Dim) and isinstance(value, Dim):
            low, high = twin.terms[0][0][0].low, twin.terms[0][0][0].high
            if low is not None:
                self.learn(REBUILD["ge"](value - low))
            if high is not None:
                self.learn(REBUILD["ge"](high - value))

    def _put(self, x: Atom, value: Size) -> None:
        self._values[x] = value
        if isinstance(value, Dim):
            for s in value.symbols:
                self._mentions.setdefault(s, {})[x] = None

    def _value_of(self, x: Atom) -> Size | None:
        return next((layer._values[x] for layer in self._layers() if x in layer._values), None)

    def _twin_of(self, x: Atom) -> Size | None:
        return next((layer._twins[x] for layer in self._layers() if x in layer._twins), None)

    def _with_values(self, e: Any) -> Any:
        known = {x: v for x in e.symbols if (v := self._value_of(x)) is not None}
        return substitute_atoms(e, known) if known else e

    def _with_twins(self, e: Any) -> Any:
        known = {x: t for x in e.symbols if (t := self._twin_of(x)) is not None}
        return substitute_atoms(e, known) if known else e

    @overload
    def canonical(self, e: bool | Cond) -> bool | Cond: ...  # type: ignore[overload-overlap]  # a bool is an int
    @overload
    def canonical(self, e: Size) -> Size: ...
    def canonical(self, e: Size | bool | Cond) -> Size | bool | Cond:
        """The expression with every replaced symbol in its canonical spelling, and what known bounds make of it:
        min(n, 512) is n where n <= 512 is known, and min(k, n) is k where k <= n is."""
        if not self.respells or isinstance(e, int | bool):
            return e
        if isinstance(e, Cond):
            return self._restated(e)
        hit = self._spelled.get(e)
        if hit is None:
            hit = self._spelled[e] = self._chosen(self._tightened(self._with_values(e)))
        return hit

    def _chosen(self, e: Size) -> Size:
        """Replaces each `min`, `max` and `select` of an expression whose choice the bounds of several symbols decide."""
        if not self.relates or not isinstance(e, Dim) or not e.depth or e.weight > SMALL:
            return e
        total: Size = 0
        for monomial, coefficient in e.terms:
            product: Size = coefficient
            for atom in monomial:
                product = product * self._chosen_atom(atom)
            total = total + product
        return total

    def _chosen_atom(self, atom: Atom) -> Size:
        if atom.kind == "symbol" or len(atom.symbols) < 2:
            return atom.dim
        args: list[Any] = [self.decide(a) if isinstance(a, Cond) else self._chosen(a) for a in atom.args]
        if atom.kind in ("min", "max"):
            at_least: Callable[[Size], Truth] = REBUILD["ge"]
            for a in list(args):
                if any(
                    self.decide(at_least(a - b if atom.kind == "min" else b - a)) is True for b in args if b is not a
                ):
                    args.remove(a)
        chosen: Size = REBUILD[atom.kind](*args)
        return chosen

    def _tightened(self, e: Size) -> Size:
        if not isinstance(e, Dim):
            return e
        twins = {x: t for x in e.symbols if (t := self._twin_of(x)) is not None}
        if not twins:
            return e
        origins = {twin.terms[0][0][0]: x.dim for x, twin in twins.items() if isinstance(twin, Dim)}
        tightened: Size = substitute_atoms(substitute_atoms(e, twins), origins)
        return tightened

    def _restated(self, c: Truth) -> Truth:
        return self._with_values(c) if self.respells and isinstance(c, Cond) else c

    def decide(self, c: Truth) -> Truth:
        """True or False where the facts settle c, else c in canonical spelling."""
        if not isinstance(c, Cond):
            return c
        hit = self._decided.get(c)
        if hit is None:
            hit = self._decided[c] = self._decide(self._restated(c))
        return hit

    def _decide(self, c: Truth) -> Truth:
        if not isinstance(c, Cond):
            return c
        if self._holds(c):
            return True
        opposite = not_(c)
        if isinstance(opposite, Cond) and self._holds(opposite):
            return False
        if c.kind in ("and", "or"):
            return (and_ if c.kind == "and" else or_)(*(self.decide(a) for a in c.args))
        if self.respells:
            seen = self._with_twins(c)
            if isinstance(seen, bool):
                return seen
        for known in self._about(c):
            outcome = implied(known, c)
            if isinstance(outcome, bool):
                return outcome
        return self._by_divisibility(c)

    def _about(self, c: Cond) -> Iterator[Cond]:
        """Known conditions that may decide c, each once, the newest first."""
        asked: set[Cond] = set()
        for known in self._sharing_symbols(c):
            if known in asked:
                continue
            if len(asked) == ASKED:
                return
            asked.add(known)
            yield known

    def _sharing_symbols(self, c: Cond) -> Iterator[Cond]:
        """Known conditions that mention a symbol of c, once for each symbol shared."""
        for layer in self._layers():
            for x in c.symbols:
                yield from reversed(layer._deciders.get(x, {}).values())

    def _by_divisibility(self, c: Cond) -> Truth:
        """b * (a // b) is a - a % b where b is not 0: with a % b == 0 known, the quotient disappears."""
        p = c.args[0]
        if c.kind == "not" or not isinstance(p, Dim):
            inner = self._by_divisibility(c.args[0])
            return not_(inner) if isinstance(inner, bool) else c
        for monomial, _ in p.terms:
            for atom in monomial:
                if atom.kind != "floordiv" or isinstance(atom.args[1], int):
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
        if isinstance(p, int):
            return p
        gone = {a: 0 for m, _ in p.terms for a in m if a.kind == "mod" and self.decide(REBUILD["eq"](a.dim)) is True}
        return replace_atoms(p, gone) if gone else p


def _factor(p: Dim, quotient: Atom, b: Dim) -> int:
    """k, where k * b * quotient is a part of p (judged by b's first term); 0 if it is not."""
    lead, c = b.terms[0]
    product = times(lead, (quotient,))
    for monomial, coefficient in p.terms:
        if monomial == product and coefficient % c == 0:
            return coefficient // c
    return 0
