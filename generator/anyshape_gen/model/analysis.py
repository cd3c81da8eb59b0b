"""Types of an analysed op, which emitters read: the solved signature, how shapes depend on each operand, the resolved kernel.

In: nothing (`analysis` builds these). Out: frozen types. What has to be computed at run time is an expression of the rule
language, so that an emitter prints expressions and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeAlias

from anyshape_gen.model.body_nodes import Step, Store, iterated
from anyshape_gen.model.nodes import Assert, Expr, Function, Generator, Node, Part, Statement
from anyshape_gen.model.spec import OnnxMapping, OnnxRefusal, OpSpec, ParamSpec
from anyshape_gen.model.traverse import free_names


class ValueKind(StrEnum):
    """The static kind of a name or expression."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    DTYPE = "dtype"
    VECTOR = "vector"
    TEXTS = "texts"
    """a vector of strings"""
    VECTORS = "vectors"
    """a list of vectors: `*d[v]` of a variadic"""
    TENSOR = "tensor"
    TENSORS = "tensors"
    NONE = "none"
    ANY = "any"


class Dependence(IntEnum):
    """How much of an operand the sizes of the outputs depend on."""

    NOTHING = 0
    RANK = 1
    SHAPE = 2
    VALUES = 3


# --- solving a signature: steps in the order in which they can run ------------------------------------------------
# Expressions in steps use `shape(x)`, `shape(xs[v])`, `len(xs)` beside the language of rules; `drop(v, axes)` is a
# vector without the items at these positions, `place(rest, picked, axes)` puts picked items there.


@dataclass(frozen=True)
class RankCheck(Node):
    """Checks that an operand has at least this rank, and at most `most` unless the number of dims of a run is open."""

    operand: str
    element: str | None
    """a variable of the enclosing `ForEach`, for a variadic"""
    rank: Expr
    most: Expr | None


@dataclass(frozen=True)
class BindParam(Node):
    """Binds a parameter: computes its default, normalises axes against `of`, checks its length. Later steps may use it."""

    param: ParamSpec
    default: Expr | None
    of: Expr | None
    """axis, axes: the rank to normalise against"""
    defines_length: str | None
    """an open name that the length of this parameter solves"""
    length: Expr | None
    """the length that the value must have otherwise"""


@dataclass(frozen=True)
class Define(Node):
    """Defines a name: `name = value`."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Equal(Node):
    """Checks that `left`, which is known, equals `right`, which is read from an operand; `what` names both in the message."""

    left: Expr
    right: Expr
    what: str


@dataclass(frozen=True)
class ForEach(Node):
    """Runs steps for every element of a variadic."""

    var: str
    count: Expr
    steps: tuple[SolveStep, ...]


@dataclass(frozen=True)
class AtLeastOne(Node):
    """Checks that a variadic has an element."""

    operand: str


@dataclass(frozen=True)
class IfPresent(Node):
    """Runs steps for an optional operand if it is present; else defines its own runs as empty."""

    operand: str
    steps: tuple[SolveStep, ...]
    absent: tuple[Define, ...]


SolveStep: TypeAlias = RankCheck | BindParam | Define | Equal | ForEach | AtLeastOne | IfPresent


@dataclass(frozen=True)
class OutputShape(Node):
    """The shape of an output as a vector expression; of a variadic output, the shape for each `var` below `count`."""

    name: str
    shape: Expr
    var: str | None = None
    count: Expr | None = None


# --- kernels ------------------------------------------------------------------------------------------------------


class Role(StrEnum):
    """How a variable of an equation is turned into code."""

    LOOP = "loop"
    """an index variable"""
    ELEMENT = "element"
    """the number of an element of a variadic: known when the kernel is built, with one equation for each value"""


@dataclass(frozen=True)
class IndexVar(Node):
    """A variable on the left side of an equation; the extent of a run is a vector, that of any other a scalar."""

    name: str
    run: bool
    extent: Expr
    role: Role = Role.LOOP


@dataclass(frozen=True)
class ScratchTensor(Node):
    """An intermediate tensor of a kernel; `shape` is a vector expression over dims."""

    name: str
    dtype: str
    """the dtype or dtype variable of an annotation, or of the value"""
    shape: Expr


@dataclass(frozen=True, kw_only=True)
class ResolvedEquation(Node):
    """An equation with extents for all its variables and parts for all its indices; reads are `TensorRead` nodes."""

    target: Store
    parts: tuple[Part, ...]
    """the target's index, matched like a read"""
    vars: tuple[IndexVar, ...]
    """variables of the left side, in order; reductions have their own generators"""
    op: str
    value: Expr
    conditions: tuple[Expr, ...]
    generators: tuple[Generator, ...] = ()
    """the variables of an update that have an extent of their own, after `vars`"""
    filters: tuple[Expr, ...] = ()
    """the conditions of an update with generators: where one does not hold, it is not made"""
    recurrence: str | None = None
    """the variable of a recurrence: this equation and those of the same `cycle` read earlier positions of each other"""
    backward: bool = False
    """whether positions are computed from the last to the first"""
    cycle: int = -1

    @property
    def around(self) -> tuple[IndexVar, ...]:
        """The variables outside of the generators: of an update, the tensors' numbers, and those that the extent of a generator reads."""
        read = {name for g in self.generators for name in free_names(g.domain)}
        return tuple(v for v in self.vars if not self.generators or v.role is Role.ELEMENT or v.name in read)

    @property
    def within(self) -> tuple[IndexVar, ...]:
        """The variables within the generators."""
        around = self.around
        return tuple(v for v in self.vars if v not in around)

    @property
    def right(self) -> Expr:
        """All that stands on the right side: the value, under its generators and filters if it has some."""
        return iterated(self.value, self.generators, self.filters)


@dataclass(frozen=True)
class UnbackedSize(Node):
    """A data-dependent size that a kernel counts, `k = count(…)`; its upper bound is the size of the domain."""

    name: str
    value: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True)
class ResolvedKernel:
    """A resolved kernel: definitions in dependency order, updates after definitions."""

    scratch: tuple[ScratchTensor, ...]
    unbacked: tuple[UnbackedSize, ...]
    equations: tuple[ResolvedEquation, ...]
    asserts: tuple[Assert, ...]


@dataclass(frozen=True)
class ResolvedProcedure:
    """Resolved steps of a procedure: reads are `TensorRead` nodes, and every left side has its parts."""

    steps: tuple[Step, ...]
    variables: Mapping[str, str]
    """{name: dtype}"""
    arrays: tuple[ScratchTensor, ...]
    unbacked: Mapping[str, Expr]
    """{data-dependent size that the steps compute: its upper bound}"""
    asserts: tuple[Assert, ...]


# --- operators ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OpAnalysis:
    """The analysis of one op."""

    spec: OpSpec
    file: str
    """the path as in messages and in `# specs/reshape.yaml:24` comments"""
    steps: tuple[SolveStep, ...]
    rule: tuple[Statement, ...]
    """the `shape:` statements; asserts that read values are among the kernel's instead"""
    outputs: tuple[OutputShape, ...]
    kinds: Mapping[str, ValueKind] = field(hash=False)
    """the kind of every name of the rule: dims, runs, params, locals"""
    dependence: Mapping[str, Dependence] = field(hash=False)
    """how much of an input or dyn parameter the sizes of outputs depend on, by name"""
    shape_functions: tuple[Function, ...]
    """`define:` functions that the rule (or a default) calls"""
    kernel_functions: tuple[Function, ...]
    """`define:` functions that the kernel calls"""
    kernel: ResolvedKernel | None
    procedure: ResolvedProcedure | None = field(default=None, hash=False)
    asked: tuple[Assert, ...] = field(default=(), hash=False)
    """the resolved asserts of a composed op that read values, which ops that it calls have too"""
    unproved: frozenset[int] = frozenset()
    """numbers of the reads that are not proved to be in bounds, and so are checked at run time"""
    lazy: frozenset[int] = frozenset()
    """numbers of the reads for which the `and`, `or` around them must be lazy"""

    @property
    def reading(self) -> tuple[Assert, ...]:
        """The resolved asserts that read values."""
        body = self.kernel or self.procedure
        return body.asserts if body is not None else self.asked


@dataclass(frozen=True)
class Analysis:
    """All analysed ops; `onnx` and `aten` are mappings of files, which belong to no op, each with the file's path; `refused` and
    `refused_aten` are operators without a mapping; `library` are functions that any op may call."""

    ops: tuple[OpAnalysis, ...]
    onnx: tuple[tuple[str, OnnxMapping], ...] = ()
    refused: tuple[OnnxRefusal, ...] = ()
    aten: tuple[tuple[str, OnnxMapping], ...] = ()
    refused_aten: tuple[OnnxRefusal, ...] = ()
    library: tuple[Function, ...] = ()

    def op(self, name: str) -> OpAnalysis:
        return next(a for a in self.ops if a.spec.name == name)
