"""Emits type relations: one function for each op that runs its signature and its shape rule on integers and on dims alike.

In: an op's analysis and the names its kernel reads. Out: the text of `<op>_relation`.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterable, Iterator, Mapping

from anyshape_gen.emit.rules.rule_text import RuleText, source_of
from anyshape_gen.emit.text.module import Code, Emitted, quoted, use
from anyshape_gen.emit.text.names import RULE_NAMES, relation_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import (
    AtLeastOne,
    BindParam,
    Define,
    Equal,
    ForEach,
    IfPresent,
    OpAnalysis,
    RankCheck,
    SolveStep,
)
from anyshape_gen.model.build import call
from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    Bool,
    Call,
    Comprehension,
    Expr,
    Float,
    Function,
    If,
    Int,
    Name,
    NoneLit,
    Star,
    Statement,
    Str,
    Unary,
    Unbacked,
    VecLit,
)
from anyshape_gen.model.spec import ParamSpec
from anyshape_gen.model.traverse import free_names

KNOWN = {**RULE_NAMES, **dict.fromkeys(("inf", "pi"), "math"), "Any": "typing"}

ANNOTATIONS = {
    "bool": "bool", "int": use("Any"), "float": use("Any"), "number": use("Any"), "str": "str", "enum": "str", "dtype": use("Any"),
    "axis": use("Any"), "axes": use("Any"), "ints": use("Any"), "floats": use("Any"), "strs": use("Any"),
}  # fmt: skip


def attributes_of(a: OpAnalysis) -> frozenset[str]:
    """Collects parameters that are attributes in every variant."""
    return frozenset(p.name for p in a.spec.params if not p.dyn)


def relation(a: OpAnalysis, bound: Iterable[str], hoisted: Mapping[str, Expr]) -> Emitted:
    """Emits the relation of an op. `bound`: the names that the kernel reads; `hoisted`: expressions that the relation computes for the
    kernel."""
    own = {o.name for o in a.spec.inputs} | {p.name for p in a.spec.params}
    plain = frozenset(own - _names_read(RelationEmitter(a, hoisted, set(), frozenset()).emit(bound)))
    unused: set[str] = set()
    while True:
        text = RelationEmitter(a, hoisted, unused, plain).emit(bound)
        more = _names(text, ast.Store) - _names_read(text) - unused
        if not more:
            return text
        unused |= more


def _names_read(text: str) -> set[str]:
    return _names(text, ast.Load)


def _names(text: str, use: type[ast.expr_context]) -> set[str]:
    """Collects names that a relation reads, or those that it sets."""
    return {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and isinstance(n.ctx, use)}


class RelationEmitter:
    """Emits one relation. `plain`: operands and parameters that keep their names, since they hide nothing that the relation calls."""

    def __init__(self, a: OpAnalysis, hoisted: Mapping[str, Expr], unused: set[str], plain: frozenset[str]) -> None:
        self.a, self.spec, self.hoisted, self.unused, self.plain = a, a.spec, hoisted, unused, plain
        self.code = Code()
        self.element: str | None = None
        """The variable of the loop over the tensors of a variadic, inside it"""
        self.rule_text = self._text(trusted=False)
        self.solve_text = self._text(trusted=True)

    def _text(self, trusted: bool) -> RuleText:
        text = RuleText(self.a.kinds, attributes_of(self.a), self.name, trusted=trusted).of(self.spec)
        text.functions = frozenset(f.name for f in self.a.shape_functions)
        return text

    def emit(self, bound: Iterable[str]) -> Emitted:
        code = self.code
        code.comment(source_of(self.spec))
        code.add(f"def {self.spec.name}_relation({', '.join(self._parameters())}) -> {use('Bound')}:")
        code.indent()
        for name in self._renamed():
            code.add(f"{self.name(name)} = passed[{quoted(name)}]")
        for function in self.a.shape_functions:
            self._function(function)
        for step in sorted(self.a.steps, key=lambda s: not isinstance(s, AtLeastOne)):
            self._step(step)
        for statement in self.a.rule:
            self._statement(statement)
        counted = self.a.kernel.unbacked if self.a.kernel is not None else ()
        late = {name for name, e in self.hoisted.items() if not free_names(e).isdisjoint(b.name for b in counted)}
        for name in (name for name in self.hoisted if name not in late):
            self._hoisted(name)
        for unbacked in counted:
            low, high = self.rule_text.text(unbacked.low), self.rule_text.text(unbacked.high)
            self.code.add(f"{self.name(unbacked.name)} = rule.unbacked({quoted(unbacked.name)}, {low}, {high})")
        for name in (name for name in self.hoisted if name in late):
            self._hoisted(name)
        self._bind(bound)
        return code.text()

    def _hoisted(self, name: str) -> None:
        self.code.add(f"{self.name(name)} = {self.rule_text.text(self.hoisted[name])}")

    def name(self, name: str) -> str:
        return name if name in self.plain else relation_name(name)

    def _renamed(self) -> list[str]:
        """Lists operands and parameters whose names would hide names that the relation calls; callers still pass them by these names."""
        names = [*(o.name for o in self.spec.inputs), *(p.name for p in self.spec.params)]
        return [n for n in names if self.name(n) != n]

    def _parameters(self) -> list[str]:
        renamed = self._renamed()
        parameters = [f"rule: {use('Rule')}", *(["/"] if renamed else [])]
        named = []
        or_several = f" | {use('Elements')}[{use('Vec')}]"
        for o in self.spec.inputs:
            optional = o.signature.optional or o.signature.default is not None
            if o.name not in renamed:
                kind = (
                    f"list[{use('Vec')}]"
                    if o.signature.variadic
                    else f"{use('Vec')} | None"
                    if optional
                    else use("Vec")
                )
                named.append(f"{o.name}: {kind}{or_several if o.signature.sequence else ''}")
        named += [f"{p.name}: {self._annotation(p)}" for p in self.spec.params if p.name not in renamed]
        return [*parameters, *(["*", *named] if named else []), *([f"**passed: {use('Any')}"] if renamed else [])]

    @staticmethod
    def _annotation(p: ParamSpec) -> str:
        if p.dyn or isinstance(p.default, NoneLit):
            return use("Any")
        return ANNOTATIONS[p.kind.base]

    def _function(self, f: Function) -> None:
        args = ", ".join(f"{self.name(x)}: Any" for x in f.args)
        self.code.add(f"def {self.name(f.name)}({args}) -> {use('Any')}:")
        self.code.indent()
        for assign in f.body:
            self._assign(assign)
        self.code.add(f"return {self.rule_text.text(f.result)}")
        self.code.dedent()
        self.code.add()

    # --- the signature

    def _step(self, step: SolveStep) -> None:
        match step:
            case RankCheck():
                self._rank(step)
            case BindParam():
                self._param(step)
            case Define(name, value):
                text = self._each(value) if name in self.spec.own_dims else self.solve_text.text(value)
                if name not in self.unused:
                    self.code.add(f"{self.name(name)} = {text}")
                elif "rule." in text:
                    self.code.add(text)
            case Equal(left, right, what):
                words = quoted(what) if self.element is None else f'lambda: f"{what}[{{{self.name(self.element)}}}]"'
                equal = f"rule.equal({self.solve_text.text(left)}, {self.solve_text.text(right)}, {words})"
                self.code.add(f"{self.name(left.id)} = {equal}" if isinstance(left, Name) else equal)
            case ForEach(var, count, steps):
                sequence = self.spec.sequence
                numbers = f"range({self.solve_text.text(count)})"
                if sequence is not None:
                    numbers = f"{use('numbers_of')}({self.name(sequence.name)})"
                self.element = var
                self._under(f"for {self.name(var)} in {numbers}:", steps)
                self.element = None
            case AtLeastOne(operand):
                message = f'lambda: "{operand} needs at least one tensor"'
                number = self.rule_text.text(call("len", Name(operand)))
                test = f"{use('gt')}({number}, 0)" if operand == self.rule_text.sequence else f"{number} > 0"
                self.code.add(f"rule.require({test}, {message})")
            case IfPresent(operand, steps, absent):
                has_steps = self._under(f"if {self.name(operand)} is not None:", steps)
                self._under("else:" if has_steps else f"if {self.name(operand)} is None:", absent)

    def _each(self, value: Expr) -> str:
        """Emits a dim that differs from element to element of a sequence."""
        assert isinstance(value, Comprehension) and self.spec.sequence is not None
        var = self.name(value.generators[0].targets[0].name)
        return f"{use('each_of')}({self.name(self.spec.sequence.name)}, lambda {var}: {self.solve_text.text(value.element)})"

    def _under(self, head: str, steps: Iterable[SolveStep]) -> bool:
        """Emits steps below a head; no head where the steps are empty."""
        at = len(self.code.lines)
        self.code.add(head)
        below = len(self.code.lines)
        self.code.indent()
        for step in steps:
            self._step(step)
        self.code.dedent()
        if len(self.code.lines) == below:
            del self.code.lines[at:]
        return len(self.code.lines) > at

    def _rank(self, step: RankCheck) -> None:
        operand = self.name(step.operand)
        if step.element is not None:
            operand += f"[{self.name(step.element)}]"
        name = step.operand if step.element is None else f"{step.operand}[{{{self.name(step.element)}}}]"
        if (
            isinstance(step.rank, Name)
            and step.most != step.rank
            and step.rank.id not in {p.name for p in self.spec.params}
        ):
            count = self.name(step.rank.id)
            self.code.add(f"{count} = rule.dim_count({quoted(step.rank.id)}, {count}, len({operand}))")
        for test, words, bound in _rank_tests(step):
            rank = self.solve_text.text(bound)
            shown = rank if rank.isdigit() else "{" + rank + "}"
            message = f'lambda: f"{name} must have {words} {shown}, got rank {{len({operand})}}"'
            self.code.add(f"rule.require({use(test)}(len({operand}), {rank}), {message})")

    def _param(self, step: BindParam) -> None:
        p, name = step.param, self.name(step.param.name)
        computed = step.default is not None and literal(step.default) is NOT_LITERAL
        absent = isinstance(p.default, NoneLit)
        if (computed or p.empty is not None) and step.default is not None:
            empty = "" if p.empty is None else f" or ({self.rule_text.text(p.empty)} and len({name}) == 0)"
            self.code.add(f"if {name} is None{empty}:")
            self.code.indent()
            self.code.add(f"{name} = {self.rule_text.text(step.default)}")
            self.code.dedent()
        if absent and (step.of is not None or step.length is not None or step.defines_length):
            self.code.add(f"if {name} is not None:")
            self.code.indent()
        if p.kind.base in ("axis", "axes"):
            if step.of is None:
                raise NotExecuted(p, f"{p.name} without a rank to normalise against")
            rank = self.rule_text.text(step.of)
            operand = next((o.name for o in self.spec.inputs if rank == f"len({self.name(o.name)})"), None)
            of = f", of={quoted(operand)}" if operand is not None else ""
            self.code.add(f"{name} = rule.{p.kind.base}({quoted(p.name)}, {name}, {rank}{of})")
        if step.defines_length is not None:
            if step.defines_length not in self.unused:
                self.code.add(f"{self.name(step.defines_length)} = len({name})")
        elif step.length is not None:
            expected = self.rule_text.text(step.length)
            equal = f"rule.equal({expected}, len({name}), {quoted(f'the length of {p.name}')})"
            self.code.add(f"{expected} = {equal}" if isinstance(step.length, Name) else equal)  # else it is a number
        if absent and (step.of is not None or step.length is not None or step.defines_length):
            self.code.dedent()

    # --- the rule

    def _statement(self, s: Statement) -> None:
        match s:
            case Assign():
                self._assign(s)
            case Assert(cond, message):
                lazy = self.rule_text.message(message, f"the rule of {self.spec.name} does not hold")
                self.code.add(f"rule.require({self.rule_text.text(cond)}, {lazy})")
            case If(cond, then, other):
                self.code.add(f"if {self.rule_text.text(cond)}:")
                self._block(then)
                if other:
                    self.code.add("else:")
                    self._block(other)
            case Unbacked(name, low, high):
                ends = f"{self.rule_text.text(low)}, {self.rule_text.text(high)}"
                self.code.add(f"{self.name(name)} = rule.unbacked({quoted(name)}, {ends})")

    def _block(self, statements: tuple[Statement, ...]) -> None:
        self.code.indent()
        for s in statements:
            self._statement(s)
        self.code.dedent()

    def _assign(self, s: Assign) -> None:
        self.code.add(f"{', '.join(map(self.name, s.names))} = {self.rule_text.text(s.value)}")

    def _bind(self, bound: Iterable[str]) -> None:
        outputs = []
        known = {value: name for name, value in self.hoisted.items()}
        for o in self.a.outputs:
            shape = (
                self.name(known[o.shape]) if o.shape in known else self.solve_text.text(_known_parts(o.shape, known))
            )
            if o.var is not None and o.count is not None:
                shape = f"[{shape} for {self.name(o.var)} in range({self.solve_text.text(o.count)})]"
            outputs.append(f"{quoted(o.name)}: {shape}")
        names = [f"{attribute_name(n)}={self.rule_text.rename(n)}" for n in bound]
        self.code.add(f"return rule.bind({', '.join(['outputs={' + ', '.join(outputs) + '}', *names])})")


def _rank_tests(step: RankCheck) -> Iterator[tuple[str, str, Expr]]:
    """Yields comparisons of a rank: function, sign and bound."""
    if step.most == step.rank:
        yield "eq", "rank", step.rank
        return
    if step.rank != Int(0):
        yield "ge", "at least rank", step.rank
    if step.most is not None:
        yield "le", "at most rank", step.most


def _known_parts(shape: Expr, known: Mapping[Expr, str]) -> Expr:
    """Replaces parts of the shape that are computed for the kernel by their names."""
    if not isinstance(shape, VecLit):
        return shape
    items = [Star(Name(known[i.value])) if isinstance(i, Star) and i.value in known else i for i in shape.items]
    return VecLit(tuple(items))


def attribute_name(name: str) -> str:
    """Converts a name to that of an attribute of Bound."""
    return f"{name}_" if name == "outputs" or keyword.iskeyword(name) else name


NOT_LITERAL = object()


def literal(e: object) -> object:
    """Returns the Python value of a literal expression, or NOT_LITERAL."""
    match e:
        case Int(value) | Float(value):
            return value
        case Bool(value):
            return value
        case Str(value):
            return value
        case NoneLit():
            return None
        case Name("inf"):
            return float("inf")
        case Unary("-", operand):
            inner = literal(operand)
            return -inner if isinstance(inner, (int, float)) else NOT_LITERAL
        case VecLit(items):
            values = [literal(i) for i in items]
            return NOT_LITERAL if NOT_LITERAL in values else tuple(values)
    return NOT_LITERAL


def is_constant(e: Expr) -> bool:
    """Whether the value of an absent input is the same in every call."""
    return literal(e) is not NOT_LITERAL or (isinstance(e, Call) and e.func in ("lowest", "highest"))
