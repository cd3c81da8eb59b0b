"""What a run of a shape rule requires: conditions on integers or dims, decided now or left as checks, and the branches they stand in.

In: conditions and what to say where they do not hold. Out: `checks`, what has to be tested at run time. What is definitely false raises
ShapeError naming the op; what is definitely true leaves no trace; what is undecided becomes a Check that is weakened by the conditions it
stands under, and from then on counts as known (`facts`). A branch that cannot be taken without failing is dropped: `where` then gives the
other branch, and the check says that the condition must go that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from anyshape import dims
from anyshape.dims import Cond, Dim, Facts, Size, template
from anyshape.errors import ShapeError
from anyshape.rules.vec import Truth, Undetermined, Vec, is_vector, truth

Message = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Check:
    """A condition left to run time. `parts` is the message: text, and the expressions whose values belong between."""

    cond: Cond
    parts: tuple[str | Dim | Cond, ...]
    op: str
    where: str = ""

    @property
    def message(self) -> str:
        """The message with expressions as they are written."""
        return "".join(map(str, self.parts))

    def format(self, values: Mapping[Dim, int]) -> str:
        """The whole error text, with the values of a run put in."""
        words = [p if isinstance(p, str) else dims.value_text(p, values) for p in self.parts]
        return located(self.op, self.where, "".join(words))

    def spelled(self, cond: Truth) -> str:
        """The condition, in the words that are given, and the message."""
        return f"{cond}  # {located(self.op, self.where, self.message)}"

    def __str__(self) -> str:
        return self.spelled(self.cond)


def located(op: str, where: str, message: str) -> str:
    return f"{op} ({where}): {message}" if where else f"{op}: {message}"


class Bound:
    """A signature with everything in it known: `outputs`, a dict of Vec, and every name of the rule as an attribute; `upper_bounds` of
    data-dependent sizes."""

    def __init__(self, outputs: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        self.outputs: dict[str, Any] = dict(outputs)
        self.upper_bounds: Mapping[Dim, Size] = {}
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the rule binds no name {name!r}; it binds {', '.join(self.__dict__)}")

    def __repr__(self) -> str:
        return f"Bound({', '.join(f'{k}={v}' for k, v in self.__dict__.items())})"


class Impossible(Exception):
    """Inside a branch under an undecided condition: taking it must fail, and a check says so."""


class Checking:
    """One run. `assume` are conditions that hold for it, such as entry dims being at least 1."""

    def __init__(self, op: str, where: str = "", facts: Facts | None = None, assume: Iterable[Truth] = ()) -> None:
        self.op, self.place = op, where
        self.facts = Facts() if facts is None else facts
        self.checks: list[Check] = []
        self._branches: list[tuple[Truth, Facts]] = []  # the conditions around, each with the facts outside of it
        for c in assume:
            self.facts.learn(c)

    # --- checks

    def fail(self, message: str) -> NoReturn:
        raise ShapeError(located(self.op, self.place, message))

    def require(self, cond: Any, message: Message) -> None:
        """An assert: nothing if it holds, an error if it cannot, else a check."""
        if cond is True:
            return
        cond = self.facts.decide(truth(cond))
        if cond is True:
            return
        if cond is False:
            if not self._branches:
                self.fail(message())
            self._add(False, message)
            raise Impossible
        self._add(cond, message)

    def _add(self, cond: Truth, message: Message) -> None:
        weakened = cond
        if cond.__class__ is Cond:
            self.facts.learn(cond)
        for outer, facts in reversed(self._branches):
            weakened = dims.or_(dims.not_(outer), weakened)
            facts.learn(weakened)
        if weakened.__class__ is Cond:
            self.checks.append(Check(weakened, template(message), self.op, self.place))
        elif not weakened:
            self.fail(message())

    @contextmanager
    def _under(self, c: Truth) -> Any:
        outer = self.facts
        self._branches.append((c, outer))
        self.facts = outer.under(c)
        try:
            yield
        finally:
            self._branches.pop()
            self.facts = outer

    def equal(self, a: Any, b: Any, what: str | Message) -> Any:
        """An equality of the signature: the better known side."""
        if a.__class__ is int and b.__class__ is int:
            if a != b:
                if not self._branches:
                    self.fail(f"{_said(what)}: expected {a}, got {b}")
                self.require(False, lambda: f"{_said(what)}: expected {a}, got {b}")
            return a
        if is_vector(a) or is_vector(b):
            return self._equal_vectors(a, b, what)
        if a is b:
            return a
        self.require(dims.eq(a, b), lambda: f"{_said(what)}: expected {a}, got {b}")
        return b if b.__class__ is int else self.facts.canonical(a)

    def _equal_vectors(self, a: Any, b: Any, what: str | Message) -> Vec:
        if not is_vector(a) or not is_vector(b) or len(a) != len(b):
            self.require(False, lambda: f"{_said(what)}: expected {shown(a)}, got {shown(b)}")
        return Vec(self.equal(x, y, partial(_item_of, what, k)) for k, (x, y) in enumerate(zip(a, b)))

    # --- conditions

    def where(self, c: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """a() where c holds, else b(); both, under their conditions, where c is undecided."""
        if c.__class__ is not bool:
            c = self.facts.decide(truth(c))
        if c.__class__ is bool:
            return a() if c else b()
        then = otherwise = Impossible
        try:
            with self._under(c):
                then = a()
        except Impossible:
            pass
        try:
            with self._under(dims.not_(c)):
                otherwise = b()
        except Impossible:
            if then is Impossible:
                if self._branches:
                    raise
                self.fail(f"neither side of {c} is possible: " + "; ".join(k.message for k in self.checks[-2:]))
            return then
        return otherwise if then is Impossible else join(c, then, otherwise)

    def and_(self, a: Any, b: Callable[[], Any]) -> Truth:
        a = self.facts.decide(truth(a))
        if a.__class__ is bool:
            return truth(b()) if a else False
        try:
            with self._under(a):
                right = self.facts.decide(truth(b()))
        except Impossible:
            return False
        return dims.and_(a, right)

    def or_(self, a: Any, b: Callable[[], Any]) -> Truth:
        a = self.facts.decide(truth(a))
        if a.__class__ is bool:
            return True if a else truth(b())
        try:
            with self._under(dims.not_(a)):
                right = self.facts.decide(truth(b()))
        except Impossible:
            return True
        return dims.or_(a, right)

    def decide(self, c: Any) -> Truth:
        """A condition as far as the facts settle it."""
        return self.facts.decide(truth(c))


def join(c: Truth, a: Any, b: Any) -> Any:
    """Joins the values of two branches: select for sizes, logic for conditions, item by item for vectors of equal length."""
    if c.__class__ is bool:
        return a if c else b
    if is_vector(a) and is_vector(b):
        if len(a) != len(b):
            raise Undetermined("", f"whether {c} holds is not known, and the length of a vector depends on it")
        return Vec(join(c, x, y) for x, y in zip(a, b))
    if isinstance(a, Cond | bool) and isinstance(b, Cond | bool):
        return dims.or_(dims.and_(c, a), dims.and_(dims.not_(c), b))
    if isinstance(a, int | Dim) and isinstance(b, int | Dim):
        return dims.select(c, a, b)
    if a is b or (type(a) is type(b) and a == b):
        return a
    raise Undetermined("", f"whether {c} holds is not known, and it chooses between {a} and {b}")


def _said(what: str | Message) -> str:
    return what if isinstance(what, str) else what()


def _item_of(what: str | Message, k: int) -> str:
    return f"{_said(what)}, item {k}"


def shown(v: Any) -> str:
    return str(Vec(v)) if is_vector(v) else str(v)
