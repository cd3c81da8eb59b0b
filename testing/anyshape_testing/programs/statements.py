"""Represents random programs as statements over numbered values, which are evaluated on arrays and built as a graph on symbols.

Parameters that the dyn variant of an op takes as operands are inputs of the program, or computed from dims of values, so that nothing is
known of them before a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Ref = int
"""The number of a value"""


@dataclass(frozen=True)
class Piece:
    """An integer: a number, or a dim of a value plus a number."""

    number: int
    of: Ref | None = None
    axis: int = 0

    def __str__(self) -> str:
        if self.of is None:
            return str(self.number)
        return f"dim(v{self.of}, {self.axis}){f' + {self.number}' if self.number else ''}"


@dataclass(frozen=True)
class Operand:
    """A parameter given as an operand: an input of the program, or computed from its pieces."""

    name: str
    source: Ref | tuple[Piece, ...]
    scalar: bool

    def __str__(self) -> str:
        if isinstance(self.source, int):
            return f"{self.name}=v{self.source}"
        return f"{self.name}=[{', '.join(map(str, self.source))}]"


@dataclass(frozen=True)
class Call:
    """A call of an op, of its dyn variant if it has operands. `params` are attributes of the call."""

    op: str
    inputs: tuple[Ref | tuple[Ref, ...] | None, ...]
    params: Mapping[str, Any]
    operands: tuple[Operand, ...]
    outputs: tuple[Ref, ...]

    def __str__(self) -> str:
        shown = [*map(_shown, self.inputs), *(f"{k}={v}" for k, v in self.params.items() if v is not None)]
        return f"{_listed(self.outputs)} = {self.op}({', '.join([*shown, *map(str, self.operands)])})"


@dataclass(frozen=True)
class Longer:
    """A condition: whether a dim of a value is greater than a number."""

    of: Ref
    axis: int
    limit: int

    def __str__(self) -> str:
        return f"dim(v{self.of}, {self.axis}) > {self.limit}"


@dataclass(frozen=True)
class Block:
    statements: tuple[Statement, ...]
    result: Ref

    def __str__(self) -> str:
        return "{ " + "; ".join([*map(str, self.statements), f"v{self.result}"]) + " }"


@dataclass(frozen=True)
class If:
    """A branch; `cond` is a bool scalar, or a condition on a dim."""

    cond: Ref | Longer
    then: Block
    other: Block
    output: Ref

    def __str__(self) -> str:
        return f"v{self.output} = if {_shown(self.cond)} {self.then} else {self.other}"


@dataclass(frozen=True)
class Loop:
    """A loop of `trip` iterations with one carried value, `inside`; `stacked`: the carried values of all iterations, stacked."""

    trip: Ref
    initial: Ref
    inside: Ref
    body: Block
    output: Ref
    stacked: Ref | None

    def __str__(self) -> str:
        return f"{_listed(results_of(self))} = loop v{self.trip} times, v{self.inside} from v{self.initial} {self.body}"


Statement = Call | If | Loop


@dataclass
class Program:
    """A program: `params` by name, statements, and the values that are results."""

    params: dict[str, Ref] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    results: tuple[Ref, ...] = ()

    def __str__(self) -> str:
        lines = [f"inputs {', '.join(f'{name}=v{ref}' for name, ref in self.params.items())}"]
        return "\n".join([*lines, *map(str, self.statements), f"results {_listed(self.results)}"])


def _shown(x: Any) -> str:
    return f"v{x}" if isinstance(x, int) else f"[{_listed(x)}]" if isinstance(x, tuple) else str(x)


def _listed(refs: tuple[Ref, ...]) -> str:
    return ", ".join(f"v{r}" for r in refs)


def results_of(s: Statement) -> tuple[Ref, ...]:
    if isinstance(s, Call):
        return s.outputs
    if isinstance(s, If):
        return (s.output,)
    return (s.output,) if s.stacked is None else (s.output, s.stacked)


def blocks_of(s: Statement) -> tuple[Block, ...]:
    return () if isinstance(s, Call) else (s.then, s.other) if isinstance(s, If) else (s.body,)


def needs_of(s: Statement) -> Iterator[Ref]:
    """Yields the values that a statement reads, with those that its blocks read."""
    if isinstance(s, Call):
        for i in s.inputs:
            yield from i if isinstance(i, tuple) else () if i is None else (i,)
        for o in s.operands:
            yield from ((o.source,) if isinstance(o.source, int) else (p.of for p in o.source if p.of is not None))
        return
    if isinstance(s, If):
        yield s.cond.of if isinstance(s.cond, Longer) else s.cond
    else:
        yield from (s.trip, s.initial)
    yield from _needs_inside(s)


def _needs_inside(s: Statement) -> Iterator[Ref]:
    for b in blocks_of(s):
        yield b.result
        for inner in b.statements:
            yield from needs_of(inner)


def every(statements: tuple[Statement, ...] | list[Statement]) -> Iterator[Statement]:
    """Yields all statements, with those in blocks."""
    for s in statements:
        yield s
        for b in blocks_of(s):
            yield from every(b.statements)


def live(p: Program, results: tuple[Ref, ...]) -> Program:
    """Returns the part of a program that these results need."""
    needed = set(results)
    kept: list[Statement] = []
    for s in reversed(p.statements):
        if needed & set(results_of(s)):
            kept.append(s)
            needed |= set(needs_of(s))
    return Program({n: r for n, r in p.params.items() if r in needed}, kept[::-1], results)


def settled(p: Program, size: Callable[[Ref, int], object]) -> Program:
    """Replaces dims in operands of calls by numbers, where `size` of a value and an axis is a number."""
    return replace(p, statements=[_settled(s, size) if isinstance(s, Call) else s for s in p.statements])


def _settled(s: Call, size: Callable[[Ref, int], object]) -> Call:
    return replace(
        s,
        operands=tuple(
            o if isinstance(o.source, int) else replace(o, source=tuple(_number(p, size) for p in o.source))
            for o in s.operands
        ),
    )


def _number(p: Piece, size: Callable[[Ref, int], object]) -> Piece:
    n = None if p.of is None else size(p.of, p.axis)
    return Piece(n + p.number) if isinstance(n, int) else p


def elements_read(p: Program) -> set[Ref]:
    """Returns the values whose elements the results depend on. Of other values only dims are needed, and nothing has to compute them."""
    elements, sizes = set(p.results), set[Ref]()
    for s in reversed(p.statements):
        results = set(results_of(s))
        if not (elements | sizes) & results:
            continue
        if isinstance(s, If) and isinstance(s.cond, Longer):
            sizes.add(s.cond.of)
            elements |= set(_needs_inside(s))
            continue
        if not isinstance(s, Call):
            elements |= set(needs_of(s))
            continue
        inputs = {r for i in s.inputs if i is not None for r in (i if isinstance(i, tuple) else (i,))}
        sizes |= inputs | {
            p.of for o in s.operands if not isinstance(o.source, int) for p in o.source if p.of is not None
        }
        elements |= {o.source for o in s.operands if isinstance(o.source, int)} | (
            inputs if elements & results else set()
        )
    return elements
