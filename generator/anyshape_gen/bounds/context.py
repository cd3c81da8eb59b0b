"""Symbols and facts while the indices of one op are proved, among them facts about all positions of vectors.

In: facts, as the signature, the rule and the kernel are read. Out: `Context.about(goal)`, the facts that can matter for a
goal, in groups from near to far. A fact about all positions of vectors is instantiated at every position of
its vectors that is read. Every fact holds without further hypotheses: those of a conditional fact are part of its formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from anyshape import dims
from anyshape.dims import Atom, Cond, Dim, Facts, Size
from anyshape_gen.bounds.terms import Claim, Opaque, Run, Truth, key_of

NESTED = 3
"""the greatest depth of facts about positions that are instantiated while another one is"""
GROUPS = 3


def implies(hypotheses: Iterable[Truth], c: Truth) -> Truth:
    return dims.or_(*(dims.not_(g) for g in hypotheses), c)


def within(p: Size, n: Size) -> Truth:
    return dims.and_(dims.ge(p, 0), dims.lt(p, n))


@dataclass
class Everywhere:
    """A fact about all positions: c(p) for all 0 <= p < length."""

    length: Size
    c: Callable[[Size], Truth]
    hypotheses: tuple[Truth, ...]
    done: set[Size] = field(default_factory=set)


class Context:
    """The facts of one op."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.facts: dict[Cond, None] = {}
        self.mentions: dict[Atom, list[Cond]] = {}
        self.triggers: dict[str, list[tuple[Everywhere, Size]]] = {}
        self.touched: dict[str, list[Size]] = {}
        self.recording: list[tuple[str, Size]] | None = None
        self.depth = 0
        self.numbers = 0
        self.equal = Facts()
        self.opaque: dict[object, Any] = {}
        self.alive: list[Any] = []
        self.stands_at: dict[Atom, frozenset[Atom]] = {}
        """the generic positions that a symbol depends on"""
        self.owned: dict[Atom, list[Truth]] = {}
        self.carried: dict[Atom, list[Atom]] = {}
        self.data: set[Atom] = set()
        """symbols for values that were read"""
        self.checked: set[Atom] = set()
        """symbols for indices that a run-time check keeps in bounds"""
        self.claims: list[Claim] = []
        """what was proved so far"""

    # --- symbols

    def fresh(self, name: str, low: int | None = None) -> Dim:
        self.numbers += 1
        return dims.symbol(f"{self.op}.{name}.{self.numbers}", low)

    def position(self) -> Dim:
        """Makes a symbol for a generic position of a vector."""
        symbol = self.fresh("p", 0)
        (atom,) = symbol.terms[0][0]
        self.stands_at[atom] = frozenset((atom,))
        return symbol

    def placed(self, symbol: Dim, p: Size) -> Dim:
        """Records that a symbol is a value at a position, and returns it."""
        (atom,) = symbol.terms[0][0]
        if isinstance(p, Dim):
            self.stands_at[atom] = self._positions(p.symbols)
        return symbol

    def _positions(self, atoms: Iterable[Atom]) -> frozenset[Atom]:
        return frozenset().union(*(self.stands_at.get(a, frozenset()) for a in atoms))

    def unknown(self, *key: Any, low: int | None = None, data: bool = False) -> Dim:
        """Returns an unknown integer, the same one for equal keys."""
        self.alive += key
        symbol = self.opaque.get(("int", *map(key_of, key)))
        if symbol is None:
            symbol = self.fresh("u", low)
            self.opaque[("int", *map(key_of, key))] = symbol
        if data:
            self.data.add(symbol.terms[0][0][0])
        return symbol

    def known(self, *key: Any) -> Dim | None:
        """Returns the unknown integer of a key, if there is one."""
        return self.opaque.get(("int", *map(key_of, key)))

    def undecided(self, *key: Any) -> Cond:
        """Returns an unknown truth value, the same one for equal keys."""
        truth = dims.eq(self.unknown("truth", *key, low=0), 1)
        assert isinstance(truth, Cond)
        return truth

    def opaque_value(self, *key: Any) -> Opaque:
        self.alive += key
        return Opaque(tuple(map(key_of, key)))

    def run(self, name: str, length: Size, low: int | None = None, axes: bool = False) -> Run:
        """Makes a vector whose items are an uninterpreted function of the position."""
        self.numbers += 1
        label = f"{name}.{self.numbers}"

        def item(p: Size) -> Size:
            p = self.canonical(p)
            self.touch(label, p)
            return self.placed(dims.symbol(f"{self.op}.{label}[{p}]", low), p)

        return Run(length, item, label, axes, nonnegative=low is not None and low >= 0)

    def vector(self, *key: Any) -> Run:
        """Returns an unknown vector, the same one for equal keys."""
        length = self.unknown("length", *key, low=0)
        run: Run | None = self.opaque.get(("run", length))
        if run is None:
            run = self.opaque[("run", length)] = self.run("v", length)
        return run

    def canonical(self, p: Size) -> Size:
        """Returns the canonical form of a position; positions that are equal by known equalities have the same one."""
        return self.equal.canonical(p)

    # --- facts

    def fact(self, c: Truth, hypotheses: Iterable[Truth] = ()) -> None:
        c = implies(hypotheses, c)
        if isinstance(c, bool) or c in self.facts:
            return
        if c.kind == "and":
            for part in c.args:
                self.fact(part)
            return
        self.facts[c] = None
        if c.kind == "eq":
            self.equal.learn(c)
        for atom in in_order(c.symbols):
            self.mentions.setdefault(atom, []).append(c)

    def everywhere(self, length: Size, c: Callable[[Size], Truth], hypotheses: Iterable[Truth] = ()) -> None:
        """Adds the fact that c(p) holds for all 0 <= p < length; it is instantiated at each position that is read of one of its vectors."""
        known = Everywhere(length, c, tuple(hypotheses))
        probe = self.position()
        outer, self.recording = self.recording, []
        try:
            c(probe)
            asked = dict.fromkeys(self.recording)
        finally:
            self.recording = outer
        for name, p in asked:
            shift = p - probe
            if isinstance(shift, Dim) and probe.terms[0][0][0] in shift.symbols:
                continue
            self.triggers.setdefault(name, []).append((known, shift))
            for position in list(self.touched.get(name, ())):
                self._use(known, position - shift)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Evaluates terms without regard to facts that are being instantiated around it."""
        recording, depth = self.recording, self.depth
        self.recording, self.depth = None, 0
        try:
            yield
        finally:
            self.recording, self.depth = recording, depth

    def touch(self, name: str, p: Size) -> None:
        if self.recording is not None:
            self.recording.append((name, p))
            return
        self.touched.setdefault(name, []).append(p)
        for known, shift in list(self.triggers.get(name, ())):
            self._use(known, p - shift)

    def _use(self, known: Everywhere, p: Size) -> None:
        if p in known.done or self.depth >= NESTED:
            return
        known.done.add(p)
        self.depth += 1
        try:
            self.fact(known.c(p), (*known.hypotheses, within(p, known.length)))
        finally:
            self.depth -= 1

    def own(self, symbol: Dim, c: Truth, carries: Iterable[Atom] = ()) -> None:
        """Adds a condition on a value that exists only where it is computed: a variable, an element that is read. Unlike a fact, it is
        used only for goals that mention the value, since it may imply that a dim is not empty. `carries`: values that exist with it.
        """
        (atom,) = symbol.terms[0][0]
        if c is not True:
            parts = c.args if isinstance(c, Cond) and c.kind == "and" else (c,)
            self.owned.setdefault(atom, []).extend(parts)
        self.carried.setdefault(atom, []).extend(carries)

    # --- facts for a goal

    def present(self, conditions: Iterable[Truth], value: Size | None = None) -> list[Atom]:
        """Collects the symbols of the conditions, and the values that exist with them."""
        atoms: dict[Atom, None] = dict.fromkeys(in_order(value.symbols)) if isinstance(value, Dim) else {}
        for c in conditions:
            if isinstance(c, Cond):
                atoms.update(dict.fromkeys(in_order(c.symbols)))
        left = list(atoms)
        while left:
            for atom in self.carried.get(left.pop(), ()):
                if atom not in atoms:
                    atoms[atom] = None
                    left.append(atom)
        return list(atoms)

    def about(
        self, conditions: Iterable[Truth], scope: Iterable[Dim] = (), value: Size | None = None
    ) -> list[list[Truth]]:
        """Returns groups of facts: first those about values in the conditions (and in `value`, which the conditions are about); then facts
        that share symbols with these, and so on; last, that the variables in scope have a value."""
        present = self.present(conditions, value)
        atoms = [v.terms[0][0][0] for v in scope]
        here = self._positions([*present, *atoms])
        groups: list[list[Truth]] = [[c for atom in present for c in self.owned.get(atom, ())]]
        reached = dict.fromkeys(present)
        taken: dict[Truth, None] = dict.fromkeys(groups[0])
        frontier = list(present)
        self._reach(groups[0], reached, frontier)
        for _ in range(GROUPS):
            group: list[Truth] = [c for atom in frontier for c in self.mentions.get(atom, ()) if c not in taken]
            group = [c for c in dict.fromkeys(group) if isinstance(c, Cond) and self._positions(c.symbols) <= here]
            taken.update(dict.fromkeys(group))
            groups.append(group)
            frontier = []
            self._reach(group, reached, frontier)
        groups.append([c for atom in atoms if atom not in present for c in self.owned.get(atom, ())])
        return groups

    @staticmethod
    def _reach(group: Iterable[Truth], reached: dict[Atom, None], frontier: list[Atom]) -> None:
        for c in group:
            for atom in in_order(c.symbols) if isinstance(c, Cond) else ():
                if atom not in reached:
                    reached[atom] = None
                    frontier.append(atom)


def in_order(atoms: Iterable[Atom]) -> list[Atom]:
    return sorted(atoms, key=lambda a: a.uid)
