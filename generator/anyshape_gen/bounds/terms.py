"""Terms, the values of expressions for all shapes: integers as dims, conditions, and vectors of any length.

In: nothing. Out: `Run`, a vector that computes the term at any position, so that a proof at one position is valid for all
ranks; `Opaque`, a value that is not modelled; and functions of the language on them. An item of a vector is computed when its
position is read, never all items at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.dims.interning import NestedTooDeep

Truth: TypeAlias = "bool | Cond"
MOST_ASKED = 100
"""the greatest depth of items that are computed from others, each of which takes some of Python's stack"""


class NotModelled(Exception):
    """Raised for an expression that the prover has no terms for: all indices it is part of are unknown. Any other exception is a bug."""


NO_TERMS = (NotModelled, NestedTooDeep)
"""Exceptions for expressions without terms: that of the prover, and that of the arithmetic of dims."""


@dataclass(frozen=True)
class Opaque:
    """A float, a string, a dtype, or something whose meaning is not modelled; equal keys are equal values."""

    key: tuple[object, ...]


@dataclass(frozen=True)
class Member:
    """A parameter of an enumeration: the number of its member."""

    number: Size
    members: tuple[str, ...]


@dataclass(eq=False)
class Run:
    """A vector. `axes`: its items are positions that differ from each other."""

    length: Size
    item: Callable[[Size], Any]
    name: str = ""
    axes: bool = False
    known: dict[Size, Any] = field(default_factory=dict)
    variable: bool = False
    """a run of index variables"""
    nonnegative: bool = False
    """whether all items are at least 0, as sizes are"""

    asked: ClassVar[int] = 0
    """the depth of items that are being computed: facts that hold only for items inside a vector may not be assumed then"""

    def at(self, position: Size) -> Any:
        if position not in self.known:
            if Run.asked >= MOST_ASKED:
                raise NotModelled(f"it is a chain of more than {MOST_ASKED} vectors, each computed from the one before")
            Run.asked += 1
            try:
                self.known[position] = self.item(position)
            finally:
                Run.asked -= 1
        return self.known[position]


@dataclass(frozen=True)
class Literal:
    """A literal p >= 0 or p == 0. It is no condition of `dims`, which decides the literals that define an atom."""

    p: Size
    zero: bool = False

    @property
    def truth(self) -> Truth:
        return dims.eq(self.p, 0) if self.zero else dims.ge(self.p, 0)


@dataclass(frozen=True)
class Claim:
    """A claim for a second solver to judge: one of the literals holds wherever all facts do, and of each clause one literal."""

    literals: tuple[Literal, ...]
    facts: tuple[Truth, ...]
    clauses: tuple[tuple[Literal, ...], ...] = ()


Value: TypeAlias = "Size | Cond | bool | Run | Opaque | Member | str | float | None"


def is_int(v: object) -> bool:
    return isinstance(v, Dim) or (isinstance(v, int) and not isinstance(v, bool))


def integer_of(v: Any, what: str) -> Size:
    """Returns the value as an integer; raises NotModelled where it is none."""
    if not is_int(v):
        raise NotModelled(f"{what} is no integer")
    known: Size = v
    return known


def is_truth(v: object) -> bool:
    return isinstance(v, (bool, Cond))


def key_of(v: object) -> object:
    """Returns a key that is equal for equal values; runs are compared by identity."""
    if isinstance(v, (Run, Dim, Cond)):
        return id(v)
    return (type(v).__name__, v)


def choose(c: Truth, yes: Any, no: Any) -> Any:
    """Returns `yes` where c holds, else `no`."""
    if isinstance(c, bool):
        return yes if c else no
    if yes is no:
        return yes
    if is_int(yes) and is_int(no):
        return dims.select(c, yes, no)
    if is_truth(yes) and is_truth(no):
        return dims.or_(dims.and_(c, yes), dims.and_(dims.not_(c), no))
    if isinstance(yes, Run) and isinstance(no, Run):
        length = dims.select(c, yes.length, no.length)
        return Run(
            length,
            lambda p: choose(c, yes.at(p), no.at(p)),
            axes=yes.axes and no.axes,
            nonnegative=yes.nonnegative and no.nonnegative,
        )
    if yes is None or no is None:
        return no if yes is None else yes
    if yes == no:
        return yes
    return Opaque(("choose", id(c), key_of(yes), key_of(no)))


def concat(pieces: Sequence[Any]) -> Run:
    """Concatenates runs and scalars."""
    if len(pieces) == 1 and isinstance(pieces[0], Run):
        return pieces[0]
    total: Size = 0
    starts: list[Size] = []
    for piece in pieces:
        starts.append(total)
        total = total + (piece.length if isinstance(piece, Run) else 1)

    def item(p: Size) -> Any:
        value: Any = 0
        for k in range(len(pieces) - 1, -1, -1):
            piece = pieces[k]
            own = piece.at(p - starts[k]) if isinstance(piece, Run) else piece
            if k == len(pieces) - 1:
                value = own
                continue
            end = starts[k + 1]
            inside = dims.lt(p, end)
            value = choose(inside, own, value)
        return value

    nonnegative = all(_nonnegative(piece) for piece in pieces)
    return Run(total, item, nonnegative=nonnegative, axes=nonnegative and total in (0, 1))


def _nonnegative(v: Any) -> bool:
    if isinstance(v, Run):
        return v.nonnegative
    return is_int(v) and dims.ge(v, 0) is True


def spread(f: Callable[..., Any], *args: Any) -> Any:
    """Applies f, elementwise where an argument is a vector; the result is as long as the shortest vector."""
    runs = [a for a in args if isinstance(a, Run)]
    if not runs:
        return f(*args)
    length = runs[0].length
    for other in runs[1:]:
        if other.length is not length:
            length = dims.minimum(length, other.length)
    return Run(length, lambda p: f(*(a.at(p) if isinstance(a, Run) else a for a in args)))


def part(run: Run, low: Any, high: Any) -> Run:
    """Returns run[low:high], with Python's meaning."""
    n = run.length
    start: Size = 0 if low is None else _end(low, n)
    stop: Size = n if high is None else _end(high, n)
    if isinstance(start, int) and start == 0:
        return Run(dims.maximum(stop, 0), run.at, nonnegative=run.nonnegative)
    return Run(dims.maximum(stop - start, 0), lambda p: run.at(p + start), nonnegative=run.nonnegative)


def _end(e: Size, n: Size) -> Size:
    if isinstance(e, int):
        return dims.maximum(n + e, 0) if e < 0 else dims.minimum(e, n)
    return dims.clamp(dims.select(dims.lt(e, 0), e + n, e), 0, n)


def counted(e: Size, n: Size) -> Size:
    """Returns a position as Python counts it: a negative one from the end."""
    return dims.select(dims.lt(e, 0), e + n, e)


def trunc_div(a: Size, b: Size) -> Size | None:
    """Returns the quotient rounded towards zero, where that is the floor; else None."""
    return dims.floordiv(a, b) if dims.ge(a, 0) is True and dims.gt(b, 0) is True else None
