"""What emitters read beside the spec: the solved signature, the needs of each operand, the resolved kernel.

In: nothing (`analysis` builds these). Out: frozen types. Everything that has to be computed at run time is stated in
the rule language itself, so that an emitter prints expressions and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeAlias

from anyshape_gen.body_nodes import Step, Store
from anyshape_gen.model import OnnxMapping, OnnxRefusal, OpSpec, ParamSpec
from anyshape_gen.nodes import Assert, Expr, Function, Node, Part, Statement


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


class Need(IntEnum):
    """What the size of the outputs depends on."""

    NOTHING = 0
    RANK = 1
    SHAPE = 2
    VALUES = 3


# --- solving a signature: steps in the order in which they can run ------------------------------------------------
# Expressions in steps use `shape(x)`, `shape(xs[v])`, `len(xs)` beside the language of rules; `drop(v, axes)` is a
# vector without the items at these positions, `place(rest, picked, axes)` puts picked items there.


@dataclass(frozen=True)
class RankCheck(Node):
    """The rank of an operand must be at least this, and at most `most` unless a run is open."""

    operand: str
    element: str | None
    """a variable of the enclosing `ForEach`, for a variadic"""
    rank: Expr
    most: Expr | None


@dataclass(frozen=True)
class BindParam(Node):
    """From here on the parameter may be used: give it its default, normalise axes against `of`, check its length."""

    param: ParamSpec
    default: Expr | None
    of: Expr | None
    """axis, axes: the rank to normalise against"""
    defines_length: str | None
    """an open name that the length of this parameter solves"""
    length: Expr | None
    """the length it must have otherwise"""


@dataclass(frozen=True)
class Define(Node):
    """`name = value`."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Equal(Node):
    """`left` (known) must equal `right` (found in an operand); `what` names both for the message."""

    left: Expr
    right: Expr
    what: str


@dataclass(frozen=True)
class ForEach(Node):
    """For every element of a variadic."""

    var: str
    count: Expr
    steps: tuple[SolveStep, ...]


@dataclass(frozen=True)
class AtLeastOne(Node):
    """A variadic must have an element."""

    operand: str


@dataclass(frozen=True)
class IfPresent(Node):
    """Steps for an optional operand; where it is absent, its own runs are empty."""

    operand: str
    steps: tuple[SolveStep, ...]
    absent: tuple[Define, ...]


SolveStep: TypeAlias = RankCheck | BindParam | Define | Equal | ForEach | AtLeastOne | IfPresent


@dataclass(frozen=True)
class OutputShape(Node):
    """The shape of an output as a vector expression; of a variadic output, for each `var` below `count`."""

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
    """numbers the elements of a variadic: known when the kernel is built, one equation per value"""


@dataclass(frozen=True)
class IndexVar(Node):
    """A variable on the left side; a run's extent is a vector, another's a scalar."""

    name: str
    run: bool
    extent: Expr
    role: Role = Role.LOOP


@dataclass(frozen=True)
class ScratchTensor(Node):
    """A tensor that only the kernel knows; `shape` is a vector expression over dims."""

    name: str
    dtype: str | None
    """from an annotation; None: the dtype of the value"""
    shape: Expr


@dataclass(frozen=True)
class ResolvedEquation(Node):
    """An equation with extents for all its variables and parts for all its indices; reads are `TensorRead` nodes."""

    target: Store
    parts: tuple[Part, ...]
    """the target's index, matched like a read"""
    vars: tuple[IndexVar, ...]
    """of the left side, in order; reductions carry their own generators"""
    op: str
    value: Expr
    conditions: tuple[Expr, ...]
    recurrence: str | None = None
    """the variable of a recurrence: this equation and those of the same `cycle` read earlier positions of each other"""
    backward: bool = False
    """the positions go down: what is read comes later"""
    cycle: int = -1


@dataclass(frozen=True)
class BornSize(Node):
    """`k = count(…)`: a size found by the kernel; its bounds come from the domain."""

    name: str
    value: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True)
class ResolvedKernel:
    """The kernel, ready to be emitted: definitions in dependency order, updates after definitions."""

    scratch: tuple[ScratchTensor, ...]
    born: tuple[BornSize, ...]
    equations: tuple[ResolvedEquation, ...]
    asserts: tuple[Assert, ...]


@dataclass(frozen=True)
class ResolvedProcedure:
    """The steps, with reads as `TensorRead` nodes and the parts of every place that is set."""

    steps: tuple[Step, ...]
    variables: Mapping[str, str]
    """{name: dtype}"""
    arrays: tuple[ScratchTensor, ...]
    born: Mapping[str, Expr]
    """{size that the steps find: its upper bound}"""
    asserts: tuple[Assert, ...]


# --- operators ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpAnalysis:
    """Everything emitters need to know about one op, computed once."""

    spec: OpSpec
    file: str
    """path as messages and `# specs/reshape.yaml:24` comments show it"""
    steps: tuple[SolveStep, ...]
    rule: tuple[Statement, ...]
    """the `shape:` statements; asserts that read values are among the kernel's instead"""
    outputs: tuple[OutputShape, ...]
    kinds: Mapping[str, ValueKind] = field(hash=False)
    """of every name known in the rule: dims, runs, params, locals"""
    needs: Mapping[str, Need] = field(hash=False)
    """per input and dyn parameter: what sizing the output takes from it"""
    shape_functions: tuple[Function, ...]
    """`define:` functions that the rule (or a default) calls"""
    kernel_functions: tuple[Function, ...]
    """those that the kernel calls"""
    kernel: ResolvedKernel | None
    procedure: ResolvedProcedure | None = field(default=None, hash=False)
    unproved: frozenset[int] = frozenset()
    """the reads, by number, of which nothing proved that they are in bounds: they carry a check"""

    @property
    def reading(self) -> tuple[Assert, ...]:
        """The asserts that read values, resolved."""
        body = self.kernel or self.procedure
        return body.asserts if body is not None else ()


@dataclass(frozen=True)
class Analysis:
    """All specs, analysed; `onnx` are mappings of files, which belong to no op, each with the file's path; `refused` are ONNX operators
    without one."""

    ops: tuple[OpAnalysis, ...]
    onnx: tuple[tuple[str, OnnxMapping], ...] = ()
    refused: tuple[OnnxRefusal, ...] = ()

    def op(self, name: str) -> OpAnalysis:
        return next(a for a in self.ops if a.spec.name == name)
