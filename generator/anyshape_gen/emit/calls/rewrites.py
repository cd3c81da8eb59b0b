"""Emits rewrites: one function for each `pattern >> term` of the spec, over graph nodes.

In: an op's analysis. Out: `def <op>_rewrite_<k>(node) -> Sequence[Value] | None`, and the tuple that its OpDef names. A
parameter that a pattern does not mention must be at its default; a condition must be provable.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyshape_gen.emit.rules.relations import attribute_name
from anyshape_gen.emit.rules.rule_text import RuleText, source_of
from anyshape_gen.emit.text.module import NOTHING, Code, Emitted, joined, quoted, tuple_text, use
from anyshape_gen.emit.text.names import RULE_NAMES, constant_name
from anyshape_gen.emit.text.refusal import Misused, NotExecuted
from anyshape_gen.model.analysis import OpAnalysis, ValueKind
from anyshape_gen.model.nodes import Call, Expr, Index, Item, Name, Node, Slice, Star
from anyshape_gen.model.spec import OpSpec, Rewrite
from anyshape_gen.model.traverse import free_names, rebuild, walk

KNOWN = {
    **RULE_NAMES,
    **dict.fromkeys(
        ("element_of", "given", "is_default", "is_finite", "make", "producer", "shape_of", "takes"),
        "anyshape.graph.matching",
    ),
    "RewriteDef": "anyshape.graph.opdef",
    "GraphNode": "anyshape.graph.value",
    "Node": "anyshape.graph.value",
    "Value": "anyshape.graph.value",
    "Sequence": "collections.abc",
}
WIDTH = 120


def rewrites(a: OpAnalysis, specs: Mapping[str, OpSpec]) -> Emitted:
    """Emits all rewrites of an op; "" if it has none."""
    if not a.spec.rewrites:
        return NOTHING
    parts = [_Rewriter(a.spec, r, k, specs).emit() for k, r in enumerate(a.spec.rewrites, 1)]
    code = Code()
    code.add(f"{constant_name(a.spec.name)} = (")
    code.indent()
    for k, r in enumerate(a.spec.rewrites, 1):
        deep = f", depth={depth}" if (depth := _depth(r.pattern)) > 1 else ""
        if inner := dict.fromkeys(c.func for c in walk(r.pattern) if isinstance(c, Call) and c.func != a.spec.name):
            deep += f", operands={tuple_text(map(quoted, inner))}"
        rest = f"{a.spec.name}_rewrite_{k}, {quoted(source_of(r))}{deep}"
        if len(line := f"{use('RewriteDef')}({quoted(r.text)}, {rest}),") <= WIDTH:
            code.add(line)
            continue
        code.add(f"{use('RewriteDef')}(")
        code.indent()
        *first, last = textwrap.wrap(r.text, WIDTH - 12, drop_whitespace=False, break_long_words=False)
        for part in first:
            code.add(quoted(part))
        code.add(f"{quoted(last)},")
        code.add(f"{rest},")
        code.dedent()
        code.add("),")
    code.dedent()
    code.add(")")
    return joined("\n\n\n", [*parts, code.text()])


def _depth(pattern: Node) -> int:
    """Returns the depth of nested calls in a pattern: 1 for a call of names, 0 for a name."""
    if not isinstance(pattern, Call):
        return 0
    return 1 + max((_depth(part) for part in (*pattern.args, *dict(pattern.keywords).values())), default=0)


@dataclass
class _Scope:
    """Names that the pattern binds: values, and parameters as (node, parameter)."""

    values: dict[str, str] = field(default_factory=dict)
    dtypes: dict[str, frozenset[str]] = field(default_factory=dict)
    """the dtypes that the pattern allows for a value"""
    params: dict[str, tuple[str, str]] = field(default_factory=dict)


def _allowed(spec: OpSpec, declared: str) -> frozenset[str]:
    """Returns the dtypes that an operand or result may have that is declared as of a dtype or a dtype variable."""
    return next((frozenset(rule.choices) for rule in spec.dtypes if rule.var == declared), frozenset((declared,)))


class _Rewriter:
    def __init__(self, spec: OpSpec, rewrite: Rewrite, number: int, specs: Mapping[str, OpSpec]) -> None:
        self.spec, self.rewrite, self.number, self.specs = spec, rewrite, number, specs
        self.scope = _Scope()
        self.code = Code()
        self.nodes = self.calls = 0

    def emit(self) -> Emitted:
        code = self.code
        code.comment(source_of(self.rewrite))
        code.add(
            f"def {self.spec.name}_rewrite_{self.number}(node: {use('Node')}) -> {use('Sequence')}[{use('Value')}] | None:"
        )
        code.indent()
        if not isinstance(self.rewrite.pattern, Call) or self.rewrite.pattern.func != self.spec.name:
            raise NotExecuted(self.rewrite, "a rewrite whose pattern is not a call of its own op")
        self._leave("node.bound is None")
        self._match(self.rewrite.pattern, "node")
        if self.rewrite.alias is not None:
            self.scope.values[self.rewrite.alias] = "node.outputs[0]"
        if self.rewrite.condition is not None:
            self._condition(self.rewrite.condition)
        result = self._value(self.rewrite.term)
        if isinstance(self.rewrite.term, Name):
            self._leave(f"{result} is None")
        code.add(f"return [{result}]")
        return code.text()

    def _leave(self, condition: str) -> None:
        self.code.add(f"if {condition}:")
        self.code.indent()
        self.code.add("return None")
        self.code.dedent()

    # --- patterns

    def _match(self, pattern: Call, node: str) -> None:
        spec = self.specs.get(pattern.func)
        if spec is None or any(o.signature.variadic for o in spec.inputs) or len(spec.outputs) != 1:
            raise NotExecuted(pattern, f"a pattern over {pattern.func}")
        names = [o.name for o in spec.inputs] + [p.name for p in spec.params]
        arguments = dict(zip(names, pattern.args)) | dict(pattern.keywords)
        for k, o in enumerate(spec.inputs):
            part = arguments.get(o.name)
            if part is None:
                self._leave(f"{node}.inputs[{k}] is not None")
            else:
                self._operand(part, f"{node}.inputs[{k}]")
                if isinstance(part, Name):
                    self.scope.dtypes.setdefault(part.id, _allowed(spec, o.signature.dtype))
        for p in spec.params:
            part = arguments.get(p.name)
            if part is None:
                self._leave(f"not {use('is_default')}({node}, {quoted(p.name)})")
            elif not isinstance(part, Name):
                raise NotExecuted(pattern, "a pattern of a parameter that is not a name")
            elif part.id != "_":
                if part.id in self.scope.params:
                    raise NotExecuted(part, "a parameter that occurs twice in a pattern")
                self.scope.params[part.id] = (node, p.name)

    def _operand(self, part: Node, value: str) -> None:
        match part:
            case Name("_"):
                return
            case Name(id) if id in self.scope.values:
                self._leave(f"{value} is not {self.scope.values[id]}")
            case Name(id):
                self.scope.values[id] = id
                self.code.add(f"{id} = {value}")
            case Call(func, _, _):
                self.nodes += 1
                inner = f"inner{self.nodes}" if self.nodes > 1 else "inner"
                self.code.add(f"{inner} = {use('producer')}({value}, {quoted(func)})")
                self._leave(f"{inner} is None")
                self._match(part, inner)
            case _:
                raise NotExecuted(part, "this pattern")

    # --- conditions and terms

    def _condition(self, cond: Expr) -> None:
        """Emits the condition: names of parameters are their values, `shape(x)` is the inferred shape."""
        for name in sorted(free_names(cond) & set(self.scope.params)):
            node, param = self.scope.params[name]
            self.code.add(f"{name} = {node}.bound.{attribute_name(param)}")
        shaped: dict[str, str] = {}
        for call in walk(cond):
            if isinstance(call, Call) and call.func in ("shape", "rank") and isinstance(call.args[0], Name):
                shaped.setdefault(call.args[0].id, f"shape_{call.args[0].id}")
        for name, local in shaped.items():
            self.code.add(f"{local} = {use('shape_of')}({self.scope.values[name]})")
        if shaped:
            self._leave(" or ".join(f"{local} is None" for local in shaped.values()))
        cond = self._elements(cond)
        text = RuleText(dict.fromkeys(self.scope.params, ValueKind.ANY), rename=lambda n: shaped.get(n, n))
        self.code.add(f"rule = {use('Rule')}({quoted(self.spec.name)})")
        self._leave(f"rule.decide({text.text(cond)}) is not True")

    def _elements(self, cond: Expr) -> Expr:
        """Replaces what the condition asks of elements by locals: `r[()]`, the only element of an operand, without which the rewrite does
        not apply, and `finite(x)`."""
        read: dict[str, None] = {}
        finite: dict[str, None] = {}

        def replace(node: Any) -> Any:
            match node:
                case Index(Name(id), ()) if id in self.scope.values:
                    read[id] = None
                    return Name(f"element_{id}", span=node.span)
                case Call("finite", (Name(id),), ()) if id in self.scope.values:
                    finite[id] = None
                    return Name(f"finite_{id}", span=node.span)
                case Call("finite"):
                    raise Misused(node, "`finite` takes an operand of the pattern")
            return rebuild(node, replace)

        condition: Expr = replace(cond)
        for id in read:
            self.code.add(f"element_{id} = {use('element_of')}({self.scope.values[id]})")
        if read:
            self._leave(" or ".join(f"element_{id} is None" for id in read))
        for id in finite:
            self.code.add(f"finite_{id} = {use('is_finite')}({self.scope.values[id]})")
        return condition

    def _takes(self, spec: OpSpec, parts: Sequence[Node | None], values: list[str]) -> list[str]:
        """Emits the test that a call of the term takes the dtypes of its operands, where these may have others; returns the operands, calls
        among them as locals."""
        if all(self._dtypes(part) <= _allowed(spec, o.signature.dtype) for o, part in zip(spec.inputs, parts)):
            return values
        for k, part in enumerate(parts):
            if isinstance(part, Call):
                self.calls += 1
                self.code.add(f"call{self.calls} = {values[k]}")
                values[k] = f"call{self.calls}"
        self._leave(f"not {use('takes')}({quoted(spec.name)}, [{', '.join(values)}])")
        return values

    def _dtypes(self, part: Node | None) -> frozenset[str]:
        """Returns the dtypes that an operand of a call of the term may have."""
        match part:
            case Name(id):
                return self.scope.dtypes.get(id, frozenset())
            case Call(func, _, _):
                return _allowed(self.specs[func], self.specs[func].outputs[0].signature.dtype)
        return frozenset()

    def _value(self, e: Node) -> str:
        match e:
            case Name(id) if id in self.scope.values:
                return self.scope.values[id]
            case Call(func, args, keywords) if func in self.specs:
                spec = self.specs[func]
                names = [o.name for o in spec.inputs] + [p.name for p in spec.params]
                arguments = dict(zip(names, args)) | dict(keywords)
                parts = [arguments.get(o.name) for o in spec.inputs]
                inputs = self._takes(spec, parts, ["None" if part is None else self._value(part) for part in parts])
                params = [
                    f"{quoted(p.name)}: {self._param(arguments[p.name])}" for p in spec.params if p.name in arguments
                ]
                return f"{use('make')}({quoted(func)}, [{', '.join(inputs)}], {{{', '.join(params)}}}, node.source)"
        raise NotExecuted(e, "this term of a rewrite")

    def _param(self, e: Item) -> str:
        """Emits a parameter of the term: one of the pattern is passed unchanged, an expression is computed from the values."""
        match e:
            case Name(id) if id in self.scope.params:
                node, param = self.scope.params[id]
                return f"{use('given')}({node}, {quoted(param)})"
            case Star() | Slice():
                raise NotExecuted(e, "this argument")
            case Index(Name(base), (Name(position),)) if {base, position} <= set(self.scope.params):
                return f"{self._bound(base)}[{self._bound(position)}]"
        values = {name: self._bound(name) for name in self.scope.params}
        text = RuleText(dict.fromkeys(values, ValueKind.ANY), rename=lambda n: values.get(n, n))
        spelled = text.text(e)
        if "rule." in spelled:
            raise NotExecuted(e, "a partial operation in the term of a rewrite")
        return spelled

    def _bound(self, name: str) -> str:
        node, param = self.scope.params[name]
        return f"{node}.bound.{attribute_name(param)}"
