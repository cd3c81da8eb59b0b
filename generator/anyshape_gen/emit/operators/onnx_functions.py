"""Emits ops as functions of ONNX, which any engine runs: one FunctionProto for each op whose equations are compositions of ONNX's
operators.

In: an analysed op. Out: a FunctionProto, or NotComposed with the reason. An equation is one if each of its elements is computed of elements
at the same position: `y[*i] = x[*i] * tanh(alpha * x[*i])`, broadcast operands included, and of reductions along some dims and runs of the
largest operand: `total[*a, *b] = sum(exp(x[*a, k, *b]) for k in n)`. Within a function every value has all axes of that operand
(`onnx_frame`). A function is for floats, and computes in the dtype of its operands, where the op may compute in f32 for those of 16 bits.
Parameters are attributes; operands with a default are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from onnx import FunctionProto, ModelProto, helper

from anyshape_gen.emit.operators.onnx_frame import Axes, Frame, NotComposed, index_items, variable
from anyshape_gen.emit.operators.onnx_nodes import Nodes, attribute_with_default
from anyshape_gen.model.analysis import Analysis, IndexVar, OpAnalysis, ResolvedEquation
from anyshape_gen.model.nodes import (
    Assign,
    BinOp,
    BoolOp,
    Call,
    Compare,
    Exact,
    Fit,
    Float,
    Function,
    Generator,
    IfExp,
    Int,
    Name,
    Node,
    Over,
    Reduction,
    Star,
    Str,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.model.spec import Operand
from anyshape_gen.model.traverse import children, walk

OPSET = 19
"""The version of ONNX's operators in functions: CastLike, Mod of floats, Equal of strings"""
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


@dataclass(frozen=True)
class Emitted:
    """A model that has the functions and an empty graph, and of the other ops why they have none."""

    model: ModelProto
    left_out: dict[str, str]


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
    if s.optional:
        raise NotComposed(f"{operand.name} may be left out")
    rule = next((r for r in op.spec.dtypes if r.var == s.dtype), None)
    if rule is not None and rule.choices and "f32" not in rule.choices:
        raise NotComposed(f"{operand.name} is not of floats")
    if rule is None and s.dtype != "bool":
        raise NotComposed(f"{operand.name} is always {s.dtype}")
    if rule is not None and not rule.choices and not isinstance(rule.expr, Call):
        raise NotComposed(f"the dtype of {operand.name} is computed")


class _Body:
    """Nodes of one function. Expressions become names of values."""

    def __init__(self, op: OpAnalysis) -> None:
        self.op = op
        scratch = [s.name for s in op.kernel.scratch] if op.kernel else []
        self.nodes = Nodes(op.spec, {*scratch, *(o.name for o in (*op.spec.inputs, *op.spec.outputs))})
        self.params = {p.name: p for p in op.spec.params}
        self.functions = {f.name: f for f in op.kernel_functions}
        self.dtypes = {r.var for r in op.spec.dtypes}
        self.frame = Frame.of(op.spec)
        self.axes = Axes(self.frame, self.nodes.node, self.nodes.referred) if self.frame else None
        self.vars: dict[str, str] = {}
        """The variable of each dim and run of the frame, where a value becomes nodes"""
        self.whole = frozenset(scratch)
        """Tensors that have all axes of the frame"""
        self.defined: set[str] = set()

    def function(self, domain: str) -> FunctionProto:
        kernel, spec = self.op.kernel, self.op.spec
        assert kernel is not None
        applying = [(e, left) for e in kernel.equations if (left := self._conditions_left(e)) is not None]
        for tensor, cases in groupby(applying, lambda case: case[0].target.tensor):
            self._tensor(tensor, [(left, e) for e, left in cases])
        if not {o.name for o in spec.outputs} <= self.defined:
            raise NotComposed("no equation defines an output for operands of floats")
        params = [p for p in spec.params if not any(Name(p.name) == q.empty for q in spec.params)]
        defaults = {p.name: attribute_with_default(p) for p in params}
        return helper.make_function(
            domain,
            spec.name,
            [o.name for o in spec.inputs],
            [o.name for o in spec.outputs],
            self.nodes.written,
            [helper.make_opsetid("", OPSET)],
            [name for name, attribute in defaults.items() if attribute is None],
            [attribute for attribute in defaults.values() if attribute is not None],
            doc_string=spec.summary,
        )

    def _conditions_left(self, e: ResolvedEquation) -> list[Node] | None:
        """The conditions of an equation that operands of floats leave open, which are of parameters; None if it does not apply."""
        left = list[Node]()
        for condition in e.conditions:
            match _of_floats(condition, self.dtypes):
                case False:
                    return None
                case None:
                    left.append(condition)
        return left

    def _tensor(self, tensor: str, cases: Sequence[tuple[list[Node], ResolvedEquation]]) -> None:
        """The equations that define a tensor: one, or several of which conditions of parameters choose one, the last where no other
        holds."""
        if tensor in self.defined:
            raise NotComposed(f"equations of {tensor} stand apart")
        self.defined.add(tensor)
        result = self._equation(cases[-1][1])
        for conditions, e in cases[-2::-1]:
            holds = self.nodes.fold("And", [self._value(c, {}) for c in conditions])
            result = self.nodes.node("Where", [holds, self._equation(e), result])
        self.nodes.node("Identity", [result], tensor)

    def _equation(self, e: ResolvedEquation) -> str:
        if e.op != "=" or e.generators or e.recurrence is not None:
            raise NotComposed("an equation is an update or a recurrence")
        match e.vars:
            case (IndexVar(_, True, Call("broadcast")),):
                return self._elementwise(e)
            case _:
                return self._framed(e)

    def _elementwise(self, e: ResolvedEquation) -> str:
        """An equation at all positions to which operands broadcast."""
        reads = [n for n in walk(e.value) if isinstance(n, TensorRead)]
        for read in reads:
            self._demand_same_position(read, e)
        _demand_shape(reads, e.vars[0])
        self.vars = {}
        return self._value(e.value, {})

    def _framed(self, e: ResolvedEquation) -> str:
        """An equation at the positions of some dims and runs of the frame."""
        variables = {v.name: v.extent for v in e.vars}
        items = index_items(e.parts)
        names = [variable(i) for i in items or ()]
        if items is None or set(names) != variables.keys() or len(names) != len(variables):
            raise NotComposed("positions are computed")
        extents = [variables[n] for n in names if n is not None]
        sizes = [x.id for x in extents if isinstance(x, Name)]
        ones = dict(self._kept_as_one(x) for x in extents if not isinstance(x, Name))
        if len(sizes) + len(ones) != len(extents) or not self._is_of_frame((*sizes, *ones)):
            raise NotComposed("positions are not those of dims and runs of one operand, in their order")
        self.vars = {x.id: v for v, x in variables.items() if isinstance(x, Name)}
        if self._depends(e.value) != set(sizes):
            raise NotComposed("the shape of the result is not that of what it reads")
        value = self._value(e.value, {})
        if self.axes is None or e.target.tensor in self.whole:
            return value
        dropped = [s for s in self.axes.frame.sizes if s not in sizes and s not in ones]
        if dropped:
            value = self.nodes.node("Squeeze", [*self.nodes.with_one_more(value, self.axes.of_all(dropped))])
        for size, param in ones.items():
            if param is not None:
                value = self.nodes.squeezed_unless(param, value, self.axes.of(size))
        return value

    def _kept_as_one(self, extent: Node) -> tuple[str, str | None]:
        """The piece of the frame in whose place dims of size 1 stand, and the parameter that says whether they do: a run,
        `fill(len(n), 1)`, or what a rule keeps, `kept = axes if keepdims else []`."""
        match extent:
            case Call("fill", (Call("len", (Name(id),)), Int(1))) if self.frame is not None:
                if self.frame.covers([id]):
                    return id, None
                for step in self.op.spec.shape:
                    match step:
                        case Assign((name,), IfExp(Name(param), axes, VecLit(()))) if (
                            name == id and param in self.params
                        ):
                            if (size := self.frame.at(axes)) is not None:
                                return size, param
        raise NotComposed("positions are not those of dims and runs of one operand, in their order")

    def _is_of_frame(self, sizes: Sequence[str]) -> bool:
        return not sizes if self.frame is None else self.frame.covers(sizes) and self.frame.in_order(sizes)

    def _depends(self, e: Node) -> set[str]:
        """The dims and runs of the frame that a value depends on: has more than one position along."""
        match e:
            case TensorRead():
                return set(self._sizes_of(e))
            case Reduction(_, element, generators):
                reduced = {g.domain.id for g in generators if isinstance(g.domain, Name)}
                with self._along(generators):
                    return self._depends(element) - reduced
        return set().union(*(self._depends(part) for part in children(e)))

    @contextmanager
    def _along(self, generators: Sequence[Generator]) -> Iterator[None]:
        """What is done with the variables of a reduction in place of those along the same dims."""
        outer = self.vars
        self.vars = outer | {g.domain.id: g.targets[0].name for g in generators if isinstance(g.domain, Name)}
        try:
            yield
        finally:
            self.vars = outer

    def _sizes_of(self, read: TensorRead) -> tuple[str, ...]:
        """The dims and runs that a read has, in order; those to which it is broadcast are not among them. Raises NotComposed for a read at
        other positions than those of the variables."""
        if read.outside is None and read.element is None and read.tensor not in {o.name for o in self.op.spec.outputs}:
            size_of = {v: s for s, v in self.vars.items()}
            match read.parts:
                case (Fit(fitted, Name()),) if self._reaches_the_last([size_of.get(variable(i) or "") for i in fitted]):
                    return ()
            items = index_items(read.parts)
            sizes = tuple(size_of.get(variable(i) or "", "") for i in items or ())
            if items is not None and self._is_of_frame(sizes):
                return sizes
        raise NotComposed(
            f"it reads {read.tensor} at other positions than that of the result and those along its reductions"
        )

    def _reaches_the_last(self, sizes: Sequence[str | None]) -> bool:
        """Whether sizes are the last ones of the frame, to which ONNX broadcasts."""
        return self.frame is not None and bool(sizes) and tuple(sizes) == self.frame.sizes[-len(sizes) :]

    def _read(self, read: TensorRead) -> str:
        """What is read, with all axes of the frame."""
        if not self.vars or self.frame is None or self.axes is None or read.tensor in self.whole:
            return read.tensor
        sizes = self._sizes_of(read)
        missing = [s for s in self.frame.sizes if s not in sizes]
        if not sizes or not missing or (self.frame.sizes[-len(sizes) :] == sizes and self.frame.is_linear):
            return read.tensor
        return self.nodes.node("Unsqueeze", [read.tensor, self.axes.of_all(missing)])

    def _reduction(self, r: Reduction, local: dict[str, str]) -> str:
        if r.kind not in REDUCTIONS or r.conditions or r.keywords:
            raise NotComposed(f"ONNX has no operator for this {r.kind}")
        sizes = [g.domain.id for g in r.generators if isinstance(g.domain, Name)]
        is_whole = len(sizes) == len(r.generators) and all(g.over in (Over.EXTENT, Over.EXTENTS) for g in r.generators)
        if self.axes is None or not is_whole or not self.axes.frame.covers(sizes):
            raise NotComposed(f"a {r.kind} is along no dims of the largest operand")
        with self._along(r.generators):
            if not set(sizes) <= self._depends(r.element):
                raise NotComposed(f"a {r.kind} reads nothing along its dims")
            element = self._value(r.element, local)
        return self.nodes.node(
            REDUCTIONS[r.kind], [element, self.axes.of_all(sizes)], keepdims=1, noop_with_empty_axes=1
        )

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
            case TensorRead():
                return self._read(e)
            case Int(value) | Float(value):
                return self.nodes.number(value)
            case Str(text):
                return self.nodes.node("Constant", [], value_string=text)
            case Name(id) if id in local:
                return local[id]
            case Name(id) if id in self.params:
                return self.nodes.param(id)
            case Name(id) if id in NUMBERS:
                return self.nodes.number(NUMBERS[id])
            case Name(size) | Call("prod", (Name(size),), ()) if self.axes and self.axes.frame.covers([size]):
                return self.nodes.like(self.axes.extent(size))
            case Unary("-", Int(value) | Float(value)):
                return self.nodes.number(-value)
            case Unary(op, operand):
                return self.nodes.node("Neg" if op == "-" else "Not", [self._value(operand, local)])
            case BinOp("//", left, right):
                return self.nodes.node(
                    "Floor", [self.nodes.node("Div", [self._value(left, local), self._value(right, local)])]
                )
            case BinOp(op, left, right) if op in ARITHMETIC:
                return self.nodes.node(ARITHMETIC[op], [self._value(left, local), self._value(right, local)])
            case Compare(first, rest):
                return self._comparison(first, rest, local)
            case BoolOp(op, items):
                return self.nodes.fold(op.capitalize(), [self._value(i, local) for i in items])
            case IfExp(cond, then, other):
                return self.nodes.node("Where", [self._value(x, local) for x in (cond, then, other)])
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
                return self.nodes.node(func.capitalize(), [self._value(a, local) for a in args])
            case "fmod", (x, y):
                return self.nodes.node("Mod", [self._value(x, local), self._value(y, local)], fmod=1)
            case "log1p", (x,):
                return self.nodes.log1p(self._value(x, local))
            case "expm1", (x,):
                return self.nodes.expm1(self._value(x, local))
            case _ if func in OPERATORS:
                return self.nodes.node(OPERATORS[func], [self._value(a, local) for a in args])
        raise NotComposed(f"ONNX has no operator for {func} of elements")

    def _cast(self, e: Node, local: dict[str, str]) -> str:
        """The value in the dtype of the operands, which numbers have already: it is another one for truths alone."""
        value = self._value(e, local)
        is_truth = isinstance(e, Compare | BoolOp) or (isinstance(e, Unary) and e.op == "not")
        return self.nodes.like(value) if is_truth else value

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
                held.append(self.nodes.node("Not", [self.nodes.node("Equal", [left, right])]))
            elif op in COMPARISONS:
                held.append(self.nodes.node(COMPARISONS[op], [left, right]))
            else:
                raise NotComposed(f"ONNX has no operator for {op} of elements")
            left = right
        return self.nodes.fold("And", held)


def _of_floats(condition: Node, dtypes: set[str]) -> bool | None:
    """A condition whose dtypes are floats; None where it is of something else."""
    match condition:
        case Call("is_float" | "is_int" as func, (Name(id),)) if id in dtypes:
            return func == "is_float"
        case Unary("not", operand):
            value = _of_floats(operand, dtypes)
            return None if value is None else not value
        case BoolOp(op, items):
            values = [_of_floats(i, dtypes) for i in items]
            decided = op == "or"
            return decided if decided in values else None if None in values else not decided
    return None


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
