"""Parses ONNX mappings, which say what operands and parameters of an op are in one operator from one opset on; and ATen mappings, in
which the inputs are the tensors among an operator's arguments, and attributes all others.

In: `Text` such as `x, newshape, allowzero=attr` or `x -> reshape(softmax(flatten(x)), shape_of(x))`, with statements on
further lines, and the functions of a file's `terms:`. Out: `OnnxMapping`, `TermFunction`.

    x, *xs            the next input; all further inputs (a name may be an input or an operand parameter of the op)
    x, *xs, *ys       groups of one length, one after the other, of all further inputs
    x, *(a, b)        all further inputs, interleaved: the first is an a, the second its b, the third an a again
    p=attr            the attribute of the same name; attr.name another one; attr(1), attr.name(1) with a default
    attr(p, q(1))     attributes of the same names, as `p=attr, q=attr(1)`; also among the arguments of a call of an op
    p=in(expr)        the next input through an expression, in which it has the name p (an absent one reads as [])
    p=expr            computed from attributes, ranks and input dtypes: `len(outputs)`, `dtype_of(start)`
    names -> term     a term of ops over the ONNX inputs; `fold(op, xs)` chains a binary op; `= term` names the op's
    own inputs; `p=…` before the arrow are keywords of the term's call
    as 11, …          the mapping of opset 11 with what follows in place of its parts of the same names, and beside them
    name = term       on a line below: what the name stands for; `if condition:` and `else:` choose between such lines
    assert cond, "…"  on a line below: what else the node must satisfy
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from anyshape_gen.model.nodes import Assign, Call, Expr, Return, Statement
from anyshape_gen.model.source import Findings, Span
from anyshape_gen.model.spec import OnnxArgument, OnnxMapping, TermFunction
from anyshape_gen.model.traverse import reachable
from anyshape_gen.parse.rules import BROKEN, RuleReader
from anyshape_gen.parse.text import Text, split_top, top_level

_STATEMENT = re.compile(r"\s*(assert |if .*:\s*(#.*)?$|[A-Za-z_]\w*(, [A-Za-z_]\w*)* += )", re.MULTILINE)
_PLAIN = re.compile(r"\*?[A-Za-z_]\w*\Z")
_INTERLEAVED = re.compile(r"\*\(([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)+)\)\Z")
_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*")
_AS = re.compile(r"as\s+(\d+)\s*(,|(?=->)|\Z)")


class TermReader(RuleReader):
    """Parses terms and functions: the rule language with attributes by name, and `return`."""

    def call(self, node: ast.Call) -> Expr:
        """Parses a call; `attr(p, q(1))` among its arguments, and `p=attr`, become keywords."""
        positional: list[ast.expr] = []
        named: list[ast.keyword] = []
        for argument in node.args:
            if _is_attr(argument):
                named += [_keyword(k, source) for k, source in self.forwarded(argument)]
            else:
                positional.append(argument)
        named += [_keyword(k.arg, _attribute(k.arg, k.value)) if k.arg is not None else k for k in node.keywords]
        return super().call(ast.copy_location(ast.Call(node.func, positional, named), node))

    def forwarded(self, node: ast.expr) -> list[tuple[str, ast.expr]]:
        """Splits `attr(p, q(1))` into names and sources."""
        sources: list[tuple[str, ast.expr]] = []
        for argument in node.args if isinstance(node, ast.Call) and not node.keywords else ():
            match argument:
                case ast.Name(id=name):
                    sources.append((name, _attribute(name, _at(argument, ast.Name("attr")))))
                case ast.Call(func=ast.Name(id=name), args=[default], keywords=[]):
                    sources.append((name, _attribute(name, _at(argument, ast.Call(ast.Name("attr"), [default], [])))))
        if not isinstance(node, ast.Call) or not sources or len(sources) != len(node.args) + len(node.keywords):
            self.reject(
                node, "`attr(…)` among arguments holds names of attributes, with or without a default: `attr(p, q(1))`"
            )
        return sources

    def source(self, name: str) -> Expr:
        """Parses the right side of `p=…`, in which a bare `attr` is the attribute p."""
        tree = self.parse_tree()
        return replace(BROKEN if tree is None else self.expr(_attribute(name, tree)), span=self.text.span())

    def statement(self, node: ast.stmt) -> Statement | None:
        match node:
            case ast.Return(value=ast.expr() as value):
                return Return(self.expr(value), span=self.span(value))
        return super().statement(node)

    def parse_terms(self) -> tuple[TermFunction, ...]:
        """Parses a `terms:` block."""
        functions: list[TermFunction] = []
        for node in self.parse_body():
            definition = self.definition(node, "terms")
            if definition is not None:
                node, span, args = definition
                text = self.text.cut(*self.offsets(node)).value
                functions.append(TermFunction(node.name, args, self.statements(node.body), text, span=span))
        return tuple(functions)


def _is_attr(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "attr"


def _attribute(name: str, node: ast.expr) -> ast.expr:
    """Rewrites `attr` and `attr(1)` to the attribute of this name; other expressions are unchanged."""
    match node:
        case ast.Name(id="attr"):
            return _at(node, ast.Attribute(node, name))
        case ast.Call(func=ast.Name(id="attr") as owner, args=[_], keywords=[]):
            return _at(node, ast.Call(_at(owner, ast.Attribute(owner, name)), node.args, []))
    return node


def _at(place: ast.expr, node: ast.expr) -> ast.expr:
    """Gives an expression, and what is new in it, the position of another."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr) and not hasattr(part, "lineno"):
            ast.copy_location(part, place)
    return node


def _keyword(name: str, value: ast.expr) -> ast.keyword:
    return ast.copy_location(ast.keyword(name, value), value)


@dataclass
class MappingReader:
    """Parses the entries `{since: text}` of one operator, in the order written; later ones may inherit from earlier ones."""

    op: str
    own_inputs: tuple[str, ...]
    functions: Mapping[str, TermFunction]
    findings: Findings
    earlier: dict[int, OnnxMapping] = field(default_factory=dict)
    """The entries parsed so far, by opset"""

    def parse(self, since: int, text: Text) -> OnnxMapping:
        """Parses one entry."""
        end = _head_end(text)
        body = TermReader(text.cut(end), self.findings).parse_statements() if end < len(text.value) else ()
        head = text.cut(0, end)
        inherits = _AS.match(head.value)
        base = self._base(int(inherits.group(1)), head.span(0, inherits.end())) if inherits is not None else None
        if inherits is not None:
            head = head.cut(inherits.end())
        arrow = top_level(head.value, "->")
        term: Expr | None = None
        if arrow:
            arguments = self._arguments(head.cut(0, arrow[0]))
            term = TermReader(head.cut(arrow[0] + 2), self.findings).parse_expression()
        elif head.value.startswith("=") and base is None:
            arguments = tuple(OnnxArgument(name, "input", span=text.span()) for name in self.own_inputs)
            term = TermReader(head.cut(1), self.findings).parse_expression()
        else:
            arguments = self._arguments(head)
        if inherits is not None and base is None:
            term = term or BROKEN
        mapping = OnnxMapping(
            self.op, since, arguments=arguments, term=term, body=body, text=text.value, span=text.span()
        )
        mapping = self._with_keywords(_inherited(base, mapping) if base is not None else mapping)
        self.earlier[since] = mapping
        roots = (*mapping.body, *mapping.arguments, *((mapping.term,) if mapping.term is not None else ()))
        return replace(mapping, functions=reachable(roots, self.functions), known=tuple(self.functions))

    def _base(self, since: int, span: Span) -> OnnxMapping | None:
        base = self.earlier.get(since)
        if base is None:
            listed = ", ".join(map(str, self.earlier)) or "none"
            self.findings.add(span, f"no mapping of {self.op} {since} stands before this one (there are: {listed})")
        return base

    def _with_keywords(self, mapping: OnnxMapping) -> OnnxMapping:
        """Moves arguments `p=…` of a term to keywords of its call."""
        term, named = mapping.term, {a.name: a for a in mapping.arguments if a.source == "expr"}
        if term is None or not named:
            return mapping
        if not isinstance(term, Call):
            for argument in named.values():
                self.findings.add(
                    argument.span, "`p=…` before `->` is a keyword of the term's call, and the term is no call"
                )
            return mapping
        own = dict(term.keywords)
        own |= {name: argument.expr for name, argument in named.items() if argument.expr is not None}
        arguments = tuple(a for a in mapping.arguments if a.source != "expr")
        return replace(mapping, arguments=arguments, term=replace(term, keywords=tuple(own.items())))

    def _arguments(self, text: Text) -> tuple[OnnxArgument, ...]:
        return tuple(argument for part in split_top(text, ",") if part.value for argument in self._argument(part))

    def _argument(self, text: Text) -> Iterable[OnnxArgument]:
        interleaved, named = _INTERLEAVED.match(text.value), _NAMED.match(text.value)
        if interleaved is not None:
            names = split_top(text.cut(interleaved.start(1), interleaved.end(1)), ",")
            return [OnnxArgument(name.value, "interleaved", span=name.span()) for name in names]
        if _PLAIN.match(text.value):
            source = "rest" if text.value.startswith("*") else "input"
            return [OnnxArgument(text.value.lstrip("*"), source, span=text.span())]
        if text.value.startswith("attr("):
            return self._forwarded(text)
        if named is None:
            self.findings.add(
                text.span(), "an ONNX argument is `x`, `*xs`, `p=attr`, `attr(p, q)`, `p=in(…)` or `p=expression`"
            )
            return []
        name, right = named.group(1), text.cut(named.end())
        if right.value.startswith("in("):
            inner = TermReader(right.cut(3, len(right.value) - 1), self.findings).parse_expression()
            return [OnnxArgument(name, "in", inner, span=text.span())]
        return [OnnxArgument(name, "expr", TermReader(right, self.findings).source(name), span=text.span())]

    def _forwarded(self, text: Text) -> list[OnnxArgument]:
        reader = TermReader(text, self.findings)
        tree = reader.parse_tree()
        sources = reader.forwarded(tree) if tree is not None else []
        return [OnnxArgument(name, "expr", reader.expr(source), span=reader.span(source)) for name, source in sources]


def _head_end(text: Text) -> int:
    """Returns the position of the statements below the head: the first line outside brackets that is one."""
    starts = [at + 1 for at in top_level(text.value, "\n")]
    if _STATEMENT.match(text.value):
        starts.insert(0, 0)
    return next((at for at in starts if _STATEMENT.match(text.value, at)), len(text.value))


def _inherited(base: OnnxMapping, own: OnnxMapping) -> OnnxMapping:
    """Merges an earlier mapping with a later one, whose parts replace those of the same names."""
    arguments = {a.name: a for a in base.arguments} | {a.name: a for a in own.arguments}
    assigned = {s.names: s for s in own.body if isinstance(s, Assign)}
    kept = [assigned.get(s.names, s) if isinstance(s, Assign) else s for s in base.body]
    added = [s for s in own.body if s not in kept]
    term = own.term if own.term is not None else base.term
    return replace(own, arguments=tuple(arguments.values()), term=term, body=(*kept, *added))
