"""Decides whether two messages are about one refusal, and lists everything for which a call is refused.

On numbers, an op is refused by the static variant's rule, with the message of the first assert that does not hold. A run names its own
variant; where a call breaks two asserts, it may report the other one, which it could decide earlier; and a check that is made before
sizes are known spells them as expressions. All that is allowed to differ is defined here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyshape.errors import ShapeError
from anyshape.graph.call import arguments
from anyshape.graph.infer import untyped
from anyshape.graph.opdef import OpDef
from anyshape.graph.relating import related
from anyshape.properties import Refusal
from anyshape.rules import Rule

_VARIANT = re.compile(r"^(static|dyn)\.")
_SHAPE = re.compile(r"\[[^\[\]]*\]")
_INDEX = re.compile(r"^index -?\d+ ")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
_TERM = r"-?(?:\w+\([^:]*?\)|\([^:]*?\)|\w+)"
_WRITTEN = rf"({_TERM}(?: ?(?:\+|-|\*\*?|//|%) ?{_TERM})*)"
"""Matches a number, or an expression in its place"""
_UNEQUAL = re.compile(r"\((\w+) == (\w+) does not hold: .*\)$")
"""Matches the equation of two dims of arguments behind a message"""


def plain(message: str) -> str:
    """Removes the variant from a message."""
    return _VARIANT.sub("", message)


def is_of(r: Refusal, message: str) -> bool:
    """Whether a message has the assert's text: after the op's name and place, and perhaps before the equation that fails."""
    return re.search(rf"(^|: ){r.message}", message, re.DOTALL) is not None


def is_one(message: str, said: str) -> bool:
    """Whether a run's message is that on numbers, perhaps followed by the equation that fails."""
    return plain(message).startswith(plain(said))


def is_one_early(message: str, said: str) -> bool:
    """Whether a message of a check that may be made early, or by equations, is that on numbers: sizes and shapes may be expressions, the
    sides of an equality in the order in which they are known; an error of equations may lack the op's name, and that of an index out of
    range its number."""
    if said.startswith("index") and _INDEX.sub("", said) in message:
        return True
    mine, expected = _unshaped(plain(message)), _unshaped(plain(said))
    words, what = mine.split(": "), expected.split(": ")
    one_equality = len(what) > 2 and words[:1] == what[:1] and _equated(words[1:]) == _equated(what[1:]) != ""
    return mine.startswith(expected) or _as_written(mine, expected) or ": ".join(words[1:]) == expected or one_equality


def is_implied(message: str, said: str, sizes: Mapping[str, int]) -> bool:
    """Whether a message is of an equality that follows from those of a call of which another one is broken. Where a size that is not yet
    known must equal two dims of arguments, these are compared with each other before it is known which of them is wrong. `said`: the
    message on numbers; `sizes`: the dims of the arguments by name, of which the equation in the message must be false."""
    mine, expected = plain(message).split(": "), plain(said).split(": ")
    of_one_op = mine[0] == expected[0] and "" not in (_equated(mine[1:]), _equated(expected[1:]))
    dims = [sizes.get(name) for name in equation.groups()] if (equation := _UNEQUAL.search(message)) else [None]
    return of_one_op and None not in dims and len(set(dims)) == 2


def _unshaped(message: str) -> str:
    while (shorter := _SHAPE.sub("()", message)) != message:
        message = shorter
    return message


def _equated(words: Sequence[str]) -> str:
    """Returns the dim in `m of x: expected 2, got 3`, an equality that any two tensors with that dim may break; empty for other texts."""
    equality = len(words) > 1 and words[1].startswith("expected ")
    return words[0].partition(" of ")[0] if equality else ""


def _as_written(message: str, said: str) -> bool:
    """Whether messages differ only by expressions in place of numbers, as `view n*m elements` and `view 272 elements` do."""
    pieces, numbers = _NUMBER.split(said), _NUMBER.findall(said)
    match = re.match(_WRITTEN.join(map(re.escape, pieces)) + r"(?!\w)", message)
    return match is not None and all(
        w == n or not _NUMBER.fullmatch(w) for w, n in zip(match.groups(), numbers, strict=True)
    )


# --- everything that a call is refused for


class Telling(Rule):
    """Runs a rule to its end although asserts fail, with the first or the second of two sizes that should be equal. `said`: the message of
    each assert and equality that does not hold."""

    def __init__(self, op: str, second: bool) -> None:
        super().__init__(op)
        self.second = second
        self.said: list[str] = []

    def require(self, cond: Any, message: Callable[[], str]) -> None:
        try:
            super().require(cond, message)
        except ShapeError as e:
            self.said.append(str(e))

    def equal(self, a: Any, b: Any, what: Any) -> Any:
        try:
            return super().equal(a, b, what)
        except ShapeError as e:
            self.said.append(str(e))
            return b if self.second else a


def broken(op: OpDef, inputs: Sequence[Any], params: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Lists the messages of all asserts and equalities of an op's rule that a call on numbers breaks, and whether the rule ran to its end:
    where it did not, later asserts are missing."""
    said, ended = list[str](), True
    for second in (False, True):
        rule = Telling(op.full_name, second)
        try:
            related(untyped(op, *arguments(op, inputs, params)), rule)
        except Exception:  # what a rule computes from sizes that do not fit may fail in any way
            ended = False
        said += [s for s in rule.said if s not in said]
    return said, ended
