"""Checks names, calls and simple kinds in every expression of an op.

In: an `OpSpec` and the kinds of the names its signature solves. Out: findings about unknown names and functions, wrong
numbers of arguments, items of scalars and index variables that hide a dim; and which names are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.functions import ALLOWED, CONSTANTS, FUNCTIONS, arity_text
from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    Call,
    Compare,
    Comprehension,
    Expr,
    Function,
    Generator,
    If,
    Index,
    Item,
    Method,
    Name,
    Node,
    Reduction,
    Star,
    Statement,
    Unbacked,
)
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Findings, nearest
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import children, free_names, walk_all
from anyshape_gen.parse.rules import STRING_METHODS
from anyshape_gen.parse.values import DTYPES
from anyshape_gen.resolve.kinds import Kinds, bind_generator, kind_of

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
    outer: frozenset[str] = frozenset()
    """names that are known before a kernel runs"""
    reading: bool = False
    """Whether the expression is of an assert that reads elements"""

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
            case Compare():
                self._compare(node, scope, where)
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
            if where == "kernel":
                self.one(node.element, inner)
            for _, value in node.keywords:
                self.expr(value, scope, where)

    def _compare(self, node: Compare, scope: Mapping[str, ValueKind], where: str) -> None:
        """Checks that a kernel compares elements and positions one by one; vectors of sizes and parameters are compared ahead of it."""
        sides = (node.first, *(side for _, side in node.rest))
        for left, (op, right) in zip(sides, node.rest):
            vectors = [side for side in (left, right) if kind_of(side, scope) == K.VECTOR]
            if (
                (where == "kernel" or self.reading)
                and vectors
                and op not in ("in", "not in")
                and self._varies((left, right), scope)
            ):
                items = [("a", left), ("b", right)]
                over = [f"{name}" if side in vectors else to_text(side) for name, side in items]
                names = ", ".join(name for name, side in items if side in vectors)
                texts = ", ".join(to_text(side) for side in vectors)
                domain = f"zip({texts})" if len(vectors) > 1 else texts
                form = f"all({over[0]} {op} {over[1]} for {names} in {domain})"
                self.findings.add(node.span, f"vectors are compared item by item in a kernel: write `{form}`")

    def _comparisons_of(self, function: Function, args: Mapping[str, Item], scope: Mapping[str, ValueKind]) -> None:
        """Checks the comparisons of a `define:` function for the arguments of one call."""
        kinds = {name: kind_of(arg, scope) for name, arg in args.items()}
        if K.VECTOR in kinds.values():
            outer = self.outer
            self.outer = outer | {name for name, arg in args.items() if not self._varies((arg,), scope)}
            for node in walk_all((*(s.value for s in function.body), function.result)):
                if isinstance(node, Compare):
                    self._compare(node, {**scope, **kinds}, "kernel")
            self.outer = outer

    def one(self, node: Expr, scope: Mapping[str, ValueKind]) -> None:
        """Checks that what a kernel computes for an element is one number."""
        if kind_of(node, Kinds(scope, self.functions)) == K.VECTOR and self._varies((node,), scope):
            text = f"`{to_text(node)}` is a vector, and an element is one number: take an item of it, or a reduction of its items"
            self.findings.add(node.span, text)

    def _varies(self, nodes: Sequence[Node], scope: Mapping[str, ValueKind]) -> bool:
        """Whether expressions depend on variables of a kernel, or on elements."""
        free = {n for node in nodes for n in free_names(node)} - self.outer
        return self._reads(nodes, scope) or any(n not in CONSTANTS for n in free)

    def _reads(self, nodes: Sequence[Node], scope: Mapping[str, ValueKind]) -> bool:
        """Whether expressions read elements."""
        read = (n for n in walk_all(nodes) if isinstance(n, Index))
        return any(kind_of(n.base, scope) in (K.TENSOR, K.TENSORS) for n in read)

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
        """Checks that a variable does not have the name of a dim, a parameter or a function."""
        if name in self.fixed or name in self.functions:
            kind = "function" if name not in self.fixed else "parameter" if self.spec.param(name) else "dim"
            self.findings.add(node.span, f"the variable '{name}' hides the {kind} of that name; use another name")

    def _call(self, node: Call, scope: Mapping[str, ValueKind], where: str) -> None:
        self.called.add(node.func)
        count = len(node.args)
        starred = any(isinstance(arg, Star) for arg in node.args)
        own = self.functions.get(node.func)
        if own is not None:
            if count != len(own.args) and not starred:
                self.findings.add(node.span, arity_text(node.func, len(own.args), len(own.args), count))
            elif where == "kernel" and not starred:
                self._comparisons_of(own, dict(zip(own.args, node.args)), scope)
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
        if kind == K.TENSOR:
            self.stars(node.items, scope)

    def stars(self, items: Iterable[Item], scope: Mapping[str, ValueKind]) -> None:
        """Checks that a star is before each variable that is a run among the indices of a tensor, and before no other."""
        for item in items:
            value = item.value if isinstance(item, Star) else item
            if not isinstance(value, Name) or value.id in self.outer:
                continue
            kind = scope.get(value.id)
            if isinstance(item, Star) and kind in SINGLE:
                self.findings.add(value.span, f"'{value.id}' is one index: write {value.id}, without the star")
            elif not isinstance(item, Star) and kind == K.VECTOR:
                self.findings.add(value.span, f"'{value.id}' is a run of indices: write *{value.id}")

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
                case Unbacked(name=name, low=low, high=high):
                    self.expr(low, scope, "rule")
                    self.expr(high, scope, "rule")
                    scope[name] = K.INT
                case If(cond=cond, then=then, other=other):
                    self.expr(cond, scope, "rule")
                    self.rule(then, scope)
                    self.rule(other, scope)
                case _:
                    # a kernel tests what an assert says of elements
                    self.outer = frozenset(scope)
                    self.reading = isinstance(statement, Assert) and self._reads((statement,), scope)
                    self.expr(statement, scope, "rule")
                    self.reading = False

    def _assigns(self, name: str, node: Node) -> None:
        if name in self.fixed:
            kind = "parameter" if self.spec.param(name) else "dim of an input"
            self.findings.add(node.span, f"'{name}' is already the name of a {kind}")

    def function(self, function: Function, scope: Mapping[str, ValueKind], where: str) -> None:
        """Checks a `define:` function, which may read its arguments, its own names, and the names of the op."""
        inner = {**scope, **dict.fromkeys(function.args, K.ANY)}
        outer, self.outer = self.outer, self.outer | {*function.args, *(n for s in function.body for n in s.names)}
        for statement in function.body:
            self.expr(statement.value, inner, where)
            inner.update(dict.fromkeys(statement.names, K.ANY))
        self.expr(function.result, inner, where)
        self.outer = outer
