"""The state of an op while its expressions are evaluated to terms.

In: a context for facts, the op's functions, and the values of its names and reads. Out: `State`, an argument of the functions that
evaluate expressions (`evaluate`, `functions`, `learn`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from anyshape_gen.bounds.context import Context
from anyshape_gen.bounds.terms import Run, Truth
from anyshape_gen.model.nodes import Function, TensorRead

Env = Mapping[str, Any]
DEEPEST = 100
"""the greatest depth of expressions, each of which takes some of Python's stack"""


class Names(Protocol):
    """The values of the names of an op."""

    def name(self, name: str) -> Any: ...

    def shape_of(self, name: str, element: Any) -> Run: ...

    def present(self, name: str) -> Truth:
        """Whether an optional input is present."""
        ...


@dataclass
class State:
    """The state of one op."""

    context: Context
    functions: Mapping[str, Function]
    names: Names
    read: Callable[[TensorRead, Env], Any]
    """the value of an element of a tensor"""
    busy: bool = True
    """whether the rule is still being evaluated, so that its names may have no values yet"""
    eager: bool = False
    """whether every call evaluates the current expression, without any condition, before a kernel runs"""
    depth: int = 0

    @contextmanager
    def evaluated(self, eager: bool) -> Iterator[None]:
        outer, self.eager = self.eager, eager
        try:
            yield
        finally:
            self.eager = outer
