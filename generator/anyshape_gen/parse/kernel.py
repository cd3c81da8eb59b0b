"""Parses kernels, procedures and compositions.

In: the `Text` of a `kernel:`, `procedure:` or `compose:` entry. Out: `Kernel` (equations with their static conditions)
or `Procedure`. `while cond limit n:` is not Python; its limit is masked before Python's parser sees the line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from anyshape_gen.model.body_nodes import (
    Annotation,
    Branch,
    Break,
    Equation,
    For,
    Kernel,
    Procedure,
    Set,
    Step,
    Store,
    While,
)
from anyshape_gen.model.nodes import Assert, Call, Expr, Index, Name, Slice, Star, Unary
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Findings
from anyshape_gen.parse.rules import BROKEN, RuleReader, parse_expression
from anyshape_gen.parse.text import Text

UPDATES: dict[type[ast.operator], str] = {ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*="}
_LIMIT = re.compile(r"^( *while .*?)( limit (.+?)):", re.MULTILINE)


class KernelReader(RuleReader):
    """Parses equations and steps."""

    def parse_kernel(self) -> Kernel:
        equations: list[Equation] = []
        asserts: list[Assert] = []
        self._collect(self.parse_body(), (), equations, asserts)
        return Kernel(tuple(equations), tuple(asserts), span=self.text.span())

    def _collect(
        self, body: list[ast.stmt], conditions: tuple[Expr, ...], equations: list[Equation], asserts: list[Assert]
    ) -> None:
        for node in body:
            match node:
                case ast.If(test=test, body=then, orelse=orelse):
                    cond = self.expr(test)
                    self._collect(then, (*conditions, cond), equations, asserts)
                    self._collect(orelse, (*conditions, Unary("not", cond, span=cond.span)), equations, asserts)
                case ast.Assert():
                    asserts.append(self.assertion(node))
                case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                    equation = self._equation(node, conditions)
                    equations += [equation] if equation else []
                case _:
                    self.reject(node, "a kernel consists of equations `t[i] = …`, `if static:` and asserts")

    def _equation(
        self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, conditions: tuple[Expr, ...]
    ) -> Equation | None:
        annotation = None
        match node:
            case ast.Assign(targets=[target], value=value):
                op = "="
            case ast.AugAssign(target=target, op=operator, value=value) if type(operator) in UPDATES:
                op = UPDATES[type(operator)]
            case ast.AnnAssign(target=target, annotation=described, value=ast.expr() as value):
                op = "="
                annotation = self._annotation(described)
            case _:
                self.reject(node, "an equation is `t[i] = …`, or an update with += -= *=")
                return None
        store = self.store(target)
        if store is None:
            return None
        of_extreme, inner = _iteration(value)
        if inner is None:
            op, right = _extremum(store, op, self.expr(value))
            return Equation(store, op, right, annotation, conditions, span=self.span(target))
        generators, filters = self._generators(inner.generators)
        op, right = _extremum(store, op, self.expr(of_extreme))
        if of_extreme is not inner.elt and op not in ("max", "min"):
            self.reject(
                inner,
                f"the update is of what the first argument reads: `{to_text(store)} = max({to_text(store)}, (… for …))`",
            )
        if store.items is None or any(isinstance(item, Slice) for item in store.items):
            self.reject(target, "the left side of an update is an element, `t[e]`")
        return Equation(store, op, right, annotation, conditions, generators, filters, span=self.span(target))

    def _annotation(self, node: ast.expr) -> Annotation | None:
        match node:
            case ast.Subscript(value=ast.Name(id=dtype), slice=inside):
                return Annotation(dtype, self.items(inside), span=self.span(node))
        self.reject(node, "an annotation is a dtype with extents: `F[*p, m]`")
        return None

    def store(self, node: ast.expr) -> Store | None:
        """Parses the left side of an equation."""
        span = self.span(node)
        match node:
            case ast.Name(id=name):
                return Store(name, None, None, span=span)
            case ast.Subscript(value=ast.Name(id=name), slice=inside):
                return Store(name, None, self.items(inside), span=span)
            case ast.Subscript(value=ast.Subscript(value=ast.Name(id=name), slice=element), slice=inside):
                return Store(name, self.expr(element), self.items(inside), span=span)
        self.reject(node, "the left side of an equation is `t[…]`, `ts[v][…]` or a name")
        return None

    # --- procedures
    # -------------------------------------------------------------------------------------------------------

    def parse_procedure(self, limits: dict[int, Expr]) -> Procedure:
        return Procedure(self._steps(self.parse_body(), limits), span=self.text.span())

    def _steps(self, body: Sequence[ast.stmt], limits: dict[int, Expr]) -> tuple[Step, ...]:
        steps = [self._step(node, limits) for node in body]
        return tuple(step for step in steps if step is not None)

    def _step(self, node: ast.stmt, limits: dict[int, Expr]) -> Step | None:
        span = self.span(node)
        match node:
            case ast.Assign(value=ast.GeneratorExp() as inner) | ast.AugAssign(value=ast.GeneratorExp() as inner):
                self.reject(inner, "a step has no iteration of its own; write a loop around it, `for j in n:`")
                return None
            case ast.Assign(targets=[target], value=value):
                elements = target.elts if isinstance(target, ast.Tuple) else [target]
                stores = tuple(store for element in elements if (store := self.store(element)))
                return Set(stores, "=", self.expr(value), span=span)
            case ast.AugAssign(target=target, op=operator, value=value) if type(operator) in UPDATES:
                store = self.store(target)
                return Set((store,), UPDATES[type(operator)], self.expr(value), span=span) if store else None
            case ast.For(target=target, iter=domain, body=inner, orelse=[]):
                return For(self.targets(target), self.expr(domain), self._steps(inner, limits), span=span)
            case ast.While(test=test, body=inner, orelse=[]):
                limit = limits.get(node.lineno)
                if limit is None:
                    self.reject(test, "a while loop needs a bound: `while cond limit n:`")
                    limit = BROKEN
                return While(self.expr(test), limit, self._steps(inner, limits), span=span)
            case ast.If(test=test, body=then, orelse=orelse):
                return Branch(self.expr(test), self._steps(then, limits), self._steps(orelse, limits), span=span)
            case ast.Break():
                return Break(span=span)
        self.reject(node, "a procedure consists of assignments, `if`, `for`, `while … limit n` and `break`")
        return None


def _iteration(value: ast.expr) -> tuple[ast.expr, ast.GeneratorExp | None]:
    """Splits `(e for j in n if c)`, which may be the second argument of max or min, into the value without the iteration, and that."""
    match value:
        case ast.GeneratorExp():
            return value.elt, value
        case ast.Call(func=ast.Name(id="max" | "min") as func, args=[first, ast.GeneratorExp() as inner], keywords=[]):
            return ast.copy_location(ast.Call(func, [first, inner.elt], []), value), inner
    return value, None


def _extremum(store: Store, op: str, value: Expr) -> tuple[str, Expr]:
    """Recognises the update `max` or `min`: `t[e] = max(t[e], x)`."""
    if op != "=" or store.items is None or not isinstance(value, Call) or value.func not in ("max", "min"):
        return op, value
    base: Expr = Name(store.tensor) if store.element is None else Index(Name(store.tensor), (store.element,))
    if len(value.args) == 2 and value.args[0] == Index(base, store.items):
        second = value.args[1]
        return (op, value) if isinstance(second, Star | Slice) else (value.func, second)
    return op, value


def parse_kernel(text: Text, findings: Findings) -> Kernel:
    """Parses a `kernel:` entry."""
    return KernelReader(text, findings).parse_kernel()


def parse_procedure(text: Text, findings: Findings) -> Procedure:
    """Parses a `procedure:` or `compose:` entry."""
    limits: dict[int, Expr] = {}
    for match in _LIMIT.finditer(text.value):
        line = text.value.count("\n", 0, match.start()) + 1
        limits[line] = parse_expression(text.cut(match.start(3), match.end(3)), findings)
        text = text.masked(match.start(2), match.end(2))
    return KernelReader(text, findings).parse_procedure(limits)
