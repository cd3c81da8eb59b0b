"""`Shapes`: what is known of the shapes of a model, and the questions that it answers.

Dims of all types and conditions here are symbols by the names that `Shapes.dims` and `Shapes.data` list, so that texts, types and answers
speak of the same sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from operator import attrgetter
from typing import Any

from anyshape.dims import Cond, Dim, Size, bounds, eq, free_symbols, le, not_, parse_dim, substitute
from anyshape.dtypes import CHAR
from anyshape.errors import ArgumentError, ParseError
from anyshape.frontends.symbolic_shapes.search import UP_TO, Outcome, SearchResult, least, solve
from anyshape.outline import outline
from anyshape.public import public, short
from anyshape.types import ListType, TensorType
from anyshape.wording import counted

ONLY_OUTPUT = "output"
"""What questions may call the output of a model that has one"""


@dataclass(frozen=True)
class NamedType:
    """The type of a value. `type` is None if nothing is known of it; `elements` has those of a small integer tensor, such as a shape that
    the model computes, None if they are not known; `is_constant` says that all elements are the same in every run."""

    name: str
    type: TensorType | None
    elements: tuple[Any, ...] | None = None
    is_constant: bool = False

    def __str__(self) -> str:
        if self.type is None:
            return "?"
        text = str(self.type)
        if self.type.dtype is CHAR and not isinstance(self.type, ListType):
            text = f"string{text.removeprefix(CHAR.name)}"
        small = self.elements is not None and any(isinstance(e, Dim) for e in self.elements)
        return f"{text} = {spelled_elements(self)}" if small else text


def spelled_elements(t: NamedType) -> str:
    """The elements of a value, as a list or, of a scalar, as one expression."""
    assert t.type is not None and t.elements is not None
    return str(t.elements[0]) if t.type.rank == 0 else f"[{', '.join(map(str, t.elements))}]"


@dataclass(frozen=True)
class NamedDim:
    """A size that callers choose: a dim of inputs, or an element of one. `places` are where nothing else stands: `x[0]`."""

    symbol: Dim
    places: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.symbol.name

    @property
    def least(self) -> int | None:
        """The least number that the variable may be; None for an element, which may be any."""
        return bounds(self.symbol)[0]

    @property
    def most(self) -> int | None:
        return bounds(self.symbol)[1]


@dataclass(frozen=True)
class DataSize:
    """A size or element that data decides, such as how many elements are not 0; `cause` says which node does, and by what."""

    symbol: Dim
    cause: str

    @property
    def name(self) -> str:
        return self.symbol.name


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What must hold for a node to accept its operands. `message` is what the error of a run says, with expressions for sizes; `is_inside`
    says that the node is within a branch or the body of a loop, which need not run."""

    cond: Cond
    node: str
    op: str
    message: str
    is_inside: bool = False

    @property
    def text(self) -> str:
        """The condition as it reads in Python."""
        return str(self.cond)

    def __str__(self) -> str:
        return f"{self.cond}    # {self.node or self.op}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The answer to an inverse question.

    `dims` says what the question determines, in numbers or in terms of other dims; `conditions` what must hold of those others. `smallest`
    are the sizes of the least sum, and `inputs` the shapes of the inputs then; dims of which nothing is asked are 1 there. `data` are sizes
    that the data would have to give. All are empty where `outcome` is not SOLVED; `searched` says what was looked at.
    """

    question: str
    outcome: Outcome
    dims: Mapping[str, Size]
    conditions: tuple[str, ...]
    smallest: Mapping[str, int]
    data: Mapping[str, int]
    inputs: Mapping[str, tuple[int, ...] | None]
    searched: str

    def __bool__(self) -> bool:
        return self.outcome is Outcome.SOLVED

    def __str__(self) -> str:
        if not self:
            verdict = "no sizes" if self.outcome is Outcome.IMPOSSIBLE else "none found"
            return f"{self.question}: {verdict} ({self.searched})"
        general = [f"{name} = {value}" for name, value in self.dims.items()] + list(self.conditions)
        lines = [f"{self.question}:" + (f" {', '.join(general)}" if general else " any sizes")]
        shapes = [
            f"{n}: {'any rank' if s is None else 'x'.join(map(str, s)) or 'scalar'}" for n, s in self.inputs.items()
        ]
        lines.append(f"  smallest: {', '.join(f'{n} = {v}' for n, v in self.smallest.items()) or 'nothing to choose'}")
        lines.append(f"  inputs:   {', '.join(shapes)}")
        if self.data:
            lines.append(f"  if data gives {', '.join(f'{n} = {v}' for n, v in self.data.items())}")
        lines.append(f"  ({self.searched})")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """The symbolic shapes of a model. `print(shapes)` shows them, and how to ask.

    `values` has the type of each value that the outputs need, by its name in the file, of the main graph. `bodies` has those of the values
    inside of bodies of If, Loop and Scan, by the place of the body, as `Loop 'l' body`: they hold in every run of it. `dims` are the sizes
    that callers choose, `data` those that data decides, `body_sizes` those inside of bodies, which may be other numbers in each run of the
    body, all by name. `conditions` are what sizes must satisfy for the model to run, in the order in which a run tests them, each worded as
    if those before it hold. `unsupported` says which node gives a value that is not supported: only what ONNX's own inference says is known
    of it.
    """

    name: str
    values: Mapping[str, NamedType]
    bodies: Mapping[str, Mapping[str, NamedType]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dims: Mapping[str, NamedDim]
    data: Mapping[str, DataSize]
    body_sizes: Mapping[str, DataSize]
    conditions: tuple[Condition, ...]
    limits: Mapping[Dim, Size]
    """upper bounds of sizes that data decides"""
    unsupported: Mapping[str, str]

    @public
    def solve(
        self, shapes: Mapping[str, Sequence[Any]] | None = None, *, up_to: int = UP_TO, **named: Sequence[Any]
    ) -> Sizes:
        """Solves for the sizes of inputs with which values have the wanted shapes: `solve(logits=(1, 512))`, or `solve({"a/b": (1, None,
        "2*n")})` for names that are none in Python; each dim is a number, None for any, or an expression of `dims`. `output` is the output
        of a model that has only one.

        Equations are solved exactly; what is not linear is searched, numbers up to `up_to` for each dim. Raises ArgumentError for a name or
        a rank that the model does not have.
        """
        asked = {**(shapes or {}), **named}
        if up_to < 0:
            raise ArgumentError(f"Shapes.solve: up_to must be a number that is not negative, got {up_to}")
        if not asked:
            raise ArgumentError(
                "Shapes.solve: it takes the shape of at least one value, such as solve(output=(1, 512))"
            )
        equations = [e for name, shape in asked.items() for e in self._equations(name, shape)]
        required = [c.cond for c in self.conditions if not c.is_inside]
        question = ", ".join(
            f"{name} = [{', '.join('?' if n is None else str(n) for n in s)}]" for name, s in asked.items()
        )
        return self._sizes(question, self._solve([*equations, *required], up_to), up_to)

    @public
    def smallest_failure(self, condition: Condition | int, *, up_to: int = UP_TO) -> Sizes:
        """Finds the smallest sizes for which this is the condition that fails: it does not hold, and those before it do. `condition` is one
        of `conditions`, or its number."""
        at = self._number(condition)
        failing = self.conditions[at]
        before = [c.cond for c in self.conditions[:at] if not c.is_inside]
        return self._sizes(f"{failing.text} fails", self._solve([*before, not_(failing.cond)], up_to), up_to)

    def _solve(self, conditions: Sequence[bool | Cond], up_to: int) -> SearchResult:
        """Solves the conditions, and those on sizes in them that data decides; the latter are no part of the answer."""
        mentioned = {s for c in conditions for s in free_symbols(c)}
        limits = [le(s, self.limits[s]) for s in sorted(mentioned & self.limits.keys(), key=attrgetter("name"))]
        answer = solve([*conditions, *limits], up_to)
        return replace(answer, rest=tuple(c for c in answer.rest if c not in limits))

    def _number(self, condition: Condition | int) -> int:
        if isinstance(condition, int) and 0 <= condition < len(self.conditions):
            return condition
        if isinstance(condition, Condition) and condition in self.conditions:
            return self.conditions.index(condition)
        raise ArgumentError(
            f"Shapes.smallest_failure: the model has {counted(len(self.conditions), 'condition')}, numbered from 0, got {short(condition)}"
        )

    def _equations(self, name: str, asked: Sequence[Any]) -> list[bool | Cond]:
        shape = self._shape(name)
        if isinstance(asked, str) or len(asked) != len(shape):
            raise ArgumentError(
                f"Shapes.solve: {name} is {self.values[self._value(name)]}, of {counted(len(shape), 'dim')}, got {short(asked)}"
            )
        return [eq(n, self._size(name, size)) for n, size in zip(shape, asked) if size is not None]

    def _value(self, name: str) -> str:
        """The name of a value that is asked for; `output` is the only output."""
        if name in self.values:
            return name
        if name == ONLY_OUTPUT and len(self.outputs) == 1:
            return self.outputs[0]
        near = get_close_matches(name, self.values, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the outputs are {', '.join(self.outputs)}"
        raise ArgumentError(f"Shapes.solve: {self.name} has no value {name!r}; {hint}")

    def _shape(self, name: str) -> tuple[Size, ...]:
        t = self.values[self._value(name)].type
        if t is None or t.shape is None or isinstance(t, ListType):
            raise ArgumentError(f"Shapes.solve: {name} is {self.values[self._value(name)]}, whose dims are not known")
        return t.shape

    def _size(self, name: str, asked: Any) -> Size:
        if isinstance(asked, int) and not isinstance(asked, bool) and 0 <= asked < 1 << 63:
            return asked
        if isinstance(asked, str):
            try:
                return parse_dim(asked, {n: d.symbol for n, d in self.dims.items()})
            except ParseError as e:
                raise ArgumentError(f"Shapes.solve: a dim of {name}: {e}") from None
        raise ArgumentError(
            f"Shapes.solve: a dim of {name} must be a size, None or an expression of dims such as '2*n', got {short(asked)}"
        )

    def _sizes(self, question: str, answer: SearchResult, up_to: int) -> Sizes:
        solved = answer.outcome is Outcome.SOLVED
        numbers = {s.name: n for s, n in answer.smallest.items()}
        entry = {name: d.symbol for name, d in self.dims.items()}
        return Sizes(
            question=question,
            outcome=answer.outcome,
            dims={s.name: v for s, v in sorted(answer.values.items(), key=lambda p: p[0].name)} if solved else {},
            conditions=tuple(map(str, answer.rest)) if solved else (),
            smallest={name: numbers[name] for name in entry if name in numbers},
            data={name: n for name, n in numbers.items() if name not in entry},
            inputs={name: self._at(name, answer.smallest) for name in self.inputs} if solved else {},
            searched=_searched(answer, up_to),
        )

    def _at(self, name: str, numbers: Mapping[Dim, int]) -> tuple[int, ...] | None:
        """The shape of an input at these numbers; None if its rank is not known."""
        t = self.values[name].type
        if t is None or t.shape is None or isinstance(t, ListType):
            return None
        free = {s: least(s) for n in t.shape for s in free_symbols(n)}
        shape = [substitute(n, {**free, **numbers}) for n in t.shape]
        return tuple(n for n in shape if isinstance(n, int))

    def __str__(self) -> str:
        from anyshape.frontends.symbolic_shapes.text import text

        return text(self)

    def _repr_html_(self) -> str:
        return outline(str(self))

    def __repr__(self) -> str:
        return (
            f"<Shapes of {self.name}: {counted(len(self.values), 'value')} over {', '.join(self.dims) or 'no dims'}, "
            f"{counted(len(self.conditions), 'condition')}; print it>"
        )


def _searched(answer: SearchResult, up_to: int) -> str:
    """Says how far an answer reaches."""
    if answer.outcome is Outcome.IMPOSSIBLE:
        return "proved for all sizes"
    if answer.gave_up:
        return f"not proved: the search ended after {answer.tried} choices, the smallest sums first"
    if answer.outcome is Outcome.NONE_FOUND:
        return f"not proved: none with dims up to {up_to}, of which {answer.tried} choices were tried"
    if not answer.tried:
        return "solved by algebra"
    return f"the least sum with dims up to {up_to}, after {counted(answer.tried, 'choice')}"
