"""Checks names, calls and simple kinds in every expression of an op.

In: an `OpSpec` and the kinds of the names its signature solves. Out: findings about unknown names and functions, wrong
numbers of arguments, items of scalars and index variables that hide a dim; and which names are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anyshape_gen.analysis_model import ValueKind
from anyshape_gen.functions import ALLOWED, CONSTANTS, FUNCTIONS, arity_text
from anyshape_gen.kinds import bind_generator, kind_of
from anyshape_gen.model import OpSpec
from anyshape_gen.nodes import (
    Assign,
    Born,
    Call,
    Comprehension,
    Function,
    Generator,
    If,
    Index,
    Method,
    Name,
    Node,
    Reduction,
    Star,
    Statement,
)
from anyshape_gen.parse_rules import STRING_METHODS
from anyshape_gen.parse_values import DTYPES
from anyshape_gen.source import Findings, nearest
from anyshape_gen.traverse import children

K = ValueKind
SINGLE = (K.INT, K.FLOAT, K.BOOL)
NO_STRING = {
    K.INT: "an integer", K.FLOAT: "a float", K.BOOL: "a truth", K.VECTOR: "a vector", K.TEXTS: "a vector of strings",
    K.TENSOR: "a tensor", K.DTYPE: "a dtype",
}  # fmt: skip


@dataclass
class NameChecker:
    """Checks expressions of one op; `used` collects every name and function that is read."""

    spec: OpSpec
    findings: Findings
    functions: Mapping[str, Function]
    used: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    fixed: frozenset[str] = frozenset()
    """names of dims and parameters, which no variable may hide"""

    # --- expressions
    # ------------------------------------------------------------------------------------------------------

    def expr(self, node: Node, scope: Mapping[str, ValueKind], where: str) -> None:
        """Checks an expression of a `rule` or a `kernel`."""
        match node:
            case Name(id=name):
                self._name(node, name, scope)
            case Comprehension() | Reduction():
                self._loop(node, scope, where)
            case Call(func="bitcast", args=(value, Name(id=dtype))) if dtype in DTYPES:
                self._call(node, scope, where)
                self.expr(value, scope, where)
            case Call():
                self._call(node, scope, where)
                for child in children(node):
                    self.expr(child, scope, where)
            case Method():
                self._method(node, scope, where)
                for child in children(node):
                    self.expr(child, scope, where)
            case Index():
                self._index(node, scope)
                for child in children(node):
                    self.expr(child, scope, where)
            case _:
                for child in children(node):
                    self.expr(child, scope, where)

    def _name(self, node: Name, name: str, scope: Mapping[str, ValueKind]) -> None:
        self.used.add(name)
        if name not in scope and name not in CONSTANTS and name != "<broken>":
            self.findings.unknown(node.span, "name", name, scope)
            # The name that was probably meant is not reported as unused as well.
            self.used.add(nearest(name, scope) or name)

    def _loop(self, node: Comprehension | Reduction, scope: Mapping[str, ValueKind], where: str) -> None:
        inner = dict(scope)
        self.findings.distinct("the variable", [(t.name, t.span) for g in node.generators for t in g.targets])
        for generator in node.generators:
            self.expr(generator.domain, inner, where)
            self._no_hiding(generator)
            self.runs(generator, inner)
            bind_generator(generator, inner)
        for part in (node.element, *node.conditions):
            self.expr(part, inner, where)
        if isinstance(node, Reduction):
            for _, value in node.keywords:
                self.expr(value, scope, where)

    def _no_hiding(self, generator: Generator) -> None:
        for target in generator.targets:
            self.hides(target.name, target)

    def runs(self, generator: Generator, scope: Mapping[str, ValueKind]) -> None:
        """Checks that `*j` goes over a run."""
        kind = kind_of(generator.domain, scope)
        for target in generator.targets:
            if target.run and (
                kind in SINGLE or (isinstance(generator.domain, Call) and generator.domain.func == "range")
            ):
                self.findings.add(
                    target.span, f"'{target.name}' goes over one dim: write `for {target.name} in …`, without the star"
                )

    def hides(self, name: str, node: Node) -> None:
        """Checks that an index variable does not have the name of a dim or parameter."""
        if name in self.fixed:
            kind = "parameter" if self.spec.param(name) else "dim"
            self.findings.add(node.span, f"the variable '{name}' hides the {kind} of that name; use another name")

    def _call(self, node: Call, scope: Mapping[str, ValueKind], where: str) -> None:
        self.called.add(node.func)
        count = len(node.args)
        starred = any(isinstance(arg, Star) for arg in node.args)
        own = self.functions.get(node.func)
        if own is not None:
            if count != len(own.args) and not starred:
                self.findings.add(node.span, arity_text(node.func, len(own.args), len(own.args), count))
            return
        if node.func in {rule.var for rule in self.spec.dtypes}:
            return
        if node.func == "array":
            text = "an array is created by a step of its own in a procedure: `a = array(shape, e)`"
            self.findings.add(node.span, text)
        known = FUNCTIONS.get(node.func)
        if known is None:
            allowed = [name for name, f in FUNCTIONS.items() if f.where in ALLOWED[where]]
            self.findings.unknown(node.span, "function", node.func, [*allowed, *self.functions, *self.spec.functions])
            return
        if known.where not in ALLOWED[where]:
            what = {"kernel": "computes elements", "rewrite": "is for conditions of rewrites"}.get(
                known.where, "makes a shape"
            )
            self.findings.add(node.span, f"'{node.func}' {what}; it cannot stand in a {where}")
        if (count < known.least or (known.most is not None and count > known.most)) and not starred:
            self.findings.add(node.span, arity_text(node.func, known.least, known.most, count))
        for keyword, _ in node.keywords:
            if keyword not in known.keywords:
                self.findings.unknown(node.span, "keyword", keyword, known.keywords, f" of '{node.func}'")
        if node.func == "len" and count == 1 and kind_of(node.args[0], scope) in SINGLE:
            self.findings.add(node.args[0].span, "a scalar has no length")

    def _method(self, node: Method, scope: Mapping[str, ValueKind], where: str) -> None:
        kind = kind_of(node.base, scope)
        if kind not in (K.STR, K.ANY):
            self.findings.add(
                node.span, f"'{node.name}' is a method of strings, but this is {NO_STRING.get(kind, kind)}"
            )
        least, most = STRING_METHODS[node.name]
        if not least <= len(node.args) <= most:
            self.findings.add(node.span, arity_text(node.name, least, most, len(node.args)))
        if where == "kernel":
            self.findings.add(
                node.span, "a kernel cannot compute strings; compute them in the rule, and assign them to a name"
            )

    def _index(self, node: Index, scope: Mapping[str, ValueKind]) -> None:
        kind = kind_of(node.base, scope)
        if kind in SINGLE and isinstance(node.base, Name):
            self.findings.add(node.span, f"'{node.base.id}' is a scalar and has no items")
        if kind in (K.VECTOR, K.TEXTS) and len(node.items) == 1 and isinstance(node.items[0], Star):
            self.findings.add(node.span, "a vector is indexed by a position, a slice or a vector, without a star")

    # --- rules
    # ------------------------------------------------------------------------------------------------------------

    def rule(self, statements: Iterable[Statement], scope: dict[str, ValueKind]) -> None:
        """Checks a `shape:` block; a name is known after its assignment."""
        for statement in statements:
            match statement:
                case Assign(names=names, value=value):
                    self.expr(value, scope, "rule")
                    kind = kind_of(value, scope)
                    single = kind if len(names) == 1 else K.STR if kind == K.TEXTS else K.INT
                    for name in names:
                        self._assigns(name, statement)
                        scope[name] = single
                case Born(name=name, low=low, high=high):
                    self.expr(low, scope, "rule")
                    self.expr(high, scope, "rule")
                    scope[name] = K.INT
                case If(cond=cond, then=then, other=other):
                    self.expr(cond, scope, "rule")
                    self.rule(then, scope)
                    self.rule(other, scope)
                case _:
                    self.expr(statement, scope, "rule")

    def _assigns(self, name: str, node: Node) -> None:
        if name in self.fixed:
            kind = "parameter" if self.spec.param(name) else "dim of an input"
            self.findings.add(node.span, f"'{name}' is already the name of a {kind}")

    def function(self, function: Function, scope: Mapping[str, ValueKind], where: str) -> None:
        """Checks a `define:` function, which may read its arguments, its own names, and the names of the op."""
        inner = {**scope, **dict.fromkeys(function.args, K.ANY)}
        for statement in function.body:
            self.expr(statement.value, inner, where)
            inner.update(dict.fromkeys(statement.names, K.ANY))
        self.expr(function.result, inner, where)
