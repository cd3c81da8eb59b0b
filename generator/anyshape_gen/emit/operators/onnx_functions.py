"""Emits ops as functions of ONNX, which any engine runs: one FunctionProto for each op whose equations are compositions of ONNX's
operators.

In: an analysed op. Out: a FunctionProto, or NotComposed with the reason. An equation is one if each of its elements is computed of elements
at the same position: `y[*i] = x[*i] * tanh(alpha * x[*i])`, broadcast operands included, and of reductions along the one axis of the op:
`total[*a, *b] = sum(exp(x[*a, k, *b]) for k in n)`, in which a value without the axis is a tensor with one position along it. A function is
for floats, and computes in the dtype of its operands: where the op computes in f32 for operands of 16 bits, so does not the function.
Parameters are attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, helper

from anyshape_gen.model.analysis import Analysis, IndexVar, OpAnalysis, ResolvedEquation
from anyshape_gen.model.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Exact,
    Fit,
    Float,
    Function,
    IfExp,
    Int,
    Item,
    Name,
    Node,
    Over,
    Reduction,
    Star,
    TensorRead,
    Unary,
)
from anyshape_gen.model.spec import AtAxis, Dim, Operand, OpSpec, ParamSpec, Run
from anyshape_gen.model.traverse import children, walk

OPSET = 18
"""The version of ONNX's operators in functions: CastLike, and Mod of floats"""
IR_VERSION = 8
"""The version of ONNX's file format that has functions"""
OPERATORS = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh", "erf": "Erf", "sin": "Sin", "cos": "Cos", "abs": "Abs", "floor": "Floor",
    "ceil": "Ceil", "round_even": "Round",
}  # fmt: skip
"""Functions of one element, and ONNX's operators"""
ARITHMETIC = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow"}
COMPARISONS = {"<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual", "==": "Equal"}
NUMBERS = {"inf": float("inf"), "pi": 3.141592653589793}
REDUCTIONS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
ATTRIBUTES = {
    "float": ("value_float", AttributeProto.FLOAT), "int": ("value_int", AttributeProto.INT), "axis": ("value_int", AttributeProto.INT),
}  # fmt: skip
"""Kinds of parameters: the attribute of Constant that takes one, and its type"""


class NotComposed(Exception):
    """The op is no composition of ONNX's operators; the text says why."""


@dataclass(frozen=True)
class Emitted:
    """A model that has the functions and an empty graph, and of the other ops why they have none."""

    model: ModelProto
    left_out: dict[str, str]


@dataclass(frozen=True)
class ReducedAxis:
    """The axis of an op along which it reduces: `F[*o, n@axis, *i]` of a parameter, or the last or first dim, `T[*d, n]` and `T[n, *d]`.
    `place`: of its dim among the pieces of a signature, of which `runs` others are runs; `size`: the dim's name."""

    place: int
    runs: int
    size: str
    param: ParamSpec | None

    @classmethod
    def of(cls, spec: OpSpec) -> ReducedAxis | None:
        """The axis of the first operand that has one."""
        params = {p.name: p for p in spec.params if p.kind.base == "axis"}
        for o in spec.inputs:
            match o.signature.pieces:
                case (Run(), AtAxis(Dim(size), Name(id)), Run()) if id in params:
                    return cls(1, 2, size, params[id])
                case (Run(), Dim(size)):
                    return cls(1, 1, size, None)
                case (Dim(size), Run()):
                    return cls(0, 1, size, None)
        return None

    def items(self, runs: Sequence[Item], index: Item | None) -> tuple[Item, ...]:
        """The position with an index along the axis, or that of a value without it."""
        return tuple(runs) if index is None else (*runs[: self.place], index, *runs[self.place :])


def onnx_functions(analysis: Analysis, domain: str) -> Emitted:
    """Emits the functions of all ops that have one, in a domain."""
    functions: list[FunctionProto] = []
    left_out: dict[str, str] = {}
    for op in analysis.ops:
        try:
            functions.append(function(op, domain))
        except NotComposed as e:
            left_out[op.spec.name] = str(e)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(domain, 1)]
    graph = helper.make_graph([], "functions", [], [])
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=IR_VERSION)
    return Emitted(model, left_out)


def function(op: OpAnalysis, domain: str) -> FunctionProto:
    """Emits the function of an op. Raises NotComposed."""
    if op.kernel is None or op.kernel.unbacked or op.kernel.asserts:
        raise NotComposed("it is defined by other means than equations of its outputs")
    for operand in (*op.spec.inputs, *op.spec.outputs):
        _demand_tensor(operand, op)
    return _Body(op).function(domain)


def _demand_tensor(operand: Operand, op: OpAnalysis) -> None:
    s = operand.signature
    if s.variadic is not None or s.sequence:
        raise NotComposed(f"{operand.name} is a list of tensors")
    if s.optional or s.default is not None:
        raise NotComposed(f"{operand.name} may be left out")
    rule = next((r for r in op.spec.dtypes if r.var == s.dtype), None)
    if rule is not None and rule.choices and "f32" not in rule.choices:
        raise NotComposed(f"{operand.name} is not of floats")
    if rule is None and s.dtype != "bool":
        raise NotComposed(f"{operand.name} is always {s.dtype}")
    if rule is not None and not rule.choices:
        raise NotComposed(f"the dtype of {operand.name} is computed")


class _Body:
    """Nodes of one function. Expressions become names of values."""

    def __init__(self, op: OpAnalysis) -> None:
        self.op = op
        self.nodes: list[NodeProto] = []
        self.numbers: dict[float | str, str] = {}
        """names of constants, by their values, and of parameters, by their names"""
        self.params = {p.name: p for p in op.spec.params}
        self.functions = {f.name: f for f in op.kernel_functions}
        self.dtypes = {r.var for r in op.spec.dtypes}
        self.taken = {o.name for o in (*op.spec.inputs, *op.spec.outputs)}
        self.axis = ReducedAxis.of(op.spec)
        self.with_axis = {o.name for o in op.spec.inputs if ReducedAxis.of(replace(op.spec, inputs=(o,))) == self.axis}
        self.here: Sequence[Item] = ()
        """The runs of the equation whose value becomes nodes, where the op has an axis"""
        self.axes = ""
        """The name of the axis as a vector, once a reduction needs it"""
        self.like = next((o.name for o in op.spec.inputs if o.signature.dtype != "bool"), "")

    def function(self, domain: str) -> FunctionProto:
        kernel, spec = self.op.kernel, self.op.spec
        assert kernel is not None
        self.taken |= {s.name for s in kernel.scratch}
        defined = [e.target.tensor for e in kernel.equations]
        if sorted(defined) != sorted((*(o.name for o in spec.outputs), *(s.name for s in kernel.scratch))):
            raise NotComposed("which equation defines an output depends on parameters")
        for equation in kernel.equations:
            self._equation(equation)
        with_default = [self._attribute(p) for p in spec.params if p.default is not None]
        return helper.make_function(
            domain,
            spec.name,
            [o.name for o in spec.inputs],
            [o.name for o in spec.outputs],
            self.nodes,
            [helper.make_opsetid("", OPSET)],
            [p.name for p in spec.params if p.default is None],
            with_default,
            doc_string=spec.summary,
        )

    def _equation(self, e: ResolvedEquation) -> None:
        if e.op != "=" or e.conditions or e.generators or e.recurrence is not None:
            raise NotComposed("an equation is an update, a recurrence or conditional")
        if self.axis is not None:
            self._along_axis(self.axis, e)
            return
        if any(not v.run for v in e.vars) or len(e.vars) > 1:
            raise NotComposed("positions are more than those of one run, and of no axis")
        reads = [n for n in walk(e.value) if isinstance(n, TensorRead)]
        for read in reads:
            self._demand_same_position(read, e)
        if e.vars:
            _demand_shape(reads, e.vars[0])
        self._node("Identity", [self._value(e.value, {})], e.target.tensor)

    def _along_axis(self, axis: ReducedAxis, e: ResolvedEquation) -> None:
        """An equation at all positions, `y[*a, k, *b]`, or at all but those along the axis, `y[*a, *b]`."""
        runs = [Star(Name(v.name)) for v in e.vars if v.run]
        along = [Name(v.name) for v in e.vars if not v.run]
        items = tuple(Star(Name(v.name)) if v.run else Name(v.name) for v in e.vars)
        if len(runs) != axis.runs or len(along) > 1 or items != axis.items(runs, along[0] if along else None):
            raise NotComposed("positions are others than those of the axis and the runs around it")
        whole = [r for r in _outside_reductions(e.value) if self._is_along(axis, r, runs, along)]
        if bool(along) != bool(whole):
            raise NotComposed("the shape of the result is not that of what it reads")
        self.here = runs
        value = self._value(e.value, {})
        if e.target.tensor in {o.name for o in self.op.spec.outputs} and not along:
            self._node("Squeeze", [value, self._axes()], e.target.tensor)
        else:
            self._node("Identity", [value], e.target.tensor)

    def _is_along(self, axis: ReducedAxis, read: TensorRead, runs: Sequence[Item], along: Sequence[Item]) -> bool:
        """Whether what is read has the axis: an operand at `[*a, k, *b]`, and no value at `[*a, *b]` or scalar. Raises NotComposed for a
        read at other positions, and for an output, whose tensor lacks the axis."""
        assert self.op.kernel is not None
        without = axis.items(runs, None) if read.tensor in {s.name for s in self.op.kernel.scratch} else ()
        items = tuple(i for part in read.parts if isinstance(part, Exact) for i in part.items)
        if read.outside is None and read.element is None and all(isinstance(p, Exact) for p in read.parts):
            if items == without:
                return False
            if read.tensor in self.with_axis and any(items == axis.items(runs, index) for index in along):
                return True
        raise NotComposed(f"it reads {read.tensor} at other positions than that of the result and those along the axis")

    def _reduction(self, r: Reduction, local: dict[str, str]) -> str:
        if self.axis is None:
            raise NotComposed(f"a {r.kind} is along no axis")
        if r.kind not in REDUCTIONS or r.conditions or r.keywords or len(r.generators) != 1:
            raise NotComposed(f"ONNX has no operator for this {r.kind}")
        (g,) = r.generators
        if g.over is not Over.EXTENT or len(g.targets) != 1 or g.domain != Name(self.axis.size):
            raise NotComposed(f"a {r.kind} is not along the axis of the op")
        along = [Name(g.targets[0].name)]
        reads = [self._is_along(self.axis, n, self.here, along) for n in _outside_reductions(r.element)]
        if not any(reads):
            raise NotComposed(f"a {r.kind} reads nothing along the axis of the op")
        return self._node(REDUCTIONS[r.kind], [self._value(r.element, local), self._axes()], keepdims=1)

    def _axes(self) -> str:
        """The axis as a vector."""
        if not self.axes:
            assert self.axis is not None
            if self.axis.param is None:
                self.axes = self._node("Constant", [], value_ints=[-1 if self.axis.place else 0])
            else:
                number = self._referred(self.axis.param)
                self.axes = self._node("Unsqueeze", [number, self._node("Constant", [], value_ints=[0])])
        return self.axes

    def _demand_same_position(self, read: TensorRead, e: ResolvedEquation) -> None:
        if (
            read.outside is not None
            or read.element is not None
            or read.tensor in {o.name for o in self.op.spec.outputs}
        ):
            raise NotComposed(f"it reads {read.tensor} in another way than at the position of the result")
        run = tuple(Star(Name(v.name)) for v in e.vars)
        items = tuple(i for part in read.parts for i in getattr(part, "items", (None,)))
        if items not in (run, ()):
            raise NotComposed(f"it reads {read.tensor} at other positions than that of the result")

    # --- expressions

    def _value(self, e: Node, local: dict[str, str]) -> str:
        match e:
            case TensorRead(tensor):
                return tensor
            case Int(value) | Float(value):
                return self._number(value)
            case Name(id) if id in local:
                return local[id]
            case Name(id) if id in self.params:
                return self._param(self.params[id])
            case Name(id) if id in NUMBERS:
                return self._number(NUMBERS[id])
            case Unary("-", Int(value) | Float(value)):
                return self._number(-value)
            case Unary(op, operand):
                return self._node("Neg" if op == "-" else "Not", [self._value(operand, local)])
            case BinOp("//", left, right):
                return self._node("Floor", [self._node("Div", [self._value(left, local), self._value(right, local)])])
            case BinOp(op, left, right) if op in ARITHMETIC:
                return self._node(ARITHMETIC[op], [self._value(left, local), self._value(right, local)])
            case Compare(first, rest):
                return self._comparison(first, rest, local)
            case BoolOp(op, items):
                return self._fold(op.capitalize(), [self._value(i, local) for i in items])
            case IfExp(cond, then, other):
                return self._node("Where", [self._value(x, local) for x in (cond, then, other)])
            case Call(func, args, ()):
                return self._call(func, args, local)
            case Reduction():
                return self._reduction(e, local)
        raise NotComposed(f"ONNX has no operator for {type(e).__name__} here")

    def _call(self, func: str, args: Sequence[Node], local: dict[str, str]) -> str:
        if func in self.functions:
            return self._inlined(self.functions[func], [self._value(a, local) for a in args])
        if func in self.dtypes:
            return self._cast(args[0], local)
        match func, args:
            case "cast", (value, Name(id)) if id in self.dtypes:
                return self._cast(value, local)
            case "min" | "max", _:
                return self._node(func.capitalize(), [self._value(a, local) for a in args])
            case "fmod", (x, y):
                return self._node("Mod", [self._value(x, local), self._value(y, local)], fmod=1)
            case "log1p", (x,):
                return self._log1p(self._value(x, local))
            case "expm1", (x,):
                return self._expm1(self._value(x, local))
            case _ if func in OPERATORS:
                return self._node(OPERATORS[func], [self._value(a, local) for a in args])
        raise NotComposed(f"ONNX has no operator for {func} of elements")

    def _cast(self, e: Node, local: dict[str, str]) -> str:
        """The value in the dtype of the operands, which numbers have already: it is another one for truths alone."""
        value = self._value(e, local)
        is_truth = isinstance(e, Compare | BoolOp) or (isinstance(e, Unary) and e.op == "not")
        return self._like(value) if is_truth else value

    def _inlined(self, f: Function, arguments: Sequence[str]) -> str:
        local = dict(zip(f.args, arguments, strict=True))
        for assign in f.body:
            if len(assign.names) != 1:
                raise NotComposed(f"{f.name} unpacks a vector")
            local[assign.names[0]] = self._value(assign.value, local)
        return self._value(f.result, local)

    def _comparison(self, first: Node, rest: Iterable[tuple[str, Node]], local: dict[str, str]) -> str:
        left, held = self._value(first, local), []
        for op, right_side in rest:
            right = self._value(right_side, local)
            if op == "!=":
                held.append(self._node("Not", [self._node("Equal", [left, right])]))
            elif op in COMPARISONS:
                held.append(self._node(COMPARISONS[op], [left, right]))
            else:
                raise NotComposed(f"ONNX has no operator for {op} of elements")
            left = right
        return self._fold("And", held)

    def _fold(self, operator: str, values: Sequence[str]) -> str:
        result = values[0]
        for v in values[1:]:
            result = self._node(operator, [result, v])
        return result

    def _log1p(self, x: str) -> str:
        """log(1 + x) without the loss of digits near 0: with u = 1 + x rounded, log(u) * x / (u - 1), or log(u) where x is large, or x
        where it is tiny. W. Kahan, in HP-15C Advanced Functions Handbook, 1982, appendix."""
        one = self._number(1)
        u = self._node("Add", [one, x])
        log_u, less = self._node("Log", [u]), self._node("Sub", [u, one])
        is_tiny, is_large = self._node("Equal", [u, one]), self._node("Equal", [u, x])
        exact = self._node("Div", [self._node("Mul", [log_u, x]), less])
        return self._node("Where", [is_tiny, x, self._node("Where", [is_large, log_u, exact])])

    def _expm1(self, x: str) -> str:
        """exp(x) - 1 without the loss of digits near 0: with u = exp(x) rounded, (u - 1) * x / log(u), u - 1 where u is 0 or large, or x
        where u is 1. W. Kahan; N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, 1.14.1."""
        one = self._number(1)
        u = self._node("Exp", [x])
        less = self._node("Sub", [u, one])
        is_tiny = self._node("Equal", [u, one])
        is_plain = self._node("Or", [self._node("Equal", [less, u]), self._node("Equal", [less, self._number(-1)])])
        exact = self._node("Div", [self._node("Mul", [less, x]), self._node("Log", [u])])
        return self._node("Where", [is_tiny, x, self._node("Where", [is_plain, less, exact])])

    # --- nodes

    def _number(self, value: float) -> str:
        if value not in self.numbers:
            exact = helper.make_tensor("", TensorProto.DOUBLE, [], [float(value)])
            self.numbers[value] = self._like(self._node("Constant", [], value=exact))
        return self.numbers[value]

    def _param(self, p: ParamSpec) -> str:
        if p.name not in self.numbers:
            if p.kind.base == "axis":
                raise NotComposed(f"it computes with the number of the axis {p.name}")
            self.numbers[p.name] = self._like(self._referred(p))
        return self.numbers[p.name]

    def _referred(self, p: ParamSpec) -> str:
        """The attribute of a parameter as a value."""
        if p.kind.base not in ATTRIBUTES or p.computed is not None or p.dyn:
            raise NotComposed(f"the parameter {p.name} is not a plain number")
        key, kind = ATTRIBUTES[p.kind.base]
        value = self._node("Constant", [])
        self.nodes[-1].attribute.append(AttributeProto(name=key, ref_attr_name=p.name, type=kind))
        return value

    def _attribute(self, p: ParamSpec) -> AttributeProto:
        """The attribute of a parameter, with its default."""
        match p.default:
            case Int(value) | Float(value):
                number = value
            case Unary("-", Int(value) | Float(value)):
                number = -value
            case _:
                raise NotComposed(f"the default of the parameter {p.name} is not a plain number")
        if p.kind.base not in ATTRIBUTES:
            raise NotComposed(f"the parameter {p.name} is not a plain number")
        return helper.make_attribute(p.name, float(number) if p.kind.base == "float" else int(number))

    def _like(self, value: str) -> str:
        """The value in the dtype of the operands."""
        if not self.like:
            raise NotComposed("no operand says the dtype of a number")
        return self._node("CastLike", [value, self.like])

    def _node(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: object) -> str:
        name = output or self._fresh()
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def _fresh(self) -> str:
        name = f"v{len(self.nodes)}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _outside_reductions(e: Node) -> list[TensorRead]:
    """What a value reads, but for what its reductions do."""
    if isinstance(e, TensorRead):
        return [e]
    return [] if isinstance(e, Reduction) else [r for part in children(e) for r in _outside_reductions(part)]


def _demand_shape(reads: Sequence[TensorRead], run: IndexVar) -> None:
    """Raises NotComposed unless what is read broadcasts to the shape of the result."""
    parts = [part for r in reads for part in r.parts]
    whole = any(isinstance(part, Exact) for part in parts)
    extents = {part.extents.id for part in parts if isinstance(part, Fit) and isinstance(part.extents, Name)}
    match run.extent:
        case Call("broadcast", args):
            whole = whole or all(isinstance(a, Name) and a.id in extents for a in args)
    if not whole:
        raise NotComposed("the shape of the result is not that of what it reads")
