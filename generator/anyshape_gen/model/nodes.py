"""Nodes of the rule language: expressions and statements, frozen, each with its span. `body_nodes` has equations and steps.

Python's `ast` is used for parsing only (`parse.rules`, `parse.kernel`); everything after it works on these nodes. Spans are
not compared, so texts that differ in layout only give equal nodes. `TensorRead` and `Generator.over` are set by the
analysis; everything else is as written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, Union

from anyshape_gen.model.source import NOWHERE, Span


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its place in a spec."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Name(Node):
    """A dim, run, parameter, tensor or local name."""

    id: str


@dataclass(frozen=True)
class Int(Node):
    """An integer literal; negative ones are `Unary("-", Int)`."""

    value: int


@dataclass(frozen=True)
class Float(Node):
    """A float literal; `inf` and `pi` are names."""

    value: float


@dataclass(frozen=True)
class Str(Node):
    """A string literal, always static."""

    value: str


@dataclass(frozen=True)
class Bool(Node):
    """`True` or `False`."""

    value: bool


@dataclass(frozen=True)
class NoneLit(Node):
    """`None`: an absent parameter."""


@dataclass(frozen=True)
class Unary(Node):
    """`-x` or `not x`."""

    op: str
    """`-` or `not`"""
    operand: Expr


@dataclass(frozen=True)
class BinOp(Node):
    """Arithmetic, elementwise on vectors."""

    op: str
    """`+ - * / // % **`"""
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Compare(Node):
    """A chain `first op1 b op2 c`; on vectors it holds when it holds for all items."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]
    """(`== != < <= > >= in "not in" is "is not"`, operand) pairs"""


@dataclass(frozen=True)
class BoolOp(Node):
    """A lazy `a and b and c`, or the same with `or`."""

    op: str
    """`and` or `or`"""
    items: tuple[Expr, ...]


@dataclass(frozen=True)
class IfExp(Node):
    """A conditional expression, `then if cond else other`."""

    cond: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True)
class Call(Node):
    """A call of a function of the language, of a `define:` function, or of an op (in rewrites, compose, ONNX terms)."""

    func: str
    args: tuple[Item, ...]
    keywords: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class Method(Node):
    """A call of a method of a static string, as in `equation.split(",")`."""

    base: Expr
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Star(Node):
    """A starred item: `*e` in an index or a vector literal, or `*e@axes` in an index: e's items at those positions."""

    value: Expr
    axes: Expr | None = None


@dataclass(frozen=True)
class Slice(Node):
    """A slice `a:b` in an index; all items where both are None."""

    low: Expr | None
    high: Expr | None


@dataclass(frozen=True)
class Index(Node):
    """An index `base[items]` of a vector, or of a tensor as written (the analysis turns the latter into `TensorRead`)."""

    base: Expr
    items: tuple[Item, ...]


@dataclass(frozen=True)
class VecLit(Node):
    """A vector literal, `[a, *b, c]`."""

    items: tuple[Item, ...]


class Over(StrEnum):
    """What a generator iterates over; decided by the kind of its domain."""

    UNKNOWN = "unknown"
    ITEMS = "items"
    """the items of a vector: `for n in newshape`"""
    EXTENT = "extent"
    """0 … n-1 of a scalar: `for k in n`"""
    EXTENTS = "extents"
    """all positions of a run: `for *j in r`"""
    RANGE = "range"
    """`for k in range(a, b)`"""


@dataclass(frozen=True)
class Target(Node):
    """A variable that a generator or a loop binds; `run` is `*j`."""

    name: str
    run: bool = False


@dataclass(frozen=True)
class Generator(Node):
    """A generator, `for targets in domain`; several targets unpack `zip` and `enumerate`."""

    targets: tuple[Target, ...]
    domain: Expr
    over: Over = field(default=Over.UNKNOWN, compare=False)


@dataclass(frozen=True)
class Comprehension(Node):
    """A comprehension `[element for … if …]`: a vector of the elements for which its conditions hold."""

    element: Expr
    generators: tuple[Generator, ...]
    conditions: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Reduction(Node):
    """A reduction, `sum(element for … if …)`."""

    kind: str
    """`sum prod max min any all count first last argmax argmin sorted unique`"""
    element: Expr
    generators: tuple[Generator, ...]
    conditions: tuple[Expr, ...] = ()
    keywords: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class AttrRead(Node):
    """An attribute of an ONNX node, `attr.name(default)` in a mapping."""

    name: str
    default: Expr | None = None


# --- reads resolved by the analysis -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exact(Node):
    """Items that match pieces of the tensor one to one: variables, expressions, runs of the right length."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class Fit(Node):
    """Items that broadcast onto a run of dims: trailing dims aligned, 0 where the dim is 1 (`eqs.fit(items,
    extents)`)."""

    items: tuple[Item, ...]
    extents: Expr
    """a vector: the dims of the tensor that they are fitted to"""


@dataclass(frozen=True)
class Placed(Node):
    """Picked items at the positions `axes`, and the rest in order elsewhere: `*i, *j@axes` (`eqs.at(rest, picked,
    axes)`)."""

    rest: tuple[Item, ...]
    picked: tuple[Item, ...]
    axes: Expr


@dataclass(frozen=True)
class Flat(Node):
    """Items that index the factors of one product dim, row-major: `(g, c)` read by `h, j` is `h * c + j`."""

    items: tuple[Expr, ...]
    factors: tuple[Expr, ...]


@dataclass(frozen=True)
class Offset(Node):
    """Items that index a ragged dim `(v, n[v])`: `prefix(n)[v] + k`."""

    element: Expr
    within: Expr
    sizes: Expr


@dataclass(frozen=True)
class Along(Node):
    """A `:` in the left side of an equation: the vector is stored along this dim."""

    extent: Expr


Part: TypeAlias = Exact | Fit | Placed | Flat | Offset | Along


@dataclass(frozen=True)
class TensorRead(Node):
    """A read of a tensor with every index matched to its pieces."""

    tensor: str
    element: Expr | None
    """the number of a variadic's tensor"""
    parts: tuple[Part, ...]
    outside: Expr | None = None
    """the value outside the bounds: `pad(x, value)[…]`; None: in bounds, proved or checked"""
    absent: Expr | None = None
    """the value of the read where the optional input is absent (`= constant`)"""


Expr: TypeAlias = Union[
    "Name",
    "Int",
    "Float",
    "Str",
    "Bool",
    "NoneLit",
    "Unary",
    "BinOp",
    "Compare",
    "BoolOp",
    "IfExp",
    "Call",
    "Method",
    "Index",
    "VecLit",
    "Comprehension",
    "Reduction",
    "AttrRead",
    "TensorRead",
]
Item: TypeAlias = Union["Star", "Slice", Expr]


# --- statements of rules ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Message(Node):
    """The text of an assert; parts alternate between words and expressions in braces."""

    parts: tuple[str | Expr, ...]


@dataclass(frozen=True)
class Assign(Node):
    """An assignment `name = value`, or `a, b = value`, which unpacks a vector."""

    names: tuple[str, ...]
    value: Expr


@dataclass(frozen=True)
class Assert(Node):
    """A constraint: an error where it is false at compile time, a run-time check where it is undecided."""

    cond: Expr
    message: Message | None


@dataclass(frozen=True)
class If(Node):
    """A static choice, decided by attributes, ranks and dtypes."""

    cond: Expr
    then: tuple[Statement, ...]
    other: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Unbacked(Node):
    """A data-dependent size that a procedure computes, `name = unbacked(low, high)`."""

    name: str
    low: Expr
    high: Expr


@dataclass(frozen=True)
class Return(Node):
    """`return value` of a function of ONNX mappings."""

    value: Expr


Statement: TypeAlias = Union["Assign", "Assert", "If", "Unbacked", "Return"]


@dataclass(frozen=True)
class Function(Node):
    """A function of a `define:` block, `def name(args): name = expr …; return result`."""

    name: str
    args: tuple[str, ...]
    body: tuple[Assign, ...]
    result: Expr
