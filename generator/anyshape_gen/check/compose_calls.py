"""Checks expressions of a composition: names are known, calls fit the called ops, and every sign is the `operator:` of an op.

In: an op's analysis, the specs of all ops, an expression and the names in scope. Out: findings, and the expression's kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anyshape_gen.model.analysis import OpAnalysis, ValueKind
from anyshape_gen.model.body_nodes import Store
from anyshape_gen.model.functions import FUNCTIONS, OF_SIGNATURES
from anyshape_gen.model.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Expr,
    IfExp,
    Index,
    Item,
    Name,
    Node,
    NoneLit,
    Slice,
    Star,
    Str,
    Unary,
    VecLit,
)
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec, ParamSpec
from anyshape_gen.model.traverse import children, walk, walk_all
from anyshape_gen.parse.values import DTYPES, OTHER_DTYPES
from anyshape_gen.resolve.composing import TENSORS, Argument, Composer

K = ValueKind


@dataclass
class Block:
    """The names that are known at a place of the body."""

    scope: dict[str, ValueKind]
    elsewhere: dict[str, str] = field(default_factory=dict)
    """names that are known in other places only, and why"""
    collected: dict[str, Store] | None = None
    """names that the innermost loop collects, if the block is the body of a loop"""
    defined: set[str] = field(default_factory=set)
    """names that the block assigns"""

    def inside(self, collected: dict[str, Store] | None = None) -> Block:
        return Block(dict(self.scope), dict(self.elsewhere), collected)


class ExpressionChecker:
    """Checks expressions of one body."""

    def __init__(self, a: OpAnalysis, specs: Mapping[str, OpSpec], findings: Findings) -> None:
        self.spec, self.specs, self.findings = a.spec, specs, findings
        self.of = Composer(a, specs)
        self.read: set[str] = set()

    def one(self, e: Item, block: Block) -> None:
        """Checks that an expression is one tensor, or a number."""
        kind = self.tensor(e, block)
        if kind in (K.TENSORS, K.VECTOR, K.STR, K.DTYPE, K.NONE):
            words = "several tensors" if kind is K.TENSORS else f"a {kind.value}"
            self.findings.add(e.span, f"one tensor is required here, but this is {words}")

    def tensor(self, e: Item, block: Block) -> ValueKind:
        """Checks an expression, and returns its kind."""
        kind = self.of.kind(e, block.scope)
        if kind not in TENSORS and not (isinstance(e, Call) and self.of.called(e, block.scope)):
            self._rule(e, block)
            return kind
        match e:
            case Name():
                self.read.add(e.id)
            case Call():
                self._call(e, block)
            case Index(base=base, items=items):
                self._index(e, base, items, block)
            case BinOp(op=op, left=left, right=right):
                self._sign(e, op, (left, right), block)
            case Unary(op=op, operand=operand):
                self._sign(e, op, (operand,), block)
            case Compare(first=first, rest=((op, right),)):
                self._sign(e, op, (first, right), block)
            case Compare():
                self.findings.add(e.span, "a comparison of tensors has two operands")
            case BoolOp(op=op, items=items):
                self._sign(e, op, items, block, most=2)
            case IfExp(cond=cond, then=then, other=other):
                if self.of.is_tensor(cond, block.scope) or not self.of.is_static(cond):
                    self.findings.add(
                        cond.span,
                        "the condition of `a if c else b` must depend on attributes, ranks and dtypes only; use an `if` statement",
                    )
                for part in (cond, then, other):
                    self.tensor(part, block)
            case VecLit(items=items):
                for item in items:
                    self._listed(item, block)
            case _:
                self.findings.add(e.span, "this operation is not defined for tensors; call an op")
        return kind

    def _listed(self, item: Item, block: Block) -> None:
        if isinstance(item, Star):
            if self.tensor(item.value, block) not in (K.TENSORS, K.ANY):
                self.findings.add(item.span, "a star can only be before several tensors")
        else:
            self.one(item, block)

    def _unknown(self, e: Name, block: Block) -> None:
        if e.id == "<broken>":
            return
        self.read.add(e.id)
        why = block.elsewhere.get(e.id)
        if why:
            self.findings.add(e.span, f"'{e.id}' is not known here: {why}")
        else:
            self.findings.unknown(e.span, "name", e.id, {*block.scope, *self.of.rule})

    def _rule(self, e: Item, block: Block) -> None:
        """Checks an expression that is no tensor: names that the rule knows, and functions of the language on them."""
        functions = {f.name for f in self.spec.defines}
        for node in walk(e):
            match node:
                case Name(id=name) if name in block.scope:
                    self.read.add(name)
                case Name(id=name) if name not in self.of.rule and name not in (*DTYPES, *OTHER_DTYPES):
                    self._unknown(node, block)
                case Call(func=func) if func in functions:
                    self.findings.add(
                        node.span, f"'{func}' is a function of rules; assign its result to a name in `shape:`"
                    )
                case Call(func=func) if func in OF_SIGNATURES:
                    for asked in (n for n in walk_all(children(node)) if isinstance(n, Name)):
                        if asked.id in block.scope and asked.id not in self.of.inputs:
                            text = f"'{func}' can only be called on inputs, but '{asked.id}' is assigned here; an op can return its shape"
                            self.findings.add(node.span, text)
                case Call(func=func) if func not in FUNCTIONS:
                    self.findings.unknown(node.span, "op", func, self.of.specs)

    def _index(self, e: Index, base: Expr, items: tuple[Item, ...], block: Block) -> None:
        self.tensor(base, block)
        many = self.of.kind(base, block.scope) is K.TENSORS
        if len(items) != 1 or isinstance(items[0], (Star, Slice)):
            self.findings.add(e.span, "a tensor has one index here, of its first dim: `x[t]`")
            return
        if many and (self.of.is_tensor(items[0], block.scope) or not self.of.is_static(items[0])):
            self.findings.add(items[0].span, "the index of several tensors must be known when the body is built")
        self.tensor(items[0], block)
        if not many and self.of.signed("[]", 2) is None:
            self.findings.add(e.span, 'no op has `operator: "[]"`; call an op by name')

    def _sign(self, e: Node, sign: str, parts: tuple[Expr, ...], block: Block, most: int = 0) -> None:
        if self.of.signed(sign, most or len(parts)) is None:
            self.findings.add(e.span, f'no op has `operator: "{sign}"` with as many inputs; call an op by name')
        for part in parts:
            self.one(part, block)

    # --- calls

    def _call(self, e: Call, block: Block) -> None:
        called = self.of.called(e, block.scope)
        if called is None:
            self.findings.unknown(e.span, "op", e.func, self.of.specs)
            return
        passed: set[str] = set()
        for argument in self.of.arguments(called, e):
            if not isinstance(argument, Argument):
                self._superfluous(called, argument)
                continue
            if argument.name in passed:
                self.findings.add(argument.value.span, f"'{argument.name}' of '{called.name}' is given twice")
            passed.add(argument.name)
            if argument.param is None:
                self._input(called, argument, block)
            else:
                self._param(called, argument.param, argument.value, block)
        required = [o.name for o in called.inputs if o.signature.default is None and not o.signature.optional]
        required += [p.name for p in called.params if p.default is None]
        missing = [name for name in required if name not in passed]
        if missing:
            self.findings.add(e.span, f"'{called.name}' needs {' and '.join(missing)}")

    def _superfluous(self, called: OpSpec, argument: tuple[str, Item]) -> None:
        name, value = argument
        known = [*(o.name for o in called.inputs), *(p.name for p in called.params)]
        if name:
            self.findings.unknown(value.span, "input or parameter", name, known, f" of '{called.name}'")
        else:
            self.findings.add(value.span, f"'{called.name}' takes {len(known)} arguments: {', '.join(known)}")

    def _input(self, called: OpSpec, argument: Argument, block: Block) -> None:
        operand = called.input(argument.name)
        assert operand is not None
        value = argument.value
        if operand.signature.variadic:
            if self.tensor(value, block) not in (K.TENSORS, K.ANY):
                self.findings.add(value.span, f"'{argument.name}' of '{called.name}' is several tensors: write [a, b]")
        elif isinstance(value, NoneLit):
            if operand.signature.default is None and not operand.signature.optional:
                self.findings.add(value.span, f"'{argument.name}' of '{called.name}' cannot be absent")
        else:
            self.one(value, block)

    def _param(self, called: OpSpec, p: ParamSpec, value: Item, block: Block) -> None:
        kind = self.tensor(value, block)
        where = f"'{p.name}' of '{called.name}'"
        if isinstance(value, Star):
            self.findings.add(value.span, f"a star can only be before several tensors, but {where} is a parameter")
        elif kind in TENSORS:
            if not p.dyn or kind is K.TENSORS:
                self.findings.add(value.span, f"{where} is an attribute, but this is a tensor")
        elif not p.dyn and not self.of.is_static(value):
            self.findings.add(value.span, f"{where} is an attribute, but this depends on sizes")
        if isinstance(value, Str) and p.kind.members and value.value not in p.kind.members:
            self.findings.unknown(value.span, "member", value.value, p.kind.members)
