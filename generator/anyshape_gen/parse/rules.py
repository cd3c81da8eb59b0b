"""Parses the rule language: turns a subset of Python's `ast` into nodes. Python never evaluates any of it.

In: `Text` of an expression, a `shape:` block or a `define:` block. Out: nodes with spans; what is not in the
language is a finding, and becomes the expression `BROKEN`, which the checker ignores.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    AttrRead,
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    Function,
    Generator,
    If,
    IfExp,
    Index,
    Int,
    Item,
    Message,
    Method,
    Name,
    NoneLit,
    Reduction,
    Slice,
    Star,
    Statement,
    Str,
    Target,
    Unary,
    Unbacked,
    VecLit,
)
from anyshape_gen.model.source import Findings, Span
from anyshape_gen.parse.python_text import parse_python
from anyshape_gen.parse.text import Text

BROKEN = Name("<broken>")
"""The expression in place of one that could not be parsed, and that has a finding."""

REDUCTIONS = (
    "sum", "prod", "min", "max", "any", "all", "count", "first", "last", "argmax", "argmin", "sorted", "unique",
    "search",
)  # fmt: skip
STRING_METHODS: dict[str, tuple[int, int]] = {
    "replace": (2, 2), "partition": (1, 1), "split": (0, 1), "count": (1, 1), "strip": (0, 1),
}  # fmt: skip
"""The least and the greatest number of arguments, by name"""

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
SIGNS = (
    *BINARY.values(),
    *(sign for sign in COMPARE.values() if not sign.isalpha() and " " not in sign),
    "and",
    "or",
    "not",
    "[]",
)
"""Values of `operator:`: signs that mean an op in compositions."""


@dataclass
class RuleReader:
    """Parses one text; offsets of Python's `ast` are positions in it."""

    text: Text
    findings: Findings

    # --- places
    # ---------------------------------------------------------------------------------------------------------

    def offsets(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.arg))
        start = self.text.offset(node.lineno, node.col_offset)
        end = self.text.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return start, end

    def span(self, node: ast.AST) -> Span:
        return self.text.span(*self.offsets(node))

    def reject(self, node: ast.AST, what: str) -> Expr:
        self.findings.add(self.span(node), what)
        return BROKEN

    # --- expressions
    # ----------------------------------------------------------------------------------------------------

    def parse_tree(self) -> ast.expr | None:
        """Parses an expression to Python's tree; None (with a finding) where it is none."""
        tree = self._parse("eval")
        return tree.body if isinstance(tree, ast.Expression) else None

    def parse_expression(self) -> Expr:
        tree = self.parse_tree()
        return BROKEN if tree is None else self.expr(tree)

    def parse_body(self) -> list[ast.stmt]:
        tree = self._parse("exec")
        return tree.body if isinstance(tree, ast.Module) else []

    def _parse(self, mode: Literal["exec", "eval"]) -> ast.AST | None:
        try:
            return parse_python(self.text.value, mode)
        except SyntaxError as error:
            at = self.text.offset(error.lineno or 1, 0) + max((error.offset or 1) - 1, 0)
            reason = (error.msg or "invalid syntax").removeprefix("invalid syntax. ")
            self.findings.add(self.text.span(at, at + 1), f"not in the rule language: {reason}")
            self.findings.unreadable += 1
            return None

    def expr(self, node: ast.expr) -> Expr:
        """Parses one expression."""
        span = self.span(node)
        match node:
            case ast.Name(id=name):
                return Name(name, span=span)
            case ast.Constant(value=value):
                return self._constant(node, value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Unary("-", self.expr(operand), span=span)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Unary("not", self.expr(operand), span=span)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return BinOp(BINARY[type(op)], self.expr(left), self.expr(right), span=span)
            case ast.Compare(left=left, ops=ops, comparators=right_sides):
                rest = tuple((COMPARE[type(op)], self.expr(side)) for op, side in zip(ops, right_sides))
                return Compare(self.expr(left), rest, span=span)
            case ast.BoolOp(op=op, values=values):
                word = "and" if isinstance(op, ast.And) else "or"
                return BoolOp(word, tuple(self.expr(value) for value in values), span=span)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return IfExp(self.expr(test), self.expr(body), self.expr(orelse), span=span)
            case ast.Call():
                return self.call(node)
            case ast.Subscript(value=base, slice=inside):
                return Index(self.expr(base), self.items(inside), span=span)
            case ast.List(elts=elements):
                return VecLit(tuple(self.item(element) for element in elements), span=span)
            case ast.ListComp(elt=element, generators=generators):
                parts, conditions = self._generators(generators)
                return Comprehension(self.expr(element), parts, conditions, span=span)
            case ast.Attribute(value=ast.Name(id="attr"), attr=name):
                return AttrRead(name, span=span)
        return self.reject(node, f"{noun(node)} is not in the rule language")

    def _constant(self, node: ast.Constant, value: object) -> Expr:
        span = self.span(node)
        match value:
            case bool():
                return Bool(value, span=span)
            case int():
                return Int(value, span=span)
            case float():
                return Float(value, span=span)
            case str():
                return Str(value, span=span)
            case None:
                return NoneLit(span=span)
        return self.reject(node, f"the constant {value!r} is not in the rule language")

    def call(self, node: ast.Call) -> Expr:
        span = self.span(node)
        keywords = tuple((k.arg, self.expr(k.value)) for k in node.keywords if k.arg is not None)
        if len(keywords) != len(node.keywords):
            return self.reject(node, "`**` in a call is not in the rule language")
        match node.func:
            case ast.Name(id=func):
                if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
                    return self._reduction(func, node, node.args[0], keywords)
                return Call(func, tuple(self.item(arg) for arg in node.args), keywords, span=span)
            case ast.Attribute(value=ast.Name(id="attr"), attr=name) if len(node.args) == 1 and not keywords:
                return AttrRead(name, self.expr(node.args[0]), span=span)
            case ast.Attribute(value=base, attr=name) if name in STRING_METHODS and not keywords:
                return Method(self.expr(base), name, tuple(self.expr(arg) for arg in node.args), span=span)
        return self.reject(node, "only functions by name can be called")

    def _reduction(
        self, func: str, node: ast.Call, inner: ast.GeneratorExp, keywords: tuple[tuple[str, Expr], ...]
    ) -> Expr:
        if func not in REDUCTIONS:
            return self.reject(node, f"'{func}' is not a reduction; reductions are {', '.join(REDUCTIONS)}")
        parts, conditions = self._generators(inner.generators)
        return Reduction(func, self.expr(inner.elt), parts, conditions, keywords, span=self.span(node))

    def _generators(self, nodes: list[ast.comprehension]) -> tuple[tuple[Generator, ...], tuple[Expr, ...]]:
        parts: list[Generator] = []
        conditions: list[Expr] = []
        for node in nodes:
            parts.append(Generator(self.targets(node.target), self.expr(node.iter), span=self.span(node.target)))
            conditions += [self.expr(test) for test in node.ifs]
        return tuple(parts), tuple(conditions)

    def targets(self, node: ast.expr) -> tuple[Target, ...]:
        """Parses the targets of a `for`: `k`, `*j`, or `a, b`."""
        match node:
            case ast.Name(id=name):
                return (Target(name, span=self.span(node)),)
            case ast.Starred(value=ast.Name(id=name)):
                return (Target(name, run=True, span=self.span(node)),)
            case ast.Tuple(elts=elements) if not any(isinstance(element, ast.Tuple) for element in elements):
                return tuple(target for element in elements for target in self.targets(element))
        self.reject(node, "the targets of a `for` are names: `k`, `*j`, or `a, b` of `zip` and `enumerate`")
        return ()

    # --- items of an index, a call, a vector
    # ------------------------------------------------------------------------------

    def items(self, node: ast.expr) -> tuple[Item, ...]:
        """Parses the items between the brackets of an index."""
        if isinstance(node, ast.Tuple):
            return tuple(self.item(element) for element in node.elts)
        return (self.item(node),)

    def optional(self, node: ast.expr | None) -> Expr | None:
        return None if node is None else self.expr(node)

    def item(self, node: ast.expr) -> Item:
        match node:
            case ast.Starred(value=ast.BinOp(left=value, op=ast.MatMult(), right=axes)):
                return Star(self.expr(value), self.expr(axes), span=self.span(node))
            case ast.Starred(value=value):
                return Star(self.expr(value), span=self.span(node))
            case ast.Slice(lower=low, upper=high, step=None):
                return Slice(self.optional(low), self.optional(high), span=self.span(node))
            case ast.Slice():
                return self.reject(node, "a slice has no step in the rule language; use a comprehension")
        return self.expr(node)

    # --- statements
    # -------------------------------------------------------------------------------------------------------

    def parse_statements(self) -> tuple[Statement, ...]:
        """Parses a `shape:` block."""
        return self.statements(self.parse_body())

    def statements(self, body: list[ast.stmt]) -> tuple[Statement, ...]:
        statements = [self.statement(node) for node in body]
        return tuple(statement for statement in statements if statement is not None)

    def statement(self, node: ast.stmt) -> Statement | None:
        span = self.span(node)
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=ast.Name(id="unbacked"), args=[low, high])):
                if isinstance(target, ast.Name):
                    return Unbacked(target.id, self.expr(low), self.expr(high), span=span)
            case ast.Assign(targets=[target], value=value):
                names = self.targets(target)
                if any(name.run for name in names):
                    self.reject(target, "the targets of an assignment in a rule are names without a star")
                return Assign(tuple(name.name for name in names), self.expr(value), span=self.span(target))
            case ast.Assert():
                return self.assertion(node)
            case ast.If(test=test, body=body, orelse=orelse):
                return If(self.expr(test), self.statements(body), self.statements(orelse), span=self.span(test))
        self.reject(
            node, f"{noun(node)} is not a statement of the rule language: use `name = …`, `assert …` or `if …:`"
        )
        return None

    def assertion(self, node: ast.Assert) -> Assert:
        message = None
        match node.msg:
            case ast.Constant(value=str() as words):
                message = self._message(node.msg, words)
            case ast.expr() as other:
                self.reject(
                    other, "the message of an assert is a plain string, in which `{expr}` is replaced by a value"
                )
        return Assert(self.expr(node.test), message, span=self.span(node.test))

    def _message(self, node: ast.Constant, words: str) -> Message:
        start = self.offsets(node)[0] + 1
        exact = self.text.value[start : start + len(words)] == words
        whole = self.text.span(*self.offsets(node))
        parts: list[str | Expr] = []
        at = 0
        while at < len(words):
            opening = words.find("{", at)
            closing = words.find("}", opening)
            if opening < 0 or closing < 0:
                break
            parts += [words[at:opening]] if opening > at else []
            inner = self.text.cut(start + opening + 1, start + closing)
            if not exact:
                inner = Text.plain(words[opening + 1 : closing].strip(), whole.file, whole.line, whole.col)
            parts.append(RuleReader(inner, self.findings).parse_expression())
            at = closing + 1
        parts += [words[at:]] if at < len(words) else []
        return Message(tuple(parts), span=whole)

    # --- functions
    # ----------------------------------------------------------------------------------------------------------

    def parse_functions(self) -> tuple[Function, ...]:
        """Parses a `define:` block."""
        functions = [self._function(node) for node in self.parse_body()]
        return tuple(function for function in functions if function is not None)

    def _function(self, node: ast.stmt) -> Function | None:
        definition = self.definition(node, "define")
        if definition is None:
            return None
        node, span, args = definition
        *body, last = node.body
        statements = self.statements(body)
        assigns = tuple(statement for statement in statements if isinstance(statement, Assign))
        if not isinstance(last, ast.Return) or last.value is None or len(assigns) != len(body):
            self.reject(node, f"'{node.name}' must be assignments followed by one `return`")
            return None
        return Function(node.name, args, assigns, self.expr(last.value), span=span)

    def definition(self, node: ast.stmt, key: str) -> tuple[ast.FunctionDef, Span, tuple[str, ...]] | None:
        """Returns a function, the place of its name, and its arguments, which are plain names; None (with a finding) otherwise."""
        if not isinstance(node, ast.FunctionDef):
            self.reject(node, f"`{key}:` consists of functions: `def name(args): …`")
            return None
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults or arguments.posonlyargs:
            self.reject(node, f"the arguments of '{node.name}' must be plain names")
            return None
        start = self.offsets(node)[0] + len("def ")
        return node, self.text.span(start, start + len(node.name)), tuple(a.arg for a in arguments.args)


def noun(node: ast.AST) -> str:
    """Names a construct of Python for messages."""
    words = {
        "Lambda": "a lambda",
        "Dict": "a dictionary",
        "Set": "a set",
        "SetComp": "a set",
        "DictComp": "a dictionary",
        "Tuple": "a tuple (write a vector, `[a, b]`)",
        "Attribute": "an attribute",
        "JoinedStr": "an f-string",
        "GeneratorExp": "a generator outside a reduction and an update",
        "Starred": "a star here",
        "NamedExpr": "`:=`",
        "Import": "an import",
        "While": "a while loop",
        "For": "a for loop",
        "Expr": "an expression alone",
        "AugAssign": "an update",
        "BinOp": "this operator",
        "UnaryOp": "this operator",
    }
    return words.get(type(node).__name__, f"`{type(node).__name__.lower()}`")


def parse_expression(text: Text, findings: Findings) -> Expr:
    """Parses an expression of the rule language."""
    return RuleReader(text.cut(0), findings).parse_expression()
