"""Checks that elements which meet in an operation are of one dtype, for every choice of dtypes that the signature allows.

In: an analysed op. Out: findings. The dtype of each expression is what `anyshape.equations.expr` gives it when a kernel is built: literals
and sizes adapt to what they meet, positions (index variables and what is computed of them) too; all else meets by a cast alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from anyshape.dtypes import accum, bitcast, highest, is_dtype_name, lowest, parse_dtype, promote
from anyshape.errors import DtypeError
from anyshape_gen.analysis_model import OpAnalysis, ResolvedKernel, Role
from anyshape_gen.body_nodes import Branch, For, Set, Step, While
from anyshape_gen.emit.element_dtypes import ElementDtypes
from anyshape_gen.emit.kernel_scope import BITS, UNARY
from anyshape_gen.emit.refusal import NotExecuted
from anyshape_gen.functions import CASTS
from anyshape_gen.nodes import (
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    Generator,
    IfExp,
    Index,
    Int,
    Name,
    Node,
    Over,
    Reduction,
    Str,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.parse_values import DTYPES
from anyshape_gen.printer import to_text
from anyshape_gen.source import Findings
from anyshape_gen.traverse import children, walk

WEAK = ""
"""The dtype of literals and sizes, which adapt to any number."""
PLACE = "position"
"""The dtype of integers that are computed from index variables: i64 unless an operand of another dtype decides it."""
FRACTION = "a float"
"""The dtype of literals with a decimal point, which adapt to floats only."""
UNKNOWN = "?"
DEEPEST = 30
"""Calls of functions within one another that are looked through; the dtype of one that is deeper is not known"""
_MEETING = ("max", "min", "trunc_div", "fmod", "pow", "clamp", "reflect", *BITS)
_WEAK_CALLS = ("len", "rank", "prod", "lowest", "highest", "int", "ceil_div", "exact_div")
_CLASSES: Mapping[str, Callable[[str], bool]] = {
    "is_int": lambda t: parse_dtype(t).is_integer,
    "is_float": lambda t: parse_dtype(t).is_float,
    "is_narrow_float": lambda t: parse_dtype(t).is_narrow_float,
    "is_bool": lambda t: parse_dtype(t).is_bool,
}


def check_meeting(a: OpAnalysis, findings: Findings) -> None:
    """Checks every equation, step and assert on elements of an op."""
    for conditions, nodes, variables in _pieces(a):
        for dtypes in _choices(a, _mentioned(a, [*conditions, *nodes])):
            checker = Meeting(a, dtypes, variables)
            if any(checker.holds(c) is False for c in conditions):
                continue
            for node in nodes:
                checker.of(node)
            for node, words in checker.disagreements:
                findings.add(node.span, words)
            if checker.disagreements:
                break


def _pieces(a: OpAnalysis) -> Iterator[tuple[tuple[Expr, ...], list[Node], dict[str, str]]]:
    """Yields what is computed together: conditions that it depends on, expressions, variables with their dtypes."""
    for check in a.reading:
        yield (), [check.cond], {}
    if a.kernel is not None:
        for q in a.kernel.equations:
            variables = {v.name: WEAK if v.role is Role.ELEMENT else PLACE for v in q.vars}
            yield q.conditions, [*q.parts, q.value], variables
        for born in a.kernel.born:
            yield (), [born.value], {}
    if a.procedure is not None:
        yield (), list(a.procedure.steps), {}


def _mentioned(a: OpAnalysis, nodes: Iterable[Node]) -> set[str]:
    """Collects the dtype variables that some expressions depend on."""
    rules = {rule.var: rule for rule in a.spec.dtypes}
    tensors = {o.name: o.signature.dtype for o in (*a.spec.inputs, *a.spec.outputs)}
    names: set[str] = set()
    functions = [part for f in a.kernel_functions for part in (*f.body, f.result)]
    for node in (n for part in (*nodes, *functions) for n in walk(part)):
        match node:
            case TensorRead(tensor) if tensor in tensors:
                names.add(tensors[tensor])
            case TensorRead():
                return set(rules)
            case Name(id) | Call(func=id):
                names.add(id)
    for name in list(names & set(rules)):
        expr = rules[name].expr
        names |= {n.id for n in walk(expr) if isinstance(n, Name)} if expr is not None else set()
    return names & set(rules)


def _choices(a: OpAnalysis, variables: set[str]) -> Iterator[dict[str, str]]:
    """Yields every choice of dtypes of the `variables`, with the dtypes that follow from it."""
    drawn = {rule.var: rule.choices for rule in a.spec.dtypes if rule.choices and rule.var in variables}
    parameters = {p.name for p in a.spec.params if p.kind.base == "dtype"}
    chosen = {rule.expr.id for rule in a.spec.dtypes if isinstance(rule.expr, Name) and rule.var in variables}
    drawn |= dict.fromkeys(sorted(chosen & parameters), DTYPES)
    for values in product(*drawn.values()):
        dtypes = dict(zip(drawn, values))
        try:
            for rule in a.spec.dtypes:
                if rule.expr is not None and rule.var in variables:
                    dtypes[rule.var] = _computed(rule.expr, dtypes)
        except (DtypeError, KeyError):
            continue  # no call is of such dtypes
        yield dtypes


def _computed(e: Expr, dtypes: Mapping[str, str]) -> str:
    match e:
        case Name(id):
            return dtypes[id] if id in dtypes else str(parse_dtype(id))
        case Call(func, args, _):
            functions: Mapping[str, Callable[..., str]] = {"accum": accum, "promote": promote, "bitcast": bitcast}
            return str(functions[func](*(_computed(x, dtypes) for x in args if isinstance(x, Name))))
    raise KeyError(to_text(e))


class Meeting:
    """The dtypes of expressions for one choice of dtypes; `disagreements` has the operations in which several meet."""

    def __init__(self, a: OpAnalysis, dtypes: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self.a, self.dtypes, self.variables = a, dtypes, dict(variables)
        self.functions = {f.name: f for f in a.kernel_functions}
        self.disagreements: list[tuple[Node, str]] = []
        self.tensors = {o.name: o.signature.dtype for o in (*a.spec.inputs, *a.spec.outputs)}
        self.inferred: ElementDtypes | None = None
        self.results: dict[tuple[str, tuple[str, ...], bool], str] = {}
        self.depth = 0
        self.in_place = False
        """Whether the expression is an index or the end of a range, where integers of all dtypes are i64"""
        if a.kernel is not None:
            self.inferred = ElementDtypes(a, a.kernel)
        if a.procedure is not None:
            own = {**a.procedure.variables, **{s.name: s.dtype or "i64" for s in a.procedure.arrays}}
            self.tensors |= {name: str(accum(t)) if is_dtype_name(t) else t for name, t in own.items()}
            self.scratch = set(own)
        else:
            self.scratch = set()

    # --- dtypes of tensors

    def named(self, name: str) -> str:
        """The dtype that a name stands for."""
        return self.dtypes.get(name, name if is_dtype_name(name) else UNKNOWN)

    def tensor(self, name: str) -> str:
        if name in self.tensors:
            dtype = self.named(self.tensors[name])
            return str(accum(dtype)) if name in self.scratch and dtype != UNKNOWN else dtype
        kernel = self.a.kernel
        if kernel is None or self.inferred is None:
            return UNKNOWN
        dtype = self.named(self._scratch(kernel, name) or UNKNOWN)
        return dtype if dtype == UNKNOWN else str(accum(dtype))

    def _scratch(self, kernel: ResolvedKernel, name: str) -> str | None:
        assert self.inferred is not None
        own = next((s for s in kernel.scratch if s.name == name), None)
        if own is not None and own.dtype is not None:
            return own.dtype
        first = next((q for q in kernel.equations if q.target.tensor == name), None)
        try:
            return None if first is None else self.inferred.of(first.value)
        except NotExecuted:
            return None

    # --- expressions

    def place(self, node: Node) -> str:
        """The dtype of an index or of the end of a range."""
        before, self.in_place = self.in_place, True
        dtype = self.of(node)
        self.in_place = before
        return dtype

    def value(self, node: Node) -> str:
        """The dtype of an expression that is no index, wherever it stands."""
        before, self.in_place = self.in_place, False
        dtype = self.of(node)
        self.in_place = before
        return dtype

    def of(self, node: Node) -> str:
        match node:
            case TensorRead(tensor, element, parts, outside):
                return self.read(node, tensor, element, parts, outside)
            case Name(id):
                return self.variables.get(id, WEAK)
            case Float():
                return FRACTION
            case Int() | Str():
                return WEAK
            case Bool():
                return "bool"
            case Unary("not", operand):
                self.value(operand)
                return "bool"
            case Unary(_, operand):
                return _wide(self.of(operand))
            case BinOp(_, left, right):
                return self.meet(node, (left, right))
            case Compare(first, rest):
                for before, after in zip((first, *(x for _, x in rest)), (x for _, x in rest)):
                    self.compare(node, before, after)
                return "bool"
            case BoolOp(_, items):
                for operand in items:
                    self.value(operand)
                return "bool"
            case IfExp(cond, then, other):
                return self.choice(node, cond, then, other)
            case Reduction():
                return self.reduction(node)
            case Comprehension(element, generators, conditions):
                return self.over(generators, conditions, element)
            case Call(func, args, keywords):
                for _, argument in keywords:
                    self.value(argument)
                return self.call(node, func, args)
            case Index(base, items):
                for item in items:
                    self.place(item)
                return self.of(base)
            case VecLit(items):
                dtypes = {self.of(item) for item in items}
                return dtypes.pop() if len(dtypes) == 1 else UNKNOWN
            case Set(value=value):
                self.of(value)
                for target in node.targets:
                    for part in target.parts:
                        self.place(part)
                return UNKNOWN
            case For() | While() | Branch():
                return self.step(node)
        dtypes = {self.of(part) for part in children(node)}
        return dtypes.pop() if len(dtypes) == 1 else UNKNOWN

    def read(self, node: Node, tensor: str, element: Expr | None, parts: Iterable[Node], outside: Expr | None) -> str:
        for part in ([element] if element is not None else []) + list(parts):
            self.place(part)
        dtype = self.tensor(tensor)
        if outside is not None:
            beyond = self.value(outside)
            if beyond not in (WEAK, FRACTION, UNKNOWN, dtype) and dtype != UNKNOWN:
                self.report(node, (dtype, beyond))
        whole = self.in_place and dtype != UNKNOWN and parse_dtype(dtype).is_integer and dtype != "char"
        return "i64" if whole else dtype

    def compare(self, node: Node, left: Node, right: Node) -> None:
        dtypes = self.value(left), self.value(right)
        strong = {_wide(d) for d in dtypes if d != WEAK}
        if PLACE in strong and all(d == PLACE or (is_dtype_name(d) and parse_dtype(d).is_integer) for d in strong):
            strong -= {PLACE}
        self.met(node, dtypes, strong)

    def meet(self, node: Node, operands: Iterable[Node]) -> str:
        dtypes = [self.of(x) for x in operands]
        return self.met(node, dtypes, {_wide(d) for d in dtypes if d != WEAK})

    def met(self, node: Node, dtypes: Iterable[str], strong: set[str]) -> str:
        """The dtype of an operation of operands of these dtypes; a finding where they are several."""
        if UNKNOWN in strong:
            return UNKNOWN
        if len(strong) > 1 and PLACE in strong and not strong & {"bool", "char"}:
            strong = strong - {PLACE}
        if FRACTION in strong and all(d == FRACTION or (is_dtype_name(d) and parse_dtype(d).is_float) for d in strong):
            strong = strong - {FRACTION}
            return strong.pop() if len(strong) == 1 else FRACTION if not strong else self.met(node, dtypes, strong)
        if len(strong) > 1:
            self.report(node, [d for d in dtypes if d != WEAK])
            return UNKNOWN
        return strong.pop() if strong else WEAK

    def report(self, node: Node, dtypes: Iterable[str]) -> None:
        names = list(dict.fromkeys("i64" if d == PLACE else d for d in dtypes))
        mentioned = _names(node, self) & set(self.dtypes) or set(self.dtypes)
        chosen = [f"{var} is {self.dtypes[var]}" for var in sorted(mentioned)]
        where = f" where {' and '.join(chosen)}" if chosen else ""
        text = to_text(node)
        for name in self.a.procedure.variables if self.a.procedure is not None else ():
            text = text.replace(f"{name}[()]", name)
        self.disagreements.append(
            (node, f"{' and '.join(names)} meet in `{text}`{where}: write `cast(value, dtype)` around one of them")
        )

    def choice(self, node: IfExp, cond: Expr, then: Expr, other: Expr) -> str:
        known = self.holds(cond)
        if known is not None:
            return self.of(then if known else other)
        self.value(cond)
        branches = self.of(then), self.of(other)
        if self.is_steady(cond):
            return branches[0] if branches[0] == branches[1] else UNKNOWN
        strong = {d for d in branches if d != WEAK}
        if len(strong) == 1:
            return strong.pop()
        return self.met(node, branches, {_wide(d) for d in strong})

    def is_steady(self, cond: Expr) -> bool:
        """Whether a condition reads no element and no variable, so that it may choose while a kernel is built."""
        nodes = list(walk(cond))
        return not any(isinstance(n, TensorRead) or (isinstance(n, Name) and n.id in self.variables) for n in nodes)

    def reduction(self, e: Reduction) -> str:
        dtype = self.over(e.generators, e.conditions, e.element)
        if e.kind in ("any", "all"):
            return "bool"
        if e.kind in ("count", "argmax", "argmin"):
            return "i64"
        dtype = "i64" if dtype == PLACE else dtype
        return _wide(dtype) if e.kind in ("sum", "prod") else dtype

    def over(self, generators: tuple[Generator, ...], conditions: tuple[Expr, ...], element: Expr) -> str:
        before = dict(self.variables)
        for g in generators:
            dtype = self.place(g.domain)
            items = dtype if len(g.targets) == 1 else UNKNOWN
            self.variables |= {t.name: items if g.over is Over.ITEMS else PLACE for t in g.targets}
        for c in conditions:
            self.value(c)
        dtype = self.of(element)
        self.variables = before
        return dtype

    def call(self, node: Call, func: str, args: Iterable[Node]) -> str:
        args = tuple(args)
        if func in ("cast", "saturate", "bitcast"):
            self.value(args[0])
            return self.named(args[1].id) if isinstance(args[1], Name) else UNKNOWN
        if func in self.dtypes or func in CASTS or is_dtype_name(func):
            for x in args:
                self.value(x)
            return self.named(func)
        if func in self.functions:
            return self.inlined(func, args)
        if func in _MEETING:
            return self.meet(node, args)
        dtypes = [self.of(x) for x in args]
        if func in UNARY:
            return _wide(dtypes[0])
        if func in ("present", "inside", "is_list", *_CLASSES):
            return "bool"
        if func in _WEAK_CALLS:
            return WEAK
        if func in ("wrap", "ravel", "unravel", "argsort", "entropy"):
            return "i64"
        return UNKNOWN if func != "range" else PLACE

    def inlined(self, func: str, args: tuple[Node, ...]) -> str:
        """The dtype of a call of a function of the spec, which is looked through once for the same dtypes of arguments."""
        f = self.functions[func]
        dtypes = tuple(self.of(x) for x in args)
        key = (func, dtypes, self.in_place)
        if key not in self.results and self.depth < DEEPEST:
            before, self.variables = self.variables, dict(zip(f.args, dtypes))
            self.depth += 1
            for assign in f.body:
                dtype = self.of(assign.value)
                self.variables |= dict.fromkeys(assign.names, dtype)
            self.results[key] = self.of(f.result)
            self.depth -= 1
            self.variables = before
        return self.results.get(key, UNKNOWN)

    def step(self, step: For | While | Branch) -> str:
        before = dict(self.variables)
        match step:
            case For(targets=targets, domain=domain, body=body):
                items = self.place(domain)
                self.variables |= {t.name: items if step.over is Over.ITEMS else PLACE for t in targets}
                if isinstance(domain, Call) and domain.func == "argsort":
                    self.variables |= {t.name: "i64" for t in targets}
            case While(cond=cond, limit=limit, body=body):
                self.value(cond)
                self.place(limit)
            case Branch(cond=cond, then=then, other=other):
                known = self.holds(cond)
                self.value(cond)
                body = (*(then if known is not False else ()), *(other if known is not True else ()))
        self.block(body)
        self.variables = before
        return UNKNOWN

    def block(self, steps: tuple[Step, ...]) -> None:
        for s in steps:
            self.of(s)

    # --- conditions that dtypes decide

    def holds(self, e: Expr) -> bool | None:
        """Whether a condition holds for the dtypes; None where they do not decide it."""
        match e:
            case Call(func, (Name(id),), _) if func in _CLASSES and self.named(id) != UNKNOWN:
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
                sides = [self.number(x) for x in (first, *(x for _, x in rest))]
                if all(s is not None for s in sides):
                    tests = zip(sides, rest, sides[1:])
                    return all(_COMPARE[op](left, right) for left, (op, _), right in tests if op in _COMPARE)
        return None

    def number(self, e: Expr) -> float | None:
        """The value of an extreme of a dtype or of a literal."""
        match e:
            case Int(value) | Float(value):
                return value
            case Unary("-", operand):
                inner = self.number(operand)
                return None if inner is None else -inner
            case Call("lowest" | "highest" as func, (Name(id),), _) if self.named(id) != UNKNOWN:
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


def _wide(dtype: str) -> str:
    return str(accum(dtype)) if is_dtype_name(dtype) else dtype


def _names(node: Node, checker: Meeting) -> set[str]:
    """Collects the dtype variables that an expression mentions, by itself or by tensors that it reads."""
    names = {n.id if isinstance(n, Name) else n.func for n in walk(node) if isinstance(n, (Name, Call))}
    return names | {checker.tensors.get(n.tensor, "") for n in walk(node) if isinstance(n, TensorRead)}
