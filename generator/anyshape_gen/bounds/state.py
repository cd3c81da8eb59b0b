"""What the terms of one op are made with.

In: a context for facts, the op's functions, and what its names and reads stand for. Out: `State`, which the functions that make terms of
expressions are given (`evaluate`, `functions`, `learn`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from anyshape_gen.bounds.context import Context
from anyshape_gen.bounds.terms import NotModelled, Run, Truth
from anyshape_gen.nodes import Function, TensorRead

Env = Mapping[str, Any]
DEEPEST = 100
"""expressions that are evaluated within one another: each takes some of Python's stack"""


class Names(Protocol):
    """What the names of an op stand for."""

    def name(self, name: str) -> Any: ...

    def shape_of(self, name: str, element: Any) -> Run: ...

    def present(self, name: str) -> Truth:
        """Whether an optional input is given."""
        ...


@dataclass
class State:
    """One op, while terms are made of its expressions."""

    context: Context
    functions: Mapping[str, Function]
    names: Names
    read: Callable[[TensorRead, Env], Any]
    """the value of an element of a tensor"""
    busy: bool = True
    """while the rule is read, its names have no values of their own yet"""
    eager: bool = False
    """whether what is evaluated now has been evaluated, unconditionally, before any kernel runs"""
    depth: int = 0

    @contextmanager
    def evaluated(self, eager: bool) -> Iterator[None]:
        outer, self.eager = self.eager, eager
        try:
            yield
        finally:
            self.eager = outer

    @contextmanager
    def deeper(self) -> Iterator[None]:
        if self.depth >= DEEPEST:
            raise NotModelled(f"it is made of more than {DEEPEST} expressions within one another")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
