"""When two texts tell one refusal, and everything that a call is refused for.

An op is refused on numbers by the static variant's rule, with the first of its asserts that does not hold. A run tells the same in the
name of the variant that it has; of two asserts that a call breaks it may tell the other one, which it could decide earlier, and a check
that is made before sizes are known has them as they are written. This is the one place that says which of that is allowed.
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
"""A number, or what is written in its place."""


def plain(message: str) -> str:
    """Without the variant."""
    return _VARIANT.sub("", message)


def is_of(r: Refusal, message: str) -> bool:
    """Whether this is the assert's text: after the op's name and place, and perhaps before the equation that fails."""
    return re.search(rf"(^|: ){r.message}", message, re.DOTALL) is not None


def is_one(message: str, said: str) -> bool:
    """Whether what a run tells is what is said of numbers, perhaps with the equation that fails behind it."""
    return plain(message).startswith(plain(said))


def is_one_early(message: str, said: str) -> bool:
    """The same of a check that may be made early, or by equations: sizes and shapes as they are written, the sides of an equality in the
    order in which they are known, no name of an op before what equations refuse, and no number where a kernel finds an index out of
    range."""
    if said.startswith("index") and _INDEX.sub("", said) in message:
        return True
    mine, expected = _unshaped(plain(message)), _unshaped(plain(said))
    words, what = mine.split(": "), expected.split(": ")
    one_equality = len(what) > 2 and words[:1] == what[:1] and _equated(words[1:]) == _equated(what[1:]) != ""
    return mine.startswith(expected) or _as_written(mine, expected) or ": ".join(words[1:]) == expected or one_equality


def _unshaped(message: str) -> str:
    while (shorter := _SHAPE.sub("()", message)) != message:
        message = shorter
    return message


def _equated(words: Sequence[str]) -> str:
    """The dim in `m of x: wanted 2, got 3`, which any two of the tensors that have it may tell; empty for what is no such text."""
    equality = len(words) > 1 and words[1].startswith("wanted ")
    return words[0].partition(" of ")[0] if equality else ""


def _as_written(message: str, said: str) -> bool:
    """`view n*m elements` and `view 272 elements`, `n + 1 of n` and `5 of 4`."""
    pieces, numbers = _NUMBER.split(said), _NUMBER.findall(said)
    match = re.match(_WRITTEN.join(map(re.escape, pieces)) + r"(?!\w)", message)
    return match is not None and all(
        w == n or not _NUMBER.fullmatch(w) for w, n in zip(match.groups(), numbers, strict=True)
    )


# --- everything that a call is refused for


class Telling(Rule):
    """A run of a rule that goes on behind what is refused, with the first or the second of two sizes that should be equal. `said`: the
    text of each assert and equality that does not hold."""

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
    """What each assert and equality of an op's rule says that a call on numbers breaks, and whether the rule came to its end: what stands
    behind one without which it has no meaning is not among them."""
    said, ended = list[str](), True
    for second in (False, True):
        rule = Telling(op.full_name, second)
        try:
            related(untyped(op, *arguments(op, inputs, params)), rule)
        except Exception:  # what a rule computes from sizes that do not fit may fail in any way
            ended = False
        said += [s for s in rule.said if s not in said]
    return said, ended
