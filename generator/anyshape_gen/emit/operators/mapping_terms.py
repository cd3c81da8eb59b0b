"""Emits terms and conditions of mappings as Python: calls of ops, and expressions over attributes, ranks and dtypes.

In: nodes of mappings. Out: Python expressions. Attributes are plain Python values when a model is imported, so expressions over them are
emitted as plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anyshape_gen.check.onnx import ATEN_FUNCTIONS, SEVERAL
from anyshape_gen.emit.calls.api import python_name
from anyshape_gen.emit.operators.dialects import Dialect
from anyshape_gen.emit.text.module import number_text, quoted, use
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.functions import LIST_FUNCTIONS
from anyshape_gen.model.nodes import (
    AttrRead,
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Expr,
    Float,
    IfExp,
    Index,
    Int,
    Message,
    Name,
    Node,
    NoneLit,
    Return,
    Star,
    Str,
    Unary,
    VecLit,
)  # fmt: skip
from anyshape_gen.model.spec import OnnxMapping, Operand, OpSpec, ParamSpec, TermFunction
from anyshape_gen.model.traverse import walk_all
from anyshape_gen.parse.values import DTYPES, OTHER_DTYPES

NEGATED = {"==": "!=", "!=": "==", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}


class MappingTerms:
    """Emits the expressions of one Python function: a mapping, or a function that mappings share."""

    def __init__(self, specs: Mapping[str, OpSpec], functions: Iterable[TermFunction], dialect: Dialect) -> None:
        self.specs, self.dialect = specs, dialect
        self.functions = {f.name: f for f in functions}
        self.names: dict[str, str] = {}
        self.absent: set[str] = set()
        """Names of values that may be absent: inputs of the node and arguments of a function"""
        self.verbatim = False
        """Whether texts are contents of tensors; any other text is an enumeration, of which an empty one stands for the default"""

    def negated(self, cond: Expr) -> str:
        match cond:
            case Compare(first, ((op, second),)) if op in NEGATED:
                return f"{self._brackets(first)} {NEGATED[op]} {self._brackets(second)}"
            case Unary("not", operand):
                return self.text(operand)
        return f"not {self._brackets(cond)}"

    def own_call(self, spec: OpSpec | None, m: OnnxMapping) -> str:
        """Emits a call of the op itself with the arguments."""
        assert spec is not None  # a file's own mapping is a term
        operands = [o.name for o in spec.inputs]
        sources = {argument.name: argument for argument in m.arguments}
        words: list[str] = []
        for name in operands:
            if name in sources:
                words.append(self.names[name] if len(words) == operands.index(name) else f"{name}={self.names[name]}")
        for p in spec.params:
            if p.name in sources:
                words.append(f"{python_name(p.name)}={self.param(p, sources[p.name].source, sources[p.name].expr)}")
        if any(o.signature.variadic is not None for o in spec.outputs):
            words.append("outputs=n.output_count")
        call = f"{use('api')}.{python_name(spec.name)}({', '.join([*words, 'source=n.source'])})"
        return call if spec.returns_tuple else f"[{call}]"

    def results(self, term: Node) -> str:
        """Emits a term as the sequence of a node's outputs: several are a list, or those of an op that has several."""
        match term:
            case IfExp(cond, then, other):
                return f"({self.results(then)} if {self.text(cond)} else {self.results(other)})"
            case VecLit(items):
                return f"[{', '.join(self._argument(i) for i in items)}]"
            case Call("each", (inner, *groups), ()):
                return self._each(inner, groups)
            case Call(func, _, _) if self._is_tuple(func):
                return self._term(term)
            case Call(func, _, _) if func in SEVERAL and not self.dialect.has_versions:
                return f"[*{self.text(term)}]"
            case Call(func, _, _) if func in self.functions and self._gives_several(func):
                return f"[*{self._term(term)}]"
            case Name(id) if id in self.names:
                return f"[{use('needed')}(n, {self.names[id]}, {quoted(id)})]"
        return f"[{self._argument(term)}]"

    def _each(self, term: Node, groups: Sequence[Node]) -> str:
        """Emits `each(op(…, x, g), x, g)`: the term for the first of each group, for the second, and so on."""
        lists = {x.id: self.text(x) for x in groups if isinstance(x, Name)}
        if len(lists) != len(groups):
            raise NotExecuted(term, "each() of anything but names of groups")
        self.names.update({name: f"{name}_" for name in lists})
        text = self.results(term)
        self.names.update(lists)
        return f"{use('each')}(lambda {', '.join(f'{name}_' for name in lists)}: {text}, {', '.join(lists.values())})"

    def let(self, term: Node) -> str:
        """Emits a term, with all outputs of an op that has several; an attribute that gets a name here, and has no default, is required."""
        if isinstance(term, IfExp):
            return f"({self.let(term.then)} if {self.text(term.cond)} else {self.let(term.other)})"
        if isinstance(term, AttrRead) and term.default is None:
            return f"{use('needed')}(n, {self._attr(term)}, {quoted(term.name)})"
        return self._term(term) if isinstance(term, Call) and self._is_tuple(term.func) else self._argument(term)

    def _gives_several(self, function: str) -> bool:
        """Whether a function returns several outputs on every path."""
        values = [s.value for s in walk_all(self.functions[function].body) if isinstance(s, Return)]
        return all(isinstance(v, VecLit) or (isinstance(v, Call) and self._is_tuple(v.func)) for v in values)

    def _is_tuple(self, func: str) -> bool:
        return func in self.specs and self.specs[func].returns_tuple

    def param(self, p: ParamSpec, source: str, expr: Expr | None) -> str:
        if source == "input" or expr is None:
            text = self.names[p.name]
        elif isinstance(expr, AttrRead):
            if p.kind.base == "enum" and p.default is not None and expr.default is None:
                return f"{use('choice')}({self._attr(expr)})"
            if p.kind.base != "dtype":
                return self._attr(expr)
            text = self._attr(expr, dtype=True)
        elif isinstance(expr, IfExp | Name) and p.dyn:
            text = self.text(expr)
        else:
            return self.text(expr)
        return text if p.default is not None else f"{use('needed')}(n, {text}, {quoted(p.name)})"

    def _attr(self, e: AttrRead, dtype: bool = False) -> str:
        """Emits the read of an attribute: as a dtype where one is required, or where its default is one."""
        dtype = dtype or _is_dtype(e.default)
        default = f", {self.text(e.default)}" if e.default is not None else ""
        read = f"n.attr{'_dtype' if dtype else ''}({quoted(e.name)}{default})"
        if isinstance(e.default, Str) and e.default.value and not self.verbatim:
            return f"({read} or {quoted(e.default.value)})"
        return read

    # --- expressions over attributes, ranks and dtypes

    def text(self, e: Node) -> str:
        match e:
            case AttrRead():
                return self._attr(e)
            case Int(value) | Float(value):
                return number_text(value)
            case Bool(value):
                return repr(value)
            case Str(value):
                return quoted(value)
            case NoneLit():
                return "None"
            case Name("inf" | "pi" as id) if id not in self.names:
                return use(id)
            case Name(id) if id in (*DTYPES, *OTHER_DTYPES) and id not in self.names:
                return f"{use('parse_dtype')}({quoted(id)})"
            case Name(id):
                if id not in self.names:
                    raise NotExecuted(e, f"the name {id} in an ONNX mapping")
                return self.names[id]
            case VecLit(items):
                listed = ", ".join(self._argument(i) for i in items)
                return f"({listed}{',' if len(items) == 1 else ''})"
            case Unary(op, operand):
                return f"{op}{' ' if op == 'not' else ''}{self._brackets(operand)}"
            case BinOp(op, left, right):
                return f"{self._brackets(left)} {op} {self._brackets(right)}"
            case Compare(first, rest):
                return " ".join([self._brackets(first), *(f"{op} {self._brackets(x)}" for op, x in rest)])
            case BoolOp(op, items):
                return f" {op} ".join(self._brackets(x) for x in items)
            case IfExp(cond, then, other):
                return f"({self._argument(then)} if {self.text(cond)} else {self._argument(other)})"
            case Index(Call(func, _, _) as base, (Int(k),)) if self._is_tuple(func) or func in self.functions:
                return f"{self._term(base)}[{k}]"
            case Index(Name() as base, (Int(k),)):
                return f"{self.text(base)}[{k}]"
            case Call():
                return self._call(e)
        raise NotExecuted(e, "this expression in an ONNX mapping")

    def _brackets(self, e: Node) -> str:
        text = self.text(e)
        return f"({text})" if isinstance(e, (BinOp, Compare, BoolOp)) else text

    def _call(self, e: Call) -> str:
        match e:
            case Call("len", (Name("outputs"),), ()):
                return "n.output_count"
            case Call("len", (AttrRead() as v,), ()):
                return f"len({self.text(v)} or ())"
            case Call("min" | "max" as func, (AttrRead() as v,), ()):
                return f"{func}({self.text(v)} or (0,))"
            case Call("each", (inner, *groups), ()):
                return self._each(inner, groups)
            case Call("positions", (values, VecLit() as names), ()):
                return f"{use('positions')}(n, {self.text(values)}, {self.text(names)})"
            case Call("len", (Name() as v,), ()) if v.id in self.names:
                return f"{use('length_of')}(n, {self.text(v)})"
            case Call("dtype_of", (Name("outputs"),), ()) if not self.dialect.has_versions:
                return "n.output_dtype"
            case Call(func, args, ()) if func in ATEN_FUNCTIONS and not self.dialect.has_versions:
                return f"{use(func)}(n, {', '.join(self._each_argument(v) for v in args)})"
            case Call("rank", (v,), ()):
                return f"{use('rank_of')}(n, {self.text(v)})"
            case Call("dtype_of", (v,), ()):
                return f"{use('dtype_of')}(n, {self.text(v)})"
            case Call("is_int" | "is_float" | "is_bool" as func, (v,), ()):
                name = {"is_int": "is_integer"}.get(func, func)
                return f"{self.text(v)}.{name}"
            case Call("scalar" | "vector" | "strings" as func, (v,), ()):
                self.verbatim = func == "strings"
                text = self._argument(v)
                self.verbatim = False
                return f"{use(func)}{text}" if isinstance(v, IfExp) else f"{use(func)}({text})"
            case Call("list_empty", (AttrRead() as dtype,), ()):
                return f"{use('list_empty')}(n, {self._attr(dtype, dtype=True)})"
            case Call(func, args, ()) if func in ("einsum", "aligned") or len(args) == LIST_FUNCTIONS.get(func):
                return f"{use(func)}(n, {', '.join(self._argument(v) for v in args)})"
        return self._term(e)

    # --- terms

    def _term(self, e: Node) -> str:
        match e:
            case Call("fold", (Name(op), values), ()) if op in self.specs:
                return f"{use('fold')}({use('api')}.{python_name(op)}, {self.text(values)})"
            case Call("accumulate", (Call() as inner, Name(group)), ()) if group in self.names:
                return self._accumulate(inner, group)
            case Call(func, args, keywords) if func in self.functions:
                named = [f"{name}_={self._argument(x)}" for name, x in keywords]
                return f"_{func}({', '.join(['n', *(self._argument(x) for x in args), *named])})"
            case Call(func, args, keywords) if func in self.specs:
                spec = self.specs[func]
                params = [o if o.signature.sequence else None for o in spec.inputs] + list(spec.params)
                words = [self._positional(x, p) for x, p in zip(args, params)]
                for name, value in keywords:
                    p = spec.param(name)
                    text = self.param(p, "expr", value) if p is not None else self._argument(value)
                    words.append(f"{python_name(name)}={text}")
                return f"{use('api')}.{python_name(func)}({', '.join([*words, 'source=n.source'])})"
            case Name() | AttrRead() | IfExp():
                return self.text(e)
        raise NotExecuted(e, "this term in an ONNX mapping")

    def _accumulate(self, term: Call, group: str) -> str:
        """Emits `accumulate(term, xs)`: the term of xs in their accumulation dtype."""
        values = self.names[group]
        self.names[group] = f"{group}_"
        text = self._term(term)
        self.names[group] = values
        return f"{use('accumulate')}(lambda {group}_: {text}, {values})"

    def _positional(self, x: Node, p: ParamSpec | Operand | None) -> str:
        if isinstance(x, Star):
            return f"*{self.text(x.value)}"
        text = self._argument(x)
        if not isinstance(x, Name) or p is None:
            return text
        required = x.id in self.absent if isinstance(p, Operand) else p.default is None
        return f"{use('needed')}(n, {text}, {quoted(p.name)})" if required else text

    def _each_argument(self, e: Node) -> str:
        return f"*{self.text(e.value)}" if isinstance(e, Star) else self._argument(e)

    def _argument(self, e: Node) -> str:
        if isinstance(e, Call) and e.func in self.specs and not self._is_tuple(e.func):
            return self._term(e)
        if isinstance(e, Call) and self._is_tuple(e.func):
            return f"{self._term(e)}[0]"
        return self.text(e)

    def message(self, message: Message) -> str:
        if all(isinstance(p, str) for p in message.parts):
            return quoted("".join(str(p) for p in message.parts))
        words = "".join(
            p.replace("{", "{{").replace("}", "}}")
            if isinstance(p, str)
            else "{" + self.text(p).replace('"', "'") + "}"
            for p in message.parts
        )
        return f'f"{words}"'


def _is_dtype(default: Node | None) -> bool:
    """Whether the default of an attribute is a dtype: one of the language, or that of a value."""
    if isinstance(default, Call):
        return default.func == "dtype_of"
    return isinstance(default, Name) and default.id in (*DTYPES, *OTHER_DTYPES)
