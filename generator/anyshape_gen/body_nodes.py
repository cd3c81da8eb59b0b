"""What an op computes, as data: the equations of a kernel, the steps of a procedure or of a composition; frozen, each with its place.

The expressions in them are those of `nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, Union

from anyshape_gen.nodes import Assert, Expr, Item, Node, Over, Part, Target

# --- kernels ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Store(Node):
    """The left side of an equation: `t[i, *j]`, `ys[v][…]`, or a bare name for a size born here (`items` is None)."""

    tensor: str
    element: Expr | None
    items: tuple[Item, ...] | None
    parts: tuple[Part, ...] = field(default=(), compare=False, repr=False)
    """of a step, the index matched like a read"""


@dataclass(frozen=True)
class Equation(Node):
    """`target op value`, where all of `conditions` hold (they are static)."""

    target: Store
    op: str
    """`= += -= *= max min`"""
    value: Expr
    annotation: Annotation | None = None
    conditions: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Annotation(Node):
    """`t[*i, j]: F[*broadcast(p, q), m]`: dtype and extents of a scratch tensor."""

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
    """`target op value` in a procedure; the target is a name or a tensor element."""

    targets: tuple[Store, ...]
    op: str
    value: Expr


@dataclass(frozen=True)
class For(Node):
    """`for v in domain:`."""

    targets: tuple[Target, ...]
    domain: Expr
    body: tuple[Step, ...]
    over: Over = field(default=Over.UNKNOWN, compare=False)


@dataclass(frozen=True)
class While(Node):
    """`while cond limit n:`; the limit makes it finite."""

    cond: Expr
    limit: Expr
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Branch(Node):
    """`if cond: … else: …` of a procedure."""

    cond: Expr
    then: tuple[Step, ...]
    other: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Break(Node):
    """Leaves the innermost loop."""


Step: TypeAlias = Union["Set", "For", "While", "Branch", "Break"]


@dataclass(frozen=True)
class Procedure(Node):
    """Bounds-checked loops, or (as `compose:`) calls of other ops with loops and branches as regions."""

    steps: tuple[Step, ...]
