"""What the asserts of a rule want of what a random call draws: most draws that know it are valid ones.

In: a rule. Out: of a name (or of the length of a run) the values that an assert allows; which inputs are there together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from anyshape_gen.nodes import Assert, BinOp, BoolOp, Call, Compare, Expr, IfExp, Int, Name, Statement, Unary
from anyshape_gen.traverse import walk

SAFE = (Name, Int, BinOp, Unary, IfExp, Compare, BoolOp)
"""What can be computed of any sizes"""
WIDE = 8
"""Values between two bounds that are drawn as one of them; of more any will do."""
SOME = 5
"""Values from a bound on"""
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Wants:
    """The asserts that hold of every call, each condition by itself."""

    def __init__(self, rule: Sequence[Statement]) -> None:
        self.parts = [p for s in rule if isinstance(s, Assert) for p in _all_of(s.cond)]

    def values(self, subject: Expr, known: Callable[[Expr], bool]) -> tuple[Expr | None, ...]:
        """What the subject must be, one for each alternative that an assert leaves; None where the alternative leaves it open. Empty
        where no assert speaks of it in terms that are known."""
        for part in self.parts:
            found = tuple(_equal(subject, a, known) for a in _any_of(part))
            if any(v is not None for v in found):
                return found
        return self._between(subject) or self._least(subject, known)

    def positive(self, name: str) -> bool:
        return any(_bound(p, Name(name)) in ((">", 0), (">=", 1)) for p in self.parts)

    def not_negative(self, name: str) -> bool:
        return any(_bound(p, Name(name)) in ((">", -1), (">=", 0)) for p in self.parts)

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

    def _least(self, subject: Expr, known: Callable[[Expr], bool]) -> tuple[Expr, ...]:
        """Some that are not below a bound."""
        for part in self.parts:
            match part:
                case Compare(a, ((">=", low),)) | Compare(low, (("<=", a),)) if a == subject:
                    if isinstance(low, Int):
                        return tuple(Int(low.value + k) for k in range(SOME))
                    if _is_safe(low) and known(low):
                        return (low, *(BinOp("+", low, Int(k)) for k in range(1, SOME)))
        return ()

    def together(self) -> list[tuple[str, ...]]:
        """Inputs of which all are there, or none is."""
        groups: list[set[str]] = []
        for part in self.parts:
            match part:
                case Compare(Call("present", (Name(a),), ()), (("==", Call("present", (Name(b),), ())),)):
                    joined = {a, b}.union(*(g for g in groups if g & {a, b}))
                    groups = [*(g for g in groups if not g & joined), joined]
        return [tuple(sorted(g)) for g in groups]


def _all_of(e: Expr) -> Iterator[Expr]:
    """Conditions that hold where e does; of a chain each comparison."""
    match e:
        case BoolOp("and", items):
            for item in items:
                yield from _all_of(item)
        case Compare(first, rest) if len(rest) > 1:
            for op, second in rest:
                yield Compare(first, ((op, second),))
                first = second
        case _:
            yield e


def _any_of(e: Expr) -> tuple[Expr, ...]:
    return e.items if isinstance(e, BoolOp) and e.op == "or" else (e,)


def _equal(subject: Expr, alternative: Expr, known: Callable[[Expr], bool]) -> Expr | None:
    """What equals the subject where the alternative holds."""
    for part in _all_of(alternative):
        match part:
            case Compare(a, (("==", b),)):
                for one, other in ((a, b), (b, a)):
                    if one == subject and _is_safe(other) and known(other):
                        return other
    return None


def _is_safe(e: Expr) -> bool:
    """Whether it has a value whatever its names stand for."""
    return all(
        (isinstance(n, SAFE) and (not isinstance(n, BinOp) or n.op in ("+", "-", "*")))
        or (isinstance(n, Call) and n.func == "len")
        for n in walk(e)
    )  # fmt: skip


def _bound(part: Expr, subject: Expr) -> tuple[str, int] | None:
    """`subject op number`, whichever side the number stands on."""
    match part:
        case Compare(a, ((op, Int(value)),)) if a == subject:
            return op, value
        case Compare(Int(value), ((op, b),)) if b == subject and op in FLIPPED:
            return FLIPPED[op], value
    return None
