"""Mutates a spec: each mutant is the same op with one change in its rule, kernel, defaults or outputs.

In: an `OpSpec`. Out: `Mutant`s, each a whole `OpSpec`, in the order of the text. The tests of a spec are tried against them:
a mutant that no test notices is a part of the spec that nothing checks. What decides results is mutated: the
statements of the rule, the functions it uses, the equations, the defaults, the outputs' dims, the rewrites' conditions. Messages,
summaries, mappings, references and examples are not: no result depends on them, or they are the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from anyshape_gen.model.body_nodes import Branch, Break, Equation, For, Set, While
from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Float,
    Function,
    If,
    IfExp,
    Index,
    Int,
    Message,
    Name,
    Node,
    Reduction,
    Str,
    Unary,
    Unbacked,
    VecLit,
)
from anyshape_gen.model.printer import equation_text, step_text, to_text
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, Operand, OpSpec, ParamSpec, Piece, Run, Signature, View

Edit = tuple[str, Any]
"""A change in words, and the new node; `None` removes the old one."""

OPERATORS = {"+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "%": "//", "**": "*"}
ORDERED = ("-", "/", "//", "%", "**")
COMPARED = {
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "in": ("not in",),
    "not in": ("in",),
    "is": ("is not",),
    "is not": ("is",),
}
REDUCED = {"sum": "prod", "prod": "sum", "max": "min", "min": "max", "any": "all", "all": "any", "argmax": "argmin"}
REDUCED |= {"argmin": "argmax", "first": "last", "last": "first"}
CALLED = {
    "max": "min",
    "min": "max",
    "floor": "ceil",
    "ceil": "floor",
    "round_even": "floor",
    "sin": "cos",
    "cos": "sin",
}
CALLED |= {"lowest": "highest", "highest": "lowest", "any": "all", "all": "any", "sum": "prod", "prod": "sum"}
CALLED |= {"argmax": "argmin", "argmin": "argmax"}
UPDATED = {"=": (), "+=": ("=", "-="), "-=": ("=", "+="), "*=": ("=", "+="), "max": ("=", "min"), "min": ("=", "max")}
SHEDDABLE = frozenset(
    ["abs", "floor", "ceil", "round_even", "trunc", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf"]
    + ["wrap", "reflect", "clamp", "unique", "sorted", "broadcast", "prefix"]
)
"""Functions whose call can be replaced by its first argument."""

SYMMETRIC = ("min", "max", "broadcast", "fill", "promote", "zip", "bit_and", "bit_or", "bit_xor")
"""Functions of two arguments that are symmetric, or whose arguments nobody swaps by mistake."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A mutant. Among those of its op `label` names it by the old text and the new text, and `place` by where it is: the entry, the name
    that is defined there, what is changed, and its number among equal changes there. A place outlives changes to the text around it."""

    op: str
    kind: str
    label: str
    place: str
    line: int
    spec: OpSpec


@dataclass(frozen=True, kw_only=True)
class _Change:
    """A change below a node, and the changed node."""

    kind: str
    words: str
    name: str
    """The definition in which the change is: a function, a name, an output; empty outside of definitions"""
    what: str
    line: int
    result: Any


def mutants(spec: OpSpec, shared: Callable[[Node], bool] = lambda function: False) -> Iterator[Mutant]:
    """Yields all mutants of an op; `shared(function)` leaves out a function that another op's mutants cover."""
    seen: dict[tuple[str, str], int] = {}

    def numbered(kind: str, text: str) -> str:
        number = seen[kind, text] = seen.get((kind, text), 0) + 1
        return f"{text} (no. {number})" if number > 1 else text

    for room in ("params", "defines", "shape", "outputs", "kernel", "procedure", "rewrites"):
        part = getattr(spec, room)
        if room == "defines":
            part = tuple(f for f in part if not shared(f))
        for change in _changed(part, spec):
            changed = change.result
            if room == "defines":
                kept = {f.name: f for f in changed}
                changed = tuple(kept.get(f.name, f) for f in spec.defines)
            label = numbered("label", f"{room}: {change.words}")
            place = numbered("place", f"{room}{' ' if change.name else ''}{change.name}: {change.what}")
            mutated = replace(spec, **{room: changed})
            yield Mutant(op=spec.name, kind=change.kind, label=label, place=place, line=change.line, spec=mutated)


def _changed(value: Any, spec: OpSpec) -> Iterator[_Change]:
    """Yields every change below a value, with the changed value."""
    if isinstance(value, tuple):
        for k, x in enumerate(value):
            for change in _changed(x, spec):
                own = () if change.result is None else (change.result,)
                yield replace(change, result=(*value[:k], *own, *value[k + 1 :]))
    elif isinstance(value, Node):
        name = _defined(value)
        for kind, new in _edits(value, spec):
            words = "" if isinstance(value, (Int, Float, Bool, Name)) else f"{shown(value)} >> {shown(new)}"
            what = _what(kind, value, new)
            yield _Change(kind=kind, words=words, name=name, what=what, line=value.span.line, result=new)
        for f in fields(value):
            if not _left_alone(value, f.name):
                for change in _changed(getattr(value, f.name), spec):
                    new = _whole(replace(value, **{f.name: change.result}))
                    words, inner = change.words or _around(value, new), change.name or name
                    yield replace(change, words=words, name=inner, result=new)


def _defined(node: Node) -> str:
    """Returns the name that a node defines, if it does."""
    match node:
        case Equation(target=target):
            return target.tensor
        case Set(targets=targets):
            return ", ".join(target.tensor for target in targets)
        case Assign(names=names):
            return ", ".join(names)
        case Function(name=name) | ParamSpec(name=name) | Operand(name=name) | Unbacked(name=name):
            return name
    return ""


def _what(kind: str, old: Node, new: Node | None) -> str:
    """Words a change by the tokens that change, without the text around them."""
    match old, new:
        case (BinOp(op=a), BinOp(op=b)) | (BoolOp(op=a), BoolOp(op=b)) if a != b:
            return f"{a} to {b}"
        case (Equation(op=a), Equation(op=b)) | (Set(op=a), Set(op=b)) if a != b:
            return f"{a} to {b}"
        case Compare(rest=one), Compare(rest=two):
            return next(f"{a} to {b}" for (a, _), (b, _) in zip(one, two, strict=True) if a != b)
        case (Call(func=a), Call(func=b)) | (Reduction(kind=a), Reduction(kind=b)) if a != b:
            return f"{a} to {b}"
        case Int() | Float() | Bool() | Name(), Node():
            return f"{shown(old)} to {shown(new)}"
        case ParamSpec(default=a), ParamSpec(default=b):
            return f"{shown(a)} to {shown(b)}"
    sign = getattr(old, "func", getattr(old, "op", getattr(old, "kind", "")))
    return f"{kind} of {sign}" if isinstance(sign, str) and sign else kind


def _whole(node: Any) -> Any:
    """Repairs an `if` of which the only statement of a side was removed."""
    if isinstance(node, If) and not node.then:
        return (
            replace(node, cond=Unary("not", node.cond, span=node.span), then=node.other, other=())
            if node.other
            else None
        )
    return node


def _around(value: Node, new: Node) -> str:
    """Words a change with the expression around it, since a changed constant or name alone says too little."""
    return (
        f"{shown(value)} >> {shown(new)}"
        if isinstance(value, (*_SHOWN, ParamSpec, Assert, Equation, Signature))
        else ""
    )


_SHOWN = (
    BinOp, BoolOp, Call, Compare, IfExp, Index, Reduction, Comprehension, VecLit, Function, Assign, Unbacked, Set, For,
    While, Branch
)  # fmt: skip


def _left_alone(node: Node, field: str) -> bool:
    """Whether a field is not mutated: spans, messages, targets of equations, texts of signatures, patterns of rewrites."""
    if field in (
        "span",
        "message",
        "target",
        "targets",
        "text",
        "alias",
        "pattern",
        "annotation",
        "length",
        "kind",
        "variadic",
    ):
        return True
    return isinstance(node, (Message, View))


def shown(node: Any) -> str:
    if node is None:
        return "nothing"
    if isinstance(node, Assert):
        return f"assert {to_text(node.cond)}"
    if isinstance(node, Equation):
        return equation_text(node)
    if isinstance(node, (Set, For, While, Branch, Break)):
        return step_text(node)
    if isinstance(node, Assign):
        return f"{', '.join(node.names)} = {to_text(node.value)}"
    if isinstance(node, Unbacked):
        return f"{node.name} = unbacked({to_text(node.low)}, {to_text(node.high)})"
    if isinstance(node, Function):
        return f"{node.name} gives {to_text(node.result)}"
    if isinstance(node, ParamSpec):
        return f"{node.name} by default {shown(node.default)}"
    if isinstance(node, Signature):
        return ", ".join(map(_piece, node.pieces))
    return to_text(node) if isinstance(node, Node) else str(node)


def _piece(p: Piece) -> str:
    match p:
        case AtAxis(dim, axis):
            return f"{_piece(dim)}@{to_text(axis)}"
        case AtAxes(run, axes):
            return f"*{_piece(run)}@{to_text(axes)}"
        case Dim(name):
            return name
    inner = getattr(p, "expr", None)
    return to_text(inner) if inner is not None else str(getattr(p, "name", type(p).__name__))


# --- what can be changed about one node -----------------------------------------------------------------------------


def _edits(node: Node, spec: OpSpec) -> Iterator[Edit]:
    match node:
        case BinOp():
            yield from _binary(node)
        case Compare():
            yield from _compare(node)
        case BoolOp(op, items):
            yield "condition", replace(node, op="or" if op == "and" else "and")
            if len(items) == 2:
                yield "condition dropped", items[0]
                yield "condition dropped", items[1]
        case IfExp(cond, then, other):
            yield "branches swapped", IfExp(cond, other, then, span=node.span)
        case Unary(_, operand):
            yield "sign", operand
        case Int(value):
            yield "constant", _integer(value + 1, node)
            yield "constant", _integer(value - 1, node)
        case Float(value):
            yield "constant", Float(value * 2 if value else 1.0, span=node.span)
            yield "constant", Float(value / 2 if value else 0.5, span=node.span)
        case Bool(value):
            yield "constant", Bool(not value, span=node.span)
        case Call():
            yield from _call(node)
        case Reduction():
            yield from _reduction(node)
        case Comprehension(conditions=conditions) if conditions:
            yield "filter dropped", replace(node, conditions=())
        case Index(_, items) if len(items) == 2 and items[0] != items[1] and type(items[0]) is type(items[1]):
            yield "indices swapped", replace(node, items=(items[1], items[0]))
        case Name():
            yield from _names(node, spec)
        case _:
            yield from _statement(node)


def _statement(node: Node) -> Iterator[Edit]:
    match node:
        case Assert():
            yield "assert dropped", None
        case Break():
            yield "break dropped", None
        case Branch(then=first, other=second) if second:
            yield "branches swapped", replace(node, then=second, other=first)
        case Equation(op=op) | Set(op=op):
            for other in UPDATED.get(op, ()):
                yield "update", replace(node, op=other)
            if isinstance(node, Equation) and node.filters:
                yield "filter dropped", replace(node, filters=())
        case ParamSpec(default=Str(value), kind=kind) if len(kind.members) > 1:
            at = kind.members.index(value) if value in kind.members else 0
            other = kind.members[(at + 1) % len(kind.members)]
            yield "default", replace(node, default=Str(other, span=node.span))
        case Signature(pieces=pieces) if len(pieces) > 1:
            for k in range(len(pieces) - 1):
                if not isinstance(pieces[k], AtAxes) and not isinstance(pieces[k + 1], AtAxes):
                    swapped = (*pieces[:k], pieces[k + 1], pieces[k], *pieces[k + 2 :])
                    yield "dims swapped", replace(node, pieces=swapped)


def _binary(node: BinOp) -> Iterator[Edit]:
    yield "operator", replace(node, op=OPERATORS[node.op])
    if node.op in ORDERED:
        yield "operands swapped", replace(node, left=node.right, right=node.left)


def _compare(node: Compare) -> Iterator[Edit]:
    for k, (op, right) in enumerate(node.rest):
        for other in COMPARED.get(op, ()):
            yield "comparison", replace(node, rest=(*node.rest[:k], (other, right), *node.rest[k + 1 :]))


def _integer(value: int, node: Int) -> Node:
    return Int(value, span=node.span) if value >= 0 else Unary("-", Int(-value, span=node.span), span=node.span)


def _call(node: Call) -> Iterator[Edit]:
    if node.func in CALLED:
        yield "function", replace(node, func=CALLED[node.func])
    if node.func in SHEDDABLE and node.args and not node.keywords:
        yield "function dropped", node.args[0]
    if len(node.args) == 2 and node.func not in SYMMETRIC and not node.keywords:
        yield "operands swapped", replace(node, args=(node.args[1], node.args[0]))
    if node.func == "clamp" and len(node.args) == 3:
        x, low, high = node.args
        yield "bound dropped", replace(node, func="max", args=(x, low))
        yield "bound dropped", replace(node, func="min", args=(x, high))


def _reduction(node: Reduction) -> Iterator[Edit]:
    if node.kind in REDUCED:
        yield "reduction", replace(node, kind=REDUCED[node.kind])
    if node.conditions:
        yield "filter dropped", replace(node, conditions=())


def _names(node: Name, spec: OpSpec) -> Iterator[Edit]:
    """Yields another dim of the signature, or another tensor of the same dtype and rank."""
    for group in (_dims(spec), _runs(spec)):
        if node.id in group and len(group) > 1:
            yield "dim", replace(node, id=group[(group.index(node.id) + 1) % len(group)])
    same = _alike(node.id, spec)
    if same:
        yield "tensor", replace(node, id=same)


def _dims(spec: OpSpec) -> list[str]:
    names: list[str] = []
    for o in spec.inputs:
        for p in o.signature.pieces:
            inner = p.dim if isinstance(p, AtAxis) else p
            if isinstance(inner, Dim) and not inner.optional and inner.element is None and inner.name not in names:
                names.append(inner.name)
    return names


def _runs(spec: OpSpec) -> list[str]:
    names: list[str] = []
    for o in spec.inputs:
        for p in o.signature.pieces:
            inner = p.run if isinstance(p, AtAxes) else p
            if isinstance(inner, Run) and inner.element is None and inner.name not in names:
                names.append(inner.name)
    return names


def _alike(name: str, spec: OpSpec) -> str | None:
    """Returns the next input with the same form of signature."""
    forms = {o.name: (o.signature.dtype, [type(p) for p in o.signature.pieces]) for o in spec.inputs}
    if name not in forms:
        return None
    same = [n for n, form in forms.items() if form == forms[name]]
    return same[(same.index(name) + 1) % len(same)] if len(same) > 1 else None
