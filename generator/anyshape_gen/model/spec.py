"""Parsed specs as frozen data: signatures, parameters, mappings, examples and ops, not yet analysed.

In: nothing (the parsers build these). Out: the types that the checker, the analysis and every emitter read. Expressions
and statements are in `nodes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from anyshape_gen.model.body_nodes import Kernel, Procedure
from anyshape_gen.model.nodes import Expr, Function, Name, Node, Statement

# --- signatures ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dim(Node):
    """A named dim: `n`, `n?` (present where the rank allows; the name is then a vector of 0 or 1 items), `n[v]`."""

    name: str
    optional: bool = False
    element: str | None = None
    """the variable of a variadic, where the dim differs from tensor to tensor"""


@dataclass(frozen=True)
class DimExpr(Node):
    """A computed dim: in an input an equality that is checked, in an output the dim itself."""

    expr: Expr


@dataclass(frozen=True)
class Run(Node):
    """A run: any number of dims under one name, `*d`, `*o:len`, `*d[v]`."""

    name: str
    length: Expr | None = None
    element: str | None = None


@dataclass(frozen=True)
class RunExpr(Node):
    """A computed run: `*broadcast(p, q)`, `*d[perm]`; before `@axes` a scalar stands for one item for each axis
    (`*1@kept`)."""

    expr: Expr


@dataclass(frozen=True)
class AtAxis(Node):
    """A dim at the position of an axis, `n@axis`; the run before it has that length."""

    dim: Dim | DimExpr
    axis: Expr


@dataclass(frozen=True)
class AtAxes(Node):
    """Dims at the positions of axes, `*r@axes`; the other pieces match the other positions in order."""

    run: Run | RunExpr
    axes: Expr


@dataclass(frozen=True)
class Product(Node):
    """One dim that is a product, `(g, c)`; kernels index the factors."""

    factors: tuple[Dim | DimExpr, ...]


@dataclass(frozen=True)
class Ragged(Node):
    """One dim that consists of parts n[0], n[1], …, `(v, n[v])`; kernels index the part and the position in it."""

    var: str
    size: Dim


Piece: TypeAlias = Dim | DimExpr | Run | RunExpr | AtAxis | AtAxes | Product | Ragged


@dataclass(frozen=True)
class Variadic(Node):
    """A number of tensors, `for v in count`; in an input a name as count is solved by their number."""

    var: str
    count: Expr


@dataclass(frozen=True)
class Signature(Node):
    """The type of one input or output."""

    text: str
    """the signature as written, for pages and messages"""
    dtype: str
    """a dtype (`f32`) or a dtype variable of the op (`T`)"""
    pieces: tuple[Piece, ...]
    variadic: Variadic | None = None
    optional: bool = False
    """`?`: may be absent; ask `present(x)`"""
    default: Expr | None = None
    """`= constant`: where the operand is absent, every read of it is the constant, and its runs are empty"""
    sequence: bool = False
    """`seq`: the tensors of a variadic may also be passed as a list whose length is known at run time only"""


@dataclass(frozen=True)
class Operand(Node):
    """An input or output: a name and its signature."""

    name: str
    signature: Signature


# --- parameters ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind(Node):
    """The kind of a parameter's values."""

    base: str
    """`bool int float number str dtype enum axis axes ints floats`"""
    members: tuple[str, ...] = ()
    """the values of an enum"""
    length: Expr | None = None
    """the length of axes, ints, floats: an expression, or a name that the length solves; None: any"""

    @property
    def is_vector(self) -> bool:
        return self.base in ("axes", "ints", "floats", "strs")


@dataclass(frozen=True)
class ParamSpec(Node):
    """One parameter: an attribute of both variants, or (dyn) an attribute of static.op and an operand of dyn.op."""

    name: str
    kind: Kind
    default: Expr | None = None
    """the default; None: the parameter is required; `NoneLit`: it may be absent"""
    dyn: bool = False
    of: Expr | None = None
    """the rank that an axis is normalised against; None: the rank of the first input"""
    empty: Expr | None = None
    """a condition under which an empty vector stands for the default"""
    computed: Expr | None = None
    """the default of a float, where that is computed from sizes"""


# --- dtypes, view, rewrites, mappings, examples -------------------------------------------------------------------


@dataclass(frozen=True)
class DtypeRule(Node):
    """One dtype variable: a class or list to draw from (`choices`), or a computed dtype (`expr`)."""

    var: str
    choices: tuple[str, ...] = ()
    """the dtypes allowed, classes resolved, in the order of `DTYPES`"""
    expr: Expr | None = None
    """`accum(T)`, `promote(T, U)`, `bitcast(T, to)` of a dtype parameter, or the name of a dtype parameter (written `param to`)"""


@dataclass(frozen=True)
class View(Node):
    """A view, `{y: x}`: the output is the input's buffer under another shape."""

    output: str
    input: str


@dataclass(frozen=True)
class Rewrite(Node):
    """A rewrite, `pattern [as alias] >> term [if condition]`; in patterns `_` matches anything and names bind operands or
    params."""

    text: str
    pattern: Expr
    alias: str | None
    term: Expr
    condition: Expr | None


@dataclass(frozen=True)
class OnnxArgument(Node):
    """The source of one operand or parameter."""

    name: str
    source: str
    """`input`: the next input; `rest`: all further inputs; `interleaved`: of all further inputs every so many, by how many arguments
    have this source; `in`: the next input, through `expr` (where it has this name); `expr`: computed, from attributes and ranks"""
    expr: Expr | None = None


@dataclass(frozen=True)
class TermFunction(Node):
    """A function of a file's `terms:`, for terms of its ONNX mappings."""

    name: str
    args: tuple[str, ...]
    body: tuple[Statement, ...]
    """ends in a `return` on every path"""
    text: str = field(default="", compare=False, repr=False)
    """the text of the spec"""


@dataclass(frozen=True)
class OnnxMapping(Node):
    """The meaning of one ONNX operator from one opset on, until the next entry; or of an ATen operator, which has one meaning, since 0."""

    op: str
    since: int
    removed: bool = False
    arguments: tuple[OnnxArgument, ...] = ()
    """the names of a term's ONNX inputs in order (source `input` or `rest`)"""
    term: Expr | None = None
    """a term of ops over these names; None: the op itself with these arguments"""
    body: tuple[Statement, ...] = ()
    """statements before the term: assignments, branches, and asserts, of which a false one is an UnsupportedError"""
    functions: tuple[TermFunction, ...] = ()
    """functions of the file that it calls, directly or not; callees before callers"""
    known: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """the names of all functions of the file"""
    text: str = field(default="", compare=False, repr=False)
    """the text of the spec"""


@dataclass(frozen=True)
class OnnxRefusal(Node):
    """An ONNX or ATen operator that has no mapping, with a reason."""

    op: str
    reason: str


@dataclass(frozen=True)
class Matrix(Node):
    """A matrix of rational numbers, as it is written."""

    name: str
    rows: tuple[tuple[Fraction, ...], ...]

    @property
    def columns(self) -> int:
        return len(self.rows[0]) if self.rows else 0


@dataclass(frozen=True)
class Rotation(Node):
    """A rotation by `first` times `second` parts of the circle, of which there are `size`; `name` is that of the table that has it."""

    name: str
    first: Expr
    second: Expr
    size: Expr


@dataclass(frozen=True)
class Algorithm(Node):
    """An op that computes the results of another where `condition` holds; `constant` is the input that it transforms ahead."""

    op: str
    condition: Expr
    constant: str


@dataclass(frozen=True)
class Weakness(Node):
    """A law that accepts too few calls of an op, with a reason."""

    law: str
    reason: str


@dataclass(frozen=True)
class ExampleValue(Node):
    """A shape or a literal value in an example."""

    value: object
    """nested tuples of numbers, strings, booleans, None"""
    literal: bool
    """False: `value` is a shape (of a variadic, one shape per element)"""
    dtype: str | None = None


@dataclass(frozen=True)
class Example(Node):
    """Inputs and params by name, with the expected outputs, or a part of the error's text."""

    arguments: tuple[tuple[str, ExampleValue], ...]
    expected: tuple[tuple[str, ExampleValue], ...]
    error: str | None = None


@dataclass(frozen=True)
class Oracle(Node):
    """A Python function that references call; its text is copied into generated code."""

    name: str
    text: str
    reads: tuple[Name, ...]


@dataclass(frozen=True)
class Reference(Node):
    """The reference of an op, a Python expression over np, scipy, inputs and params; its text is copied into generated code."""

    text: str
    reads: tuple[Name, ...]
    """the free names without oracles, each at its first place"""
    oracles: tuple[Oracle, ...] = ()
    """the functions that it calls, directly or not"""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name.id for name in self.reads)


@dataclass(frozen=True)
class SpelledArgument:
    """One argument of a spelling: its name in Python, and the input or parameter that it stands for."""

    name: str
    of: str
    required: bool = False
    starred: bool = False


@dataclass(frozen=True)
class Spelling(Node):
    """How a Value calls the op in Python, `a + b` or `x.sum(axis=axes)`: the method that this is of, the first argument being the Value."""

    text: str
    method: str
    form: str
    """`binary compared unary method property index`"""
    arguments: tuple[SpelledArgument, ...]
    fixed: tuple[tuple[str, object], ...] = ()
    """parameters that the spelling gives"""
    dtypes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """dtype variables, with the dtypes for which the spelling means the op"""


# --- operators ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpSpec(Node):
    """The spec of one op."""

    name: str
    family: str | None
    summary: str
    inputs: tuple[Operand, ...]
    params: tuple[ParamSpec, ...]
    outputs: tuple[Operand, ...]
    dtypes: tuple[DtypeRule, ...]
    traits: tuple[str, ...]
    """`commutative associative idempotent involution random finite`"""
    defines: tuple[Function, ...]
    """the functions that this op uses, callees before callers; they may read params, dims and tensors of the op"""
    shape: tuple[Statement, ...]
    kernel: Kernel | None
    view: tuple[View, ...]
    procedure: Procedure | None
    compose: Procedure | None
    rewrites: tuple[Rewrite, ...]
    reference: Reference | None
    onnx: tuple[OnnxMapping, ...]
    examples: tuple[Example, ...]
    aten: tuple[OnnxMapping, ...] = ()
    operator: str = ""
    """the sign that means this op in `compose:`"""
    python: tuple[Spelling, ...] = ()
    """the ways in which a Value calls the op"""
    weak: tuple[Weakness, ...] = ()
    bilinear: tuple[Matrix, ...] = ()
    """the matrices of `windows`, `weights` and `results`, which its composition reads by these names"""
    rotations: tuple[Rotation, ...] = ()
    """the rotations of a transform in steps"""
    algorithms: tuple[Algorithm, ...] = ()
    floats: tuple[tuple[str, Expr], ...] = ()
    """float parameters with a default that is computed in floats: the value of each, of the parameter or its default"""
    functions: tuple[str, ...] = ()
    """names of all functions that the op may call, of the library, the file, the family and its own"""

    @property
    def dyn_params(self) -> tuple[ParamSpec, ...]:
        """The parameters that are operands of the dyn variant; none: the op has only one variant."""
        return tuple(p for p in self.params if p.dyn)

    @property
    def sequence(self) -> Operand | None:
        """The input that may be passed as a list."""
        return next((o for o in self.inputs if o.signature.sequence), None)

    @property
    def own_dims(self) -> frozenset[str]:
        """The dims that differ from element to element of the sequence."""
        pieces = self.sequence.signature.pieces if self.sequence is not None else ()
        dims = [piece.dim if isinstance(piece, AtAxis) else piece for piece in pieces]
        return frozenset(d.name for d in dims if isinstance(d, (Dim, Run)) and d.element is not None)

    @property
    def returns_tuple(self) -> bool:
        """Whether a call returns a tuple of tensors, and not one tensor."""
        return len(self.outputs) != 1 or self.outputs[0].signature.variadic is not None

    def param(self, name: str) -> ParamSpec | None:
        return next((p for p in self.params if p.name == name), None)

    def input(self, name: str) -> Operand | None:
        return next((o for o in self.inputs if o.name == name), None)

    def output(self, name: str) -> Operand | None:
        return next((o for o in self.outputs if o.name == name), None)


NO_OP = OpSpec(
    name="", family=None, summary="", inputs=(), params=(), outputs=(), dtypes=(), traits=(), defines=(), shape=(), kernel=None,
    view=(), procedure=None, compose=None, rewrites=(), reference=None, onnx=(), examples=(),
)  # fmt: skip
"""The spec of no op, in which a function of the library is by itself"""


@dataclass(frozen=True)
class SpecFile:
    """One spec file: its path as in messages, its ops in the order written, mappings that belong to no op, and refused operators."""

    path: str
    ops: tuple[OpSpec, ...]
    onnx: tuple[OnnxMapping, ...] = ()
    terms: tuple[TermFunction, ...] = ()
    refused: tuple[OnnxRefusal, ...] = ()
    aten: tuple[OnnxMapping, ...] = ()
    refused_aten: tuple[OnnxRefusal, ...] = ()

    @property
    def all_onnx(self) -> tuple[OnnxMapping, ...]:
        """The ONNX mappings of the file and of its ops."""
        return (*self.onnx, *(m for op in self.ops for m in op.onnx))

    @property
    def all_aten(self) -> tuple[OnnxMapping, ...]:
        """The ATen mappings of the file and of its ops."""
        return (*self.aten, *(m for op in self.ops for m in op.aten))
