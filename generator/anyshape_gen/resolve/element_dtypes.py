"""Infers the dtypes of expressions of kernels and procedures, for one choice of dtypes or in terms of the op's dtype variables.

In: resolved expressions, and the dtypes of tensors. Out: for each expression the dtype that `anyshape.equations.expr` gives it when a
kernel is built: literals and sizes adapt to what they meet, positions (index variables and what is computed of them) too. Of others that
meet, the first decides here; that they are one dtype is what `check.meeting` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from anyshape.dtypes import accum, highest, is_dtype_name, lowest, parse_dtype
from anyshape_gen.model.functions import BITS, CASTS, UNARY
from anyshape_gen.model.nodes import (
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Exact,
    Expr,
    Fit,
    Flat,
    Float,
    Generator,
    IfExp,
    Index,
    Int,
    Name,
    Node,
    Over,
    Placed,
    Reduction,
    Star,
    Str,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import children, walk

WEAK = ""
"""The dtype of literals and sizes, which adapt to any number."""
PLACE = "position"
"""The dtype of integers that are computed from index variables: i64 unless an operand of another dtype decides it."""
FRACTION = "a float"
"""The dtype of literals with a decimal point, which adapt to floats only."""
UNKNOWN = "?"
DEEPEST = 30
"""Calls of functions within one another that are looked through; the dtype of one that is deeper is not known"""
ADAPTING = (UNKNOWN, FRACTION, PLACE, WEAK)
"""The dtypes of what adapts to an operand of another, the strongest first."""
_MEETING = ("max", "min", "trunc_div", "fmod", "pow", "clamp", "reflect", *BITS)
_WEAK_CALLS = ("len", "rank", "prod", "lowest", "highest", "int", "ceil_div", "exact_div")
_CLASSES: Mapping[str, Callable[[str], bool]] = {
    "is_int": lambda t: parse_dtype(t).is_integer,
    "is_float": lambda t: parse_dtype(t).is_float,
    "is_narrow_float": lambda t: parse_dtype(t).is_narrow_float,
    "is_bool": lambda t: parse_dtype(t).is_bool,
}


class ElementDtypes:
    """The dtypes of expressions of one op. `dtypes`: a choice of the op's dtype variables; without one they stand for themselves.
    `held`: {tensor or variable of the kernel: its dtype}, whose elements are held in accum of it; `variables`: {name: its dtype}."""

    def __init__(
        self,
        spec: OpSpec,
        held: Mapping[str, str],
        variables: Mapping[str, str],
        dtypes: Mapping[str, str] | None = None,
    ) -> None:
        self.held, self.variables = dict(held), dict(variables)
        self.dtypes = {rule.var: rule.var for rule in spec.dtypes} if dtypes is None else dtypes
        self.tensors = {o.name: o.signature.dtype for o in (*spec.inputs, *spec.outputs)}
        self.functions = {f.name: f for f in spec.defines}
        self.results: dict[tuple[str, tuple[str, ...], bool], str] = {}
        self.depth = 0
        self.in_place = False
        """Whether the expression is an index or the end of a range, where integers of all dtypes are i64"""

    def named(self, name: str) -> str:
        """The dtype that a name stands for."""
        return self.dtypes.get(name, name if is_dtype_name(name) else UNKNOWN)

    def tensor(self, name: str) -> str:
        """The dtype of a tensor's elements; one of which nothing is known yet, as it is being defined, adapts."""
        if name in self.held:
            return wide(self.named(self.held[name]))
        return self.named(self.tensors[name]) if name in self.tensors else WEAK

    def stored(self, value: Node) -> str | None:
        """The dtype of a tensor or variable that is set to a value; None where nothing tells it, as of floats that are literals."""
        dtype = self.of(value)
        return "i64" if dtype in (WEAK, PLACE) else None if dtype in ADAPTING else dtype

    # --- operands that meet

    def met(self, node: Node, dtypes: Sequence[str]) -> str:
        """The dtype of an operation of operands of these dtypes: that of the first that does not adapt."""
        return self.either([wide(d) for d in dtypes])

    def either(self, dtypes: Sequence[str]) -> str:
        """The dtype of what has one of these dtypes, as is known when a kernel is built."""
        own = [d for d in dtypes if d not in ADAPTING]
        return own[0] if own else next((d for d in ADAPTING if d in dtypes), WEAK)

    def compared(self, node: Node, dtypes: Sequence[str]) -> None:
        """Called for every comparison."""

    def read_or(self, node: Node, dtype: str, outside: str) -> None:
        """Called for every read with what stands for elements outside of the tensor."""

    def truth(self, node: Expr) -> None:
        """Called for every condition."""
        self.value(node)

    # --- expressions

    def place(self, node: Node) -> str:
        """The dtype of an index or of the end of a range."""
        before, self.in_place = self.in_place, True
        dtype = self.of(node)
        self.in_place = before
        return dtype

    def index(self, node: Node) -> str:
        """The dtype of an index, or of the end of a range, as a whole; of several, the one that all have."""
        match node:
            case Exact(items) | Fit(items) | Flat(items):
                return self.either([self.index(item) for item in items] or [WEAK])
            case Placed(rest, picked):
                return self.either([self.index(item) for item in (*rest, *picked)])
            case Star(value):
                return self.index(value)
        return self.place(node)

    def value(self, node: Node) -> str:
        """The dtype of an expression that is no index, wherever it stands."""
        before, self.in_place = self.in_place, False
        dtype = self.of(node)
        self.in_place = before
        return dtype

    def of(self, node: Node) -> str:
        match node:
            case TensorRead():
                return self._read(node)
            case Name(id):
                return self.variables.get(id, WEAK)
            case Float():
                return FRACTION
            case Int() | Str():
                return WEAK
            case Bool():
                return "bool"
            case Unary("not", operand):
                self.truth(operand)
                return "bool"
            case Unary(_, operand):
                return wide(self.of(operand))
            case BinOp(_, left, right):
                return self.met(node, (self.of(left), self.of(right)))
            case Compare(first, rest):
                for before, after in zip((first, *(x for _, x in rest)), (x for _, x in rest)):
                    self.compared(node, (self.value(before), self.value(after)))
                return "bool"
            case BoolOp(_, items):
                for operand in items:
                    self.truth(operand)
                return "bool"
            case IfExp():
                return self._choice(node)
            case Reduction():
                return self._reduction(node)
            case Comprehension(element, generators, conditions):
                return self._over(generators, conditions, element)
            case Call(func, args, keywords):
                for _, argument in keywords:
                    self.value(argument)
                return self._call(node, func, args)
            case Index(base, items):
                for item in items:
                    self.index(item)
                if isinstance(base, Name) and base.id in {**self.tensors, **self.held}:
                    return self.tensor(base.id)
                return self.of(base)
            case VecLit(items):
                return self.either([self.of(item) for item in items])
        return self.either([self.of(part) for part in children(node)])

    def _read(self, node: TensorRead) -> str:
        for part in ([node.element] if node.element is not None else []) + list(node.parts):
            self.index(part)
        dtype = self.tensor(node.tensor)
        if node.outside is not None:
            self.read_or(node, dtype, self.value(node.outside))
        whole = self.in_place and is_dtype_name(dtype) and parse_dtype(dtype).is_integer and dtype != "char"
        return "i64" if whole else dtype

    def _choice(self, node: IfExp) -> str:
        known = self.holds(node.cond)
        if known is not None:
            return self.of(node.then if known else node.other)
        self.truth(node.cond)
        branches = self.of(node.then), self.of(node.other)
        if self._is_steady(node.cond):
            return self.either(branches)
        strong = {d for d in branches if d != WEAK}
        return strong.pop() if len(strong) == 1 else self.met(node, branches)

    def _is_steady(self, cond: Expr) -> bool:
        """Whether a condition reads no element and no variable, so that it may choose while a kernel is built."""
        nodes = list(walk(cond))
        return not any(isinstance(n, TensorRead) or (isinstance(n, Name) and n.id in self.variables) for n in nodes)

    def _reduction(self, e: Reduction) -> str:
        dtype = self._over(e.generators, (*e.conditions, *([e.element] if e.kind == "count" else [])), e.element)
        if e.kind in ("any", "all"):
            return "bool"
        if e.kind in ("count", "argmax", "argmin"):
            return "i64"
        dtype = "i64" if dtype == PLACE else dtype
        return wide(dtype) if e.kind in ("sum", "prod") else dtype

    def _over(self, generators: tuple[Generator, ...], conditions: tuple[Expr, ...], element: Expr) -> str:
        before = dict(self.variables)
        for g in generators:
            dtype = self.place(g.domain)
            items = dtype if len(g.targets) == 1 else UNKNOWN
            self.variables |= {t.name: items if g.over is Over.ITEMS else PLACE for t in g.targets}
        for c in conditions:
            self.truth(c)
        dtype = self.of(element)
        self.variables = before
        return dtype

    def _call(self, node: Call, func: str, args: Iterable[Node]) -> str:
        args = tuple(args)
        if func in ("cast", "saturate", "bitcast"):
            self.value(args[0])
            return self.named(args[1].id) if isinstance(args[1], Name) else UNKNOWN
        if func in self.dtypes or func in CASTS or is_dtype_name(func):
            for x in args:
                self.value(x)
            return self.named(func)
        if func in ("range", "wrap"):
            for x in args:
                self.index(x)
            return PLACE if func == "range" else "i64"
        dtypes = [self.of(x) for x in args]
        if func in self.functions:
            return self._inlined(func, tuple(dtypes))
        if func in _MEETING:
            return self.met(node, dtypes)
        if func in UNARY:
            return wide(dtypes[0])
        if func in ("present", "inside", "is_list", *_CLASSES):
            return "bool"
        if func in _WEAK_CALLS:
            return WEAK
        return "i64" if func in ("ravel", "unravel", "argsort", "entropy") else self.either(dtypes)

    def _inlined(self, func: str, dtypes: tuple[str, ...]) -> str:
        """The dtype of a call of a function of the spec, which is looked through once for the same dtypes of arguments."""
        f = self.functions[func]
        key = (func, dtypes, self.in_place)
        if key not in self.results and self.depth < DEEPEST:
            before, self.variables = self.variables, dict(zip(f.args, dtypes))
            self.depth += 1
            for assign in f.body:
                self.variables |= dict.fromkeys(assign.names, self.of(assign.value))
            self.results[key] = self.of(f.result)
            self.depth -= 1
            self.variables = before
        return self.results.get(key, UNKNOWN)

    # --- conditions that dtypes decide

    def holds(self, e: Expr) -> bool | None:
        """Whether a condition holds for the dtypes; None where they do not decide it."""
        match e:
            case Call(func, (Name(id),), _) if func in _CLASSES and is_dtype_name(self.named(id)):
                return _CLASSES[func](self.named(id))
            case Unary("not", operand):
                known = self.holds(operand)
                return None if known is None else not known
            case BoolOp(op, items):
                each = [self.holds(x) for x in items]
                if (op == "or") in each:
                    return op == "or"
                return None if None in each else op == "and"
            case Compare(first, rest):
                sides = [self._number(x) for x in (first, *(x for _, x in rest))]
                if all(s is not None for s in sides):
                    tests = zip(sides, rest, sides[1:])
                    return all(_COMPARE[op](left, right) for left, (op, _), right in tests if op in _COMPARE)
        return None

    def _number(self, e: Expr) -> float | None:
        """The value of an extreme of a dtype or of a literal."""
        match e:
            case Int(value) | Float(value):
                return value
            case Unary("-", operand):
                inner = self._number(operand)
                return None if inner is None else -inner
            case Call("lowest" | "highest" as func, (Name(id),), _) if is_dtype_name(self.named(id)):
                return float((lowest if func == "lowest" else highest)(self.named(id)))
        return None


_COMPARE: Mapping[str, Callable[[float | None, float | None], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a is not None and b is not None and a < b,
    "<=": lambda a, b: a is not None and b is not None and a <= b,
    ">": lambda a, b: a is not None and b is not None and a > b,
    ">=": lambda a, b: a is not None and b is not None and a >= b,
}


def wide(dtype: str) -> str:
    """The dtype that elements of a dtype are computed in; a dtype variable stands for both."""
    return str(accum(dtype)) if is_dtype_name(dtype) else dtype
