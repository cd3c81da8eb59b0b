"""Resolves expressions of `compose:` entries: each is one tensor, several tensors, or a value that the rule knows.

In: an op's analysis, the specs of all ops. Out: kinds of expressions, the op that a call or a sign means, and whether an expression is
decided when a body is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anyshape_gen.model.analysis import OpAnalysis, ValueKind
from anyshape_gen.model.functions import CONSTANTS, FUNCTIONS, OF_SIGNATURES
from anyshape_gen.model.nodes import (
    Assign,
    BinOp,
    BoolOp,
    Call,
    Compare,
    Expr,
    If,
    IfExp,
    Index,
    Item,
    Name,
    Node,
    Star,
    Statement,
    Unary,
    VecLit,
)
from anyshape_gen.model.spec import OpSpec, ParamSpec
from anyshape_gen.model.traverse import deciding, walk
from anyshape_gen.resolve.kinds import kind_of
from anyshape_gen.resolve.solve import piece_names

K = ValueKind
TENSORS = (K.TENSOR, K.TENSORS)
Scope = Mapping[str, ValueKind]


@dataclass(frozen=True)
class Argument:
    """An argument of a call of an op, for one input or parameter."""

    name: str
    value: Item
    param: ParamSpec | None


class Composer:
    """Resolves the expressions of one composed op."""

    def __init__(self, a: OpAnalysis, specs: Mapping[str, OpSpec]) -> None:
        self.a, self.spec, self.specs = a, a.spec, specs
        self.rule: dict[str, ValueKind] = {**dict.fromkeys(CONSTANTS, K.FLOAT), **a.kinds}
        self.rule |= dict.fromkeys((rule.var for rule in a.spec.dtypes), K.DTYPE)
        self.inputs = {o.name: K.TENSORS if o.signature.variadic else K.TENSOR for o in a.spec.inputs}
        self.matrices = {m.name: K.TENSOR for m in a.spec.bilinear}
        self.open = _open_names(a)
        self.signs = {(s.operator, len(s.inputs)): s for s in specs.values() if s.operator}

    # --- kinds

    def kind(self, e: Item, scope: Scope) -> ValueKind:
        """Returns the kind of an expression. `scope`: the inputs, and the names that the body has assigned so far."""
        match e:
            case Name(id=name):
                return scope.get(name, self.rule.get(name, K.ANY))
            case Call():
                called = self.called(e, scope)
                if called is not None:
                    return K.TENSORS if called.returns_tuple else K.TENSOR
            case Index(base=base) if self.kind(base, scope) in TENSORS:
                return K.TENSOR
            case BinOp(left=left, right=right):
                return self._computed(e, (left, right), scope)
            case Unary(operand=operand):
                return self._computed(e, (operand,), scope)
            case Compare(first=first, rest=rest):
                return self._computed(e, (first, *(side for _, side in rest)), scope)
            case BoolOp(items=items):
                return self._computed(e, items, scope)
            case IfExp(then=then, other=other):
                kinds = [k for x in (then, other) if (k := self.kind(x, scope)) in TENSORS]
                return kinds[0] if kinds else kind_of(e, self.rule)
            case VecLit(items=listed) if any(self.kind(i, scope) in TENSORS for i in listed):
                return K.TENSORS
            case Star(value=value):
                return self.kind(value, scope)
        return kind_of(e, self.rule)

    def _computed(self, e: Expr, parts: tuple[Expr, ...], scope: Scope) -> ValueKind:
        return K.TENSOR if any(self.kind(x, scope) in TENSORS for x in parts) else kind_of(e, self.rule)

    def is_tensor(self, e: Item, scope: Scope) -> bool:
        return self.kind(e, scope) in TENSORS

    # --- calls

    def called(self, e: Call, scope: Scope) -> OpSpec | None:
        """Returns the op that is called; None for a function of the language. A name of both means the op if an argument is a tensor."""
        op = self.specs.get(e.func)
        if op is None or e.func in OF_SIGNATURES:
            return None
        words = [*e.args, *(value for _, value in e.keywords)]
        is_rule = e.func in FUNCTIONS and FUNCTIONS[e.func].where != "kernel"
        return op if not is_rule or any(self.is_tensor(x, scope) for x in words) else None

    def arguments(self, called: OpSpec, e: Call) -> Iterator[Argument | tuple[str, Item]]:
        """Yields the arguments of a call by input and parameter; one that belongs to neither as its name and value."""
        places: list[tuple[str, ParamSpec | None]] = [(o.name, None) for o in called.inputs]
        places += [(p.name, p) for p in called.params]
        for k, value in enumerate(e.args):
            yield Argument(places[k][0], value, places[k][1]) if k < len(places) else ("", value)
        for name, word in e.keywords:
            matching = [Argument(n, word, p) for n, p in places if n == name]
            yield matching[0] if matching else (name, word)

    def signed(self, sign: str, inputs: int) -> OpSpec | None:
        """Looks up the op with this `operator:` and number of inputs."""
        return self.signs.get((sign, inputs))

    # --- what is decided when a body is built

    def is_static(self, e: Node) -> bool:
        """Whether attributes, ranks and dtypes alone decide the expression."""
        return not any(name.id in self.open for name in deciding(e))


def _open_names(a: OpAnalysis) -> set[str]:
    """Collects the dims of inputs, the operand parameters, and the names that the rule computes from them."""
    names = {name for o in a.spec.inputs for name in piece_names(o)} | {p.name for p in a.spec.dyn_params}
    names = (names | {o.name for o in a.spec.inputs}) - {p.name for p in a.spec.params if not p.dyn}
    while True:
        more = set(_computed_from(a.spec.shape, names)) - names
        more |= {name for name, value in a.spec.floats if any(n.id in names for n in deciding(value))} - names
        if not more:
            return names
        names |= more


def _computed_from(statements: tuple[Statement, ...], names: set[str]) -> Iterator[str]:
    for statement in statements:
        match statement:
            case Assign(names=assigned, value=value) if any(n.id in names for n in deciding(value)):
                yield from assigned
            case If(then=then, other=other):
                yield from _computed_from((*then, *other), names)


def called_ops(spec: OpSpec, specs: Mapping[str, OpSpec]) -> set[str]:
    """Collects the ops that a body calls by name."""
    if spec.compose is None:
        return set()
    return {node.func for node in walk(spec.compose) if isinstance(node, Call) and node.func in specs}
