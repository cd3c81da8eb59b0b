"""The state while the function that draws a random call is emitted: names that are drawn, and names that can be drawn now.

In: an op's analysis. Out: `CaseWriter`, an argument of the functions that emit draws (`case_sizes`, `case_params`, `cases`).
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape_gen.emit.draws.case_text import local
from anyshape_gen.emit.draws.constraints import ANY, Constraints
from anyshape_gen.emit.rules.relations import NOT_LITERAL, literal
from anyshape_gen.emit.rules.rule_text import RuleText
from anyshape_gen.emit.text.module import Code, number_text, quoted
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Call, Expr, Name, NoneLit
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, Operand, ParamSpec, Run, RunExpr
from anyshape_gen.model.traverse import free_names, rebuild, walk, walk_all

DRAWN_FIRST = ("int", "bool", "number", "enum", "ints", "axis", "axes")
"""Kinds of parameters that may be drawn before other names that depend on them"""
RANK = "rank_of_first"
"""A placeholder for the rank of the first input"""


class CaseWriter:
    """The function that draws calls of one op, as far as it is emitted."""

    def __init__(self, a: OpAnalysis, resolved: frozenset[str], draws: Callable[[CaseWriter, ParamSpec], None]) -> None:
        self.a, self.spec = a, a.spec
        self.resolved = resolved
        """Parameters that other draws depend on: None is replaced by the default at once."""
        self.draws = draws
        """Emits the draw of a parameter."""
        self.code = Code()
        self.drawn: set[str] = set()
        self.text = RuleText(a.kinds, rename=local, trusted=True)
        self.params: dict[str, ParamSpec] = {p.name: p for p in self.spec.params}
        divisions = [e for e in walk_all([*a.rule, *self.spec.outputs, *self.spec.inputs]) if isinstance(e, Call)]
        self.constraints = Constraints(a.rule, divisions, a.shape_functions)
        self.early: set[str] = set()
        """Params that other draws depend on"""
        self.open: set[str] = set()
        """Params whose draws are being emitted: no other draw may depend on them yet"""
        self.passed: dict[str, str] = {}
        """The name of the drawn argument, which may be None, for each of `resolved` that has a default"""
        self.position: dict[str, str] = {}
        """The number of dims before each axis"""
        self.together = [g for g in self.constraints.together() if set(g) <= {o.name for o in self.spec.inputs}]

    def new(self, name: str, draw: str) -> None:
        if name not in self.drawn:
            self.drawn.add(name)
            self.code.add(f"{local(name)} = {draw}")

    def spell(self, e: Expr) -> str:
        """Prints an expression, after its names are drawn."""
        self.draw_first(e)
        return self.text.text(e)

    def known(self, e: Expr, subject: Expr) -> bool:
        """Whether all names of an expression are drawn, or are parameters that can be drawn before the subject."""
        drawable = {n for n, p in self.params.items() if n not in self.drawn | self.open and self.can_be_drawn(p)}
        return free_names(e) <= self.drawn | {ANY.id} | (drawable - free_names(subject))

    def can_be_drawn(self, p: ParamSpec) -> bool:
        """Whether the parameter's length and constraints depend on drawn names only, and its default can be computed now."""
        length = p.kind.length
        counted = length is None or isinstance(length, Name) or free_names(length) <= self.drawn
        if p.kind.base in ("axis", "axes"):
            counted = counted and bool(self.spec.inputs) and self.is_drawn(self.spec.inputs[0]) and p.of is None
        return counted and p.kind.base in DRAWN_FIRST and (p.default is None or self.default_is_known(p))

    def default_is_known(self, p: ParamSpec) -> bool:
        """Whether the parameter's default can be computed, now or when parameters without a default are drawn."""
        if self.default(p) is not None:
            return True
        missing = free_names(p.default) - self.drawn if p.default is not None else set()
        absent = [self.params[n] for n in missing if n in self.params and n not in self.open]
        return 0 < len(absent) == len(missing) and all(q.default is None and self.can_be_drawn(q) for q in absent)

    def is_drawn(self, o: Operand) -> bool:
        pieces = o.signature.pieces
        return all(free_names(p) - set(self.params) <= self.drawn for p in pieces) and o.signature.variadic is None

    def default(self, p: ParamSpec) -> str | None:
        """Prints the parameter's default; None where it has none, or one of names that are not drawn yet."""
        if p.default is None or isinstance(p.default, NoneLit):
            return None
        if (value := literal(p.default)) is not NOT_LITERAL:
            return quoted(value) if isinstance(value, str) else number_text(value)
        e = p.default
        ranks = {n for c in walk(e) for n in (free_names(c) if isinstance(c, Call) and c.func == "rank" else ())}
        if not free_names(e) - ranks <= self.drawn or not ranks <= {o.name for o in self.spec.inputs[:1]}:
            return None
        if ranks and not self.is_drawn(self.spec.inputs[0]):
            return None

        def change(node: Expr) -> Expr:
            return Name(RANK) if isinstance(node, Call) and node.func == "rank" else rebuild(node, change)

        text = self.text.text(change(e))
        return text.replace(f"{RANK}", f"{self.rank(self.spec.inputs[0])}") if ranks else text

    def draw_first(self, e: Expr | None) -> None:
        if e is not None:
            for name in sorted((free_names(e) - self.drawn) & set(self.params)):
                self.draws(self, self.params[name])
            self.early |= free_names(e) & set(self.params)

    def rank(self, o: Operand) -> str:
        """Prints the rank of an input of which all names are drawn."""
        words = []
        fixed = 0
        for p in o.signature.pieces:
            inner = p.run if isinstance(p, AtAxes) else p.dim if isinstance(p, AtAxis) else p
            if isinstance(inner, Run) or (isinstance(inner, Dim) and inner.optional):
                words.append(f"len({local(inner.name)})")
            elif isinstance(inner, RunExpr):
                words.append(f"len({self.text.text(inner.expr)})")
            else:
                fixed += 1
        if fixed or not words:
            words.append(str(fixed))
        return " + ".join(words)
