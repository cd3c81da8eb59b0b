"""Solves the asserts of a rule for the names that a random call draws, so that most draws are valid.

In: a rule. Out: for a name (or the length of a run) the values that an assert allows, its bounds and its divisors; and the inputs that
are present together. Names that the rule assigns are inlined: an assert about `room` is one about the names `room` is computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from anyshape_gen.emit.draws.inlining import assigned_in, inlined, is_expression, unpacked
from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Function,
    Generator,
    If,
    IfExp,
    Index,
    Int,
    Name,
    Node,
    NoneLit,
    Reduction,
    Slice,
    Star,
    Statement,
    Str,
    Target,
    Unary,
    VecLit,
)
from anyshape_gen.model.traverse import free_names, rebuild, walk

COMPUTABLE = (
    Name, Int, Bool, Str, NoneLit, BinOp, Unary, IfExp, Compare, BoolOp, VecLit, Star, Index, Slice, Comprehension,
    Generator, Target
)  # fmt: skip
"""Nodes that a random call can compute from drawn names, besides CALLS; one that fails rejects the draw."""
CALLS = ("len", "rank", "prod", "sum", "min", "max", "fill", "ceil_div", "put", "present")
WIDE = 8
"""The most values between two bounds that are drawn from a list of all"""
SOME = 5
"""The number of values above a bound that are drawn from"""
ANY = Name("any_other")
"""An expression for any value, where a condition does not decide it"""
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
Known = Callable[[Expr], bool]


@dataclass(frozen=True)
class Between:
    """Bounds of a number, or of the items of a vector; None where a bound is missing."""

    low: Expr | None
    high: Expr | None


class Constraints:
    """The conditions that asserts require of every call, one by one; and those of some calls only, under an `if`."""

    def __init__(
        self, rule: Sequence[Statement], divisions: Sequence[Expr] = (), functions: Sequence[Function] = ()
    ) -> None:
        """Collects conditions. `divisions`: calls of `exact_div` outside asserts, also conditions; `functions`: those of the rule."""
        self._functions = {f.name: f for f in functions}
        self.parts: list[Expr] = []
        self.sometimes: list[tuple[Expr, Expr]] = []
        """(condition of an `if`, condition that is required under it)"""
        self._collect(rule, {}, self.parts)
        for q in divisions:
            match q:
                case Call("exact_div", (n, by), ()) if is_expression(n) and is_expression(by):
                    self.parts.append(Compare(BinOp("%", n, by), (("==", Int(0)),)))

    def _collect(self, statements: Sequence[Statement], assigned: dict[str, Expr], conditions: list[Expr]) -> None:
        for s in statements:
            match s:
                case Assign(names, value):
                    whole = inlined(value, assigned, self._functions)
                    assigned.update(unpacked(names, whole))
                case Assert(cond):
                    conditions += [inlined(p, assigned, self._functions) for p in all_of(cond)]
                case If(cond, then, other):
                    seen = inlined(cond, assigned, self._functions)
                    for branch, holds in ((then, seen), (other, Unary("not", seen))):
                        asked: list[Expr] = []
                        self._collect(branch, dict(assigned), asked)
                        self.sometimes += [(holds, p) for p in asked]
                    for name in assigned_in(s):
                        assigned.pop(name, None)

    def values(self, subject: Expr, known: Known) -> tuple[Expr | None, ...]:
        """Returns values that the subject must have, one for each alternative of an assert; None for one that does not decide it. Empty
        where no assert relates it to known names."""
        return self.equal(subject, known) or self._between(subject) or self._least(subject, known)

    def equal(self, subject: Expr, known: Known) -> tuple[Expr | None, ...]:
        """Returns values as `values` does, from equalities alone."""
        for part in self.parts:
            values = tuple(_equal(subject, a, known) for a in _any_of(part))
            if any(v is not None for v in values):
                return values
        some = []
        for cond, part in self.sometimes:
            mine = free_names(subject) <= free_names(cond)  # such as `len(m) == 1` for a value of m
            for value in (_equal(subject, a, known) for a in _any_of(part)):
                if value is not None and (mine or (_is_computable(cond) and known(cond))):
                    some.append(value if mine else IfExp(cond, value, ANY))
        return tuple(dict.fromkeys(some))

    def each(self, name: str, known: Known) -> tuple[Expr, ...]:
        """Returns values of which each item of the vector must be one."""
        for part in self.parts:
            match part:
                case Reduction("all", element, (Generator((target,), Name(id)),), ()) if id == name:
                    values = [_equal(Name(target.name), a, known) for a in _any_of(element)]
                    if values and all(v is not None for v in values):
                        return tuple(v for v in values if v is not None)
        return ()

    def broadcast_of(self, name: str, known: Known) -> Expr | None:
        """Returns a vector that must broadcast to the name."""
        for part in self.parts:
            match part:
                case Call("broadcasts", (e, Name(id)), ()) if id == name and is_expression(e):
                    return e if _is_computable(e) and known(e) else None
        return None

    def broadcasts_to(self, name: str, known: Known) -> tuple[Expr, ...]:
        """Returns vectors that the name must broadcast to: one of all calls, or else one for each `if` or `else` that requires it."""
        for parts in (self.parts, [p for _, p in self.sometimes]):
            targets = tuple(
                to
                for part in parts
                if (to := _broadcast_to(part, name)) is not None and _is_computable(to) and known(to)
            )
            if targets:
                return targets if parts is not self.parts else targets[:1]
        return ()

    def bounds(self, subject: Expr, known: Known) -> Between | None:
        """Returns bounds of the subject, or of each of its items."""
        low = high = None
        for part in self.parts:
            for p in (p for alternative in _any_of(_itemwise(part)) for p in all_of(alternative)):
                match _solved(subject, p, known):
                    case (">=", e):
                        low = low or e
                    case (">", e):
                        low = low or _plus(e, 1)
                    case ("<=", e):
                        high = high or e
                    case ("<", e):
                        high = high or _plus(e, -1)
        return Between(low, high) if low is not None or high is not None else None

    def divides(self, name: str, known: Known) -> Expr | None:
        """Returns an expression that the name must divide."""
        for part in self.parts:
            match part:
                case Compare(BinOp("%", e, Name(id)), (("==", Int(0)),)) if (
                    id == name and _is_computable(e) and known(e)
                ):
                    return e
        return None

    def multiple(self, name: str, known: Known) -> Expr | None:
        """Returns an expression that must divide the name."""
        for part in self.parts:
            match part:
                case Compare(BinOp("%", Name(id), e), (("==", Int(0)),)) if (
                    id == name and _is_computable(e) and known(e)
                ):
                    return e
        return None

    def like(self, name: str, known: Known) -> tuple[Expr, tuple[Expr, ...]] | None:
        """Returns a vector whose items the name's items must equal, one by one, and the numbers that an item may be instead."""
        for part in self.parts:
            both = _pairs(part)
            if both is None:
                continue
            names, condition = both
            mine = next((v for v, domain in names.items() if domain == Name(name)), None)
            if mine is None:
                continue
            equal = [_equal(Name(mine), a, _of(names)) for a in _any_of(condition)]
            literals = tuple(e for e in equal if isinstance(e, (Int, Unary)))
            for e in equal:
                if isinstance(e, Name) and known(names[e.id]):
                    return names[e.id], literals
        return None

    def items(self, name: str, known: Known) -> list[tuple[int, Expr]]:
        """Returns (position, value) of items that must have a value."""
        items = []
        for part in self.parts:
            match part:
                case Compare(Index(Name(id), (Int(k),)), (("==", e),)) if id == name and _is_computable(e) and known(e):
                    items.append((k, e))
        return items

    def positive(self, name: str) -> bool:
        return any(_bound(p, Name(name)) in ((">", 0), (">=", 1)) for p in self.parts)

    def not_negative(self, name: str) -> bool:
        alternatives = [a for p in self.parts for a in _any_of(p)]
        return any(_bound(a, Name(name)) in ((">", -1), (">=", 0)) for a in alternatives)

    def _between(self, subject: Expr) -> tuple[Expr, ...]:
        lows, highs = [], []
        for part in self.parts:
            match _bound(part, subject):
                case (">=", low):
                    lows.append(low)
                case (">", low):
                    lows.append(low + 1)
                case ("<=", high):
                    highs.append(high)
                case ("<", high):
                    highs.append(high - 1)
        if not lows or not highs or not 0 <= min(highs) - max(lows) < WIDE:
            return ()
        return tuple(Int(v) for v in range(max(lows), min(highs) + 1))

    def _least(self, subject: Expr, known: Known) -> tuple[Expr, ...]:
        """Returns some values from the lower bound on, where there is no upper bound."""
        bounds = self.bounds(subject, known)
        low, high = (bounds.low, bounds.high) if bounds is not None else (None, None)
        nothing_between = isinstance(low, Int) and isinstance(high, Int) and high.value < low.value
        if low is None or (high is not None and not nothing_between):
            return ()
        if isinstance(low, Int):
            return tuple(Int(low.value + k) for k in range(SOME))
        return (low, *(_plus(low, k) for k in range(1, SOME)))

    def together(self) -> list[tuple[str, ...]]:
        """Returns groups of inputs of which all or none must be present."""
        groups: list[set[str]] = []
        for part in self.parts:
            match part:
                case Compare(Call("present", (Name(a),), ()), (("==", Call("present", (Name(b),), ())),)):
                    joined = {a, b}.union(*(g for g in groups if g & {a, b}))
                    groups = [*(g for g in groups if not g & joined), joined]
        return [tuple(sorted(g)) for g in groups]


def all_of(e: Expr) -> Iterator[Expr]:
    """Yields the conditions of which e is the conjunction; for a chain each comparison."""
    match e:
        case BoolOp("and", items):
            for item in items:
                yield from all_of(item)
        case Compare(first, rest) if len(rest) > 1:
            for op, second in rest:
                yield Compare(first, ((op, second),))
                first = second
        case _:
            yield e


def _broadcast_to(part: Expr, name: str) -> Expr | None:
    match part:
        case Call("broadcasts", (Name(id), to), ()) if id == name and is_expression(to):
            return to
    return None


def _any_of(e: Expr) -> tuple[Expr, ...]:
    return e.items if isinstance(e, BoolOp) and e.op == "or" else (e,)


def _of(names: Iterable[str]) -> Known:
    """Returns a predicate of expressions that read no other names."""
    own = frozenset(names)
    return lambda e: free_names(e) <= own


def _equal(subject: Expr, alternative: Expr, known: Known) -> Expr | None:
    """Returns the value of the subject where the alternative holds, if it decides it."""
    for part in all_of(alternative):
        match _solved(subject, part, known):
            case ("==", e):
                return e
    return None


def _solved(subject: Expr, part: Expr, known: Known) -> tuple[str, Expr] | None:
    """Solves a comparison for the subject: sums and products that have it once."""
    match part:
        case Compare(a, ((op, b),)) if op in FLIPPED:
            for op_, one, other in ((op, a, b), (FLIPPED[op], b, a)):
                if subject in walk(one) and subject not in walk(other):
                    return _isolated(subject, op_, one, other, known)
    return None


def _isolated(subject: Expr, op: str, one: Expr, other: Expr, known: Known) -> tuple[str, Expr] | None:
    """Solves `one op other` for the subject: `subject op e`. Factors are assumed to be positive. Where `one` depends on the subject under a
    condition only, e is ANY otherwise."""
    conditions: list[tuple[Expr, bool]] = []
    while one != subject:
        match one:
            case BinOp("+", a, b) if subject in walk(a) and subject not in walk(b):
                one, other = a, BinOp("-", other, b)
            case BinOp("+", a, b) if subject in walk(b) and subject not in walk(a):
                one, other = b, BinOp("-", other, a)
            case BinOp("-", a, b) if subject in walk(a) and subject not in walk(b):
                one, other = a, BinOp("+", other, b)
            case BinOp("*", a, b) if (subject in walk(a)) != (subject in walk(b)):
                one, by = (a, b) if subject in walk(a) else (b, a)
                if isinstance(by, Name):
                    by = Call("max", (Int(1), by))
                elif not isinstance(by, Int):
                    return None
                if op in (">", ">="):
                    op, other = ">=", Call("ceil_div", (_plus(other, 1) if op == ">" else other, by))
                else:
                    op, other = "==" if op == "==" else "<=", BinOp("//", _plus(other, -1) if op == "<" else other, by)
            case IfExp(cond, a, b) if (subject in walk(a)) != (subject in walk(b)):
                one = a if subject in walk(a) else b
                if not free_names(subject) <= free_names(cond):
                    conditions.append((cond, one is a))
            case _:
                return None
    if not all(_is_computable(e) and known(e) for e in (other, *(c for c, _ in conditions))):
        return None
    for cond, holds in reversed(conditions):
        other = IfExp(cond, other, ANY) if holds else IfExp(cond, ANY, other)
    return op, other


def unconditional(e: Expr) -> Expr:
    """Removes the conditions of a value that is required under them."""
    match e:
        case IfExp(_, then, other) if ANY in (then, other):
            return unconditional(then if other == ANY else other)
    return e


def _plus(e: Expr, more: int) -> Expr:
    if isinstance(e, Int):
        return Int(e.value + more)
    return BinOp("+" if more > 0 else "-", e, Int(abs(more)))


def _itemwise(part: Expr) -> Expr:
    """Rewrites `all(s[k] <= d[k] or … for k in …)` to `s <= d or …`, a comparison of all items of vectors."""
    match part:
        case Reduction("all", element, (Generator((target,), _),), ()):

            def whole(e: Expr) -> Expr:
                match e:
                    case Index(base, (Name(id),)) if id == target.name:
                        return base
                return rebuild(e, whole)

            return whole(element)
    return part


def _pairs(part: Expr) -> tuple[dict[str, Expr], Expr] | None:
    """Splits `all(… for a, b in zip(x, y))` into the vector of each variable, and the condition."""
    match part:
        case Reduction("all", element, (Generator(targets, Call("zip", domains, ())),), ()):
            names = {t.name: d for t, d in zip(targets, domains) if is_expression(d)}
            return (names, element) if len(names) == len(targets) else None
    return None


def _is_computable(e: Expr) -> bool:
    """Whether a random call can compute the expression."""
    return all(map(_is_computed, walk(e)))


def _is_computed(n: Node) -> bool:
    match n:
        case BinOp(op, _, right):
            return op in ("+", "-", "*") or (op in ("//", "%") and right != Int(0))
        case Call(name) | Reduction(name):
            return name in CALLS
    return isinstance(n, COMPUTABLE)


def _bound(part: Expr, subject: Expr) -> tuple[str, int] | None:
    """Matches `subject op number`, with the number on either side."""
    match part:
        case Compare(a, ((op, Int(value)),)) if a == subject:
            return op, value
        case Compare(Int(value), ((op, b),)) if b == subject and op in FLIPPED:
            return FLIPPED[op], value
    return None
