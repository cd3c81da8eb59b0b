"""Nodes of bodies of ops: the equations of a kernel, the steps of a procedure or of a composition. All are frozen and have a span.

Their expressions are those of `nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, Union

from anyshape_gen.model.nodes import Assert, Comprehension, Expr, Generator, Item, Node, Over, Part, Target

# --- kernels ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Store(Node):
    """The left side of an equation: `t[i, *j]`, `ys[v][…]`, or a bare name for a data-dependent size (`items` is None)."""

    tensor: str
    element: Expr | None
    items: tuple[Item, ...] | None
    parts: tuple[Part, ...] = field(default=(), compare=False, repr=False)
    """the index of a step matched to the tensor's pieces, like that of a read"""


@dataclass(frozen=True)
class Equation(Node):
    """An equation `target op value`, which applies where all of its static `conditions` hold."""

    target: Store
    op: str
    """`= += -= *= max min`"""
    value: Expr
    annotation: Annotation | None = None
    conditions: tuple[Expr, ...] = ()
    generators: tuple[Generator, ...] = ()
    """the variables of an update `t[e] += (value for … if …)` that have an extent of their own"""
    filters: tuple[Expr, ...] = ()
    """the conditions of an update with generators: where one does not hold, it is not made"""

    @property
    def right(self) -> Expr:
        """All that stands on the right side: the value, under its generators and filters if it has some."""
        return iterated(self.value, self.generators, self.filters)


def iterated(value: Expr, generators: tuple[Generator, ...], filters: tuple[Expr, ...]) -> Expr:
    """Returns an expression with the names, reads and variables of `(value for … if …)`; the value itself without generators."""
    return Comprehension(value, generators, filters, span=value.span) if generators else value


@dataclass(frozen=True)
class Annotation(Node):
    """An annotation of a scratch tensor with its dtype and extents: `t[*i, j]: F[*broadcast(p, q), m]`."""

    dtype: str
    extents: tuple[Item, ...]


@dataclass(frozen=True)
class Kernel(Node):
    """All equations of an op, and the asserts that read values."""

    equations: tuple[Equation, ...]
    asserts: tuple[Assert, ...] = ()


# --- procedures and compositions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Set(Node):
    """A step `target op value` of a procedure; the target is a name or a tensor element."""

    targets: tuple[Store, ...]
    op: str
    value: Expr


@dataclass(frozen=True)
class For(Node):
    """A loop `for v in domain:`."""

    targets: tuple[Target, ...]
    domain: Expr
    body: tuple[Step, ...]
    over: Over = field(default=Over.UNKNOWN, compare=False)


@dataclass(frozen=True)
class While(Node):
    """A loop `while cond limit n:` of at most n iterations."""

    cond: Expr
    limit: Expr
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Branch(Node):
    """A branch `if cond: … else: …` of a procedure."""

    cond: Expr
    then: tuple[Step, ...]
    other: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Break(Node):
    """A step that leaves the innermost loop."""


Step: TypeAlias = Union["Set", "For", "While", "Branch", "Break"]


@dataclass(frozen=True)
class Procedure(Node):
    """The steps of a `procedure:` entry, or of a `compose:` entry, in which expressions are calls of other ops."""

    steps: tuple[Step, ...]
