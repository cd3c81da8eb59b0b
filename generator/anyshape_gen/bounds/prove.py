"""Proves that a condition on dims follows from others, by linear arithmetic and case distinction.

In: conditions that hold, and a goal. Out: the kind of `Proof`, or None where there is none within the limit. The negated
goal is refuted: min, max, select, // and % are variables with the conditions that define them, of which each alternative
is tried (an analytic tableau); the conditions at a leaf are linear, or linear after products are variables. The limit counts
steps, not time, so that verdicts are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from anyshape import dims
from anyshape.dims import Atom, Cond, Dim, Size
from anyshape_gen.bounds.choices import choice, choices, settled
from anyshape_gen.bounds.linear import contradictory
from anyshape_gen.bounds.terms import Claim, Literal, Truth

STEPS = 1500
"""the most eliminations of one proof"""
DEPTH = 14
"""the greatest depth of nested cases"""
CHOICES = 10
"""the most conditions of selects by which one goal is split"""


class Proof(IntEnum):
    """How a condition was proved; a larger number is a less simple proof."""

    STRUCTURAL = 0
    """the condition is one of the facts, or the bounds of single symbols decide it"""
    LINEAR = 1
    """a linear combination of facts"""
    CASES = 2
    """several cases, or products of facts"""


class Exhausted(Exception):
    """Raised when the limit of a proof is reached."""


Alternative: TypeAlias = "tuple[Literal | Cond, ...]"


@dataclass
class Branch:
    """The conditions on one branch of the tableau."""

    rows: list[Size] = field(default_factory=list)
    zeros: list[Size] = field(default_factory=list)
    clauses: list[tuple[Alternative, ...]] = field(default_factory=list)
    seen: set[Atom] = field(default_factory=set)
    closed: bool = False

    def copy(self) -> Branch:
        return Branch(list(self.rows), list(self.zeros), list(self.clauses), set(self.seen), self.closed)

    def assume(self, c: Truth | Literal) -> None:
        if isinstance(c, Literal):
            self._literal(c.p, c.zero)
        elif isinstance(c, bool):
            self.closed |= not c
        elif c.kind in ("ge", "eq"):
            self._literal(c.args[0], c.kind == "eq")
        elif c.kind == "and":
            for part in c.args:
                self.assume(part)
        elif c.kind == "or":
            self.clauses.append(tuple((part,) for part in c.args))
            for part in c.args:
                self._atoms_of(part)
        else:
            p = c.args[0].args[0]
            self.clauses.append(((Literal(p - 1),), (Literal(-p - 1),)))
            self._atoms(p)

    def _literal(self, p: Size, zero: bool) -> None:
        if isinstance(p, int):
            self.closed |= p != 0 if zero else p < 0
            return
        (self.zeros if zero else self.rows).append(p)
        self._atoms(p)

    def _atoms_of(self, c: Cond) -> None:
        for part in c.args:
            self._atoms_of(part) if isinstance(part, Cond) else self._atoms(part)

    def _atoms(self, p: Size) -> None:
        for monomial, _ in p.terms if isinstance(p, Dim) else ():
            for atom in monomial:
                if atom not in self.seen:
                    self.seen.add(atom)
                    self._define(atom)

    def _define(self, atom: Atom) -> None:
        """Adds the conditions that define an atom."""
        a = atom.dim
        if atom.low is not None:
            self.rows.append(a - atom.low)
        if atom.high is not None:
            self.rows.append(atom.high - a)
        match atom.kind:
            case "max" | "min":
                for x in atom.args:
                    self._literal(a - x if atom.kind == "max" else x - a, False)
                self.clauses.append(tuple((Literal(a - x, True),) for x in atom.args))
            case "select":
                c, yes, no = atom.args
                otherwise = dims.not_(c)
                assert isinstance(otherwise, Cond)
                self.clauses.append(((c, Literal(a - yes, True)), (otherwise, Literal(a - no, True))))
                self._atoms_of(c)
                self._atoms(yes)
                self._atoms(no)
            case "bcast":
                x, y = atom.args
                self.clauses.append(((Literal(x - 1, True), Literal(a - y, True)), (Literal(a - x, True),)))
                self._atoms(x)
                self._atoms(y)
            case "floordiv":
                x, y = atom.args
                self._quotient(x, y, Literal(a, True), x - y * a)
            case "mod":
                x, y = atom.args
                self._quotient(x, y, Literal(a, True), a)
                self._atoms(dims.floordiv(x, y))
                whole = Literal(x - y * dims.floordiv(x, y) - a, True)
                self._literal(whole.p, True) if isinstance(y, int) else self.clauses.append(
                    ((whole,), (Literal(y, True),))
                )

    def _quotient(self, x: Size, y: Size, nothing: Literal, rest: Size) -> None:
        """Adds 0 <= rest < y, with all signs inverted for a negative y; quotient and rest are 0 for y == 0."""
        if isinstance(y, int) and y > 0:
            self._literal(rest, False)
            self._literal(y - 1 - rest, False)
            return
        positive: Alternative = (Literal(y - 1), Literal(rest), Literal(y - 1 - rest))
        negative: Alternative = (Literal(-y - 1), Literal(-rest), Literal(rest - y - 1))
        self.clauses.append((positive, negative, (Literal(y, True), nothing)))
        for p in (y, rest):
            self._atoms(p)


class Prover:
    """A proof of at most `limit` steps."""

    def __init__(self, limit: int = STEPS) -> None:
        self.left = limit
        self.cases = False

    def refute(self, conditions: Iterable[Truth]) -> bool:
        """Whether the conditions contradict each other. Raises Exhausted."""
        branch = Branch()
        for c in conditions:
            branch.assume(c)
        return self._closes(branch, DEPTH)

    def follows(self, goal: Truth, held: Sequence[Truth], splits: int) -> bool:
        """Whether the goal follows. First it is split by the conditions of its selects, and so are the facts. Raises Exhausted."""
        goal, known = simplified(goal, held)
        if known is None or goal is True or goal in known:
            return True
        condition = choice(goal) if isinstance(goal, Cond) and splits > 0 else None
        if condition is None:
            return self.refute([dims.not_(goal), *known])
        self.cases = True
        self.left -= 1
        for holds in (True, False):
            case = [settled(c, condition, holds) for c in known]
            case.append(condition if holds else dims.not_(condition))
            if not self.follows(settled(goal, condition, holds), case, splits - 1):
                return False
        return True

    def _empty(self, branch: Branch, more: Alternative = ()) -> bool:
        """Whether linear arithmetic alone closes the branch."""
        if more:
            branch = branch.copy()
            for part in more:
                branch.assume(part)
        if branch.closed:
            return True
        self.left -= 1
        if self.left < 0:
            raise Exhausted
        return contradictory(branch.rows, branch.zeros)

    def _products(self, branch: Branch) -> bool:
        if not any(len(m) > 1 for p in (*branch.rows, *branch.zeros) if isinstance(p, Dim) for m, _ in p.terms):
            return False
        self.left -= 3
        if self.left < 0:
            raise Exhausted
        self.cases = True
        return contradictory(branch.rows, branch.zeros, with_products=True)

    def _closes(self, branch: Branch, depth: int) -> bool:
        if self._empty(branch):
            return True
        if self._settled(branch):
            return True
        if self._products(branch):
            return True
        if not branch.clauses or depth == 0:
            return False
        self.cases = True
        first, *rest = branch.clauses
        branch.clauses = rest
        for alternative in first:
            case = branch.copy()
            for part in alternative:
                case.assume(part)
            if not (case.closed or self._closes(case, depth - 1)):
                return False
        return True

    def _settled(self, branch: Branch) -> bool:
        """Assumes the alternative of each clause that has only one left; True where a clause has none left."""
        moved = True
        while moved:
            moved = False
            for clause in list(branch.clauses):
                alive = [a for a in clause if not self._empty(branch, a)]
                if len(alive) > 1:
                    continue
                branch.clauses.remove(clause)
                self.cases = True
                if not alive:
                    return True
                for part in alive[0]:
                    branch.assume(part)
                moved = True
            if moved and self._empty(branch):
                return True
        return False


@dataclass(frozen=True)
class Attempt:
    """The outcome of a search for a proof: how the goal follows, None if it does not; whether the limit was reached; the facts used."""

    how: Proof | None
    limited: bool = False
    facts: tuple[Truth, ...] = ()


def follows(claimed: Literal, held: Sequence[Sequence[Truth]], claims: list[Claim]) -> bool:
    """Whether a literal follows from the groups of facts; one that does is added to the claims."""
    outcome = attempt(claimed.truth, held)
    if outcome.how is None:
        return False
    claims.append(Claim((claimed,), outcome.facts))
    return True


def attempt(goal: Truth, held: Sequence[Sequence[Truth]], limit: int = STEPS) -> Attempt:
    """Searches for a proof of the goal from the first group of facts, from the first two, and so on."""
    if goal is True:
        return Attempt(Proof.STRUCTURAL)
    known: list[Truth] = []
    tried, limited = -1, False
    for group in held:
        known += group
        if tried == len(known):
            continue
        tried = len(known)
        aim, facts = simplified(goal, known)
        if facts is None or aim is True or aim in facts:
            return Attempt(Proof.STRUCTURAL, facts=tuple(known))
        prover = Prover(limit)
        try:
            if prover.follows(aim, facts, CHOICES):
                return Attempt(Proof.CASES if prover.cases else Proof.LINEAR, facts=tuple(known))
        except Exhausted:
            limited = True
    return Attempt(None, limited)


def simplified(goal: Truth, conditions: Sequence[Truth]) -> tuple[Truth, list[Truth] | None]:
    """Simplifies the goal and the facts by each other: removes alternatives and sides of selects that other conditions exclude."""
    known = propagated(conditions)
    done: set[Cond] = set()
    while known is not None:
        held = set(known)
        tested: dict[Cond, None] = {}
        for c in (goal, *known):
            choices(c, tested)
        decided = [(c, c in held) for c in tested if c not in done and (c in held or dims.not_(c) in held)]
        if not decided:
            break
        for condition, holds in decided:
            done.add(condition)
            goal = settled(goal, condition, holds)
            facts = [settled(c, condition, holds) for c in known if c is not condition]
            known = [*facts, condition if holds else dims.not_(condition)]
        known = propagated(known)
    return goal, known


def propagated(conditions: Iterable[Truth]) -> list[Truth] | None:
    """Removes alternatives of conditions that other conditions exclude; None where a condition has none left."""
    held: dict[Truth, None] = {}
    clauses: list[Cond] = []

    def hold(c: Truth) -> bool:
        if isinstance(c, bool):
            return c
        if c.kind == "and":
            return not [
                part for part in c.args if not hold(part)
            ]  # no early exit: every part is added, even after one that is contradictory
        if c.kind == "or":
            clauses.append(c)
        else:
            held[c] = None
        return True

    fine = not [c for c in conditions if not hold(c)]
    moved = fine
    while moved:
        moved = False
        open_, clauses = clauses, []
        for c in open_:
            if any(part in held for part in c.args):
                moved = True
                continue
            left = [part for part in c.args if dims.not_(part) not in held]
            if len(left) < len(c.args):
                moved = True
                fine &= hold(dims.or_(*left))
            else:
                clauses.append(c)
        if not fine:
            return None
    return [*held, *clauses] if fine else None
