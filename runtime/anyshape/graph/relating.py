"""A call's operands as its relation takes them, and the runs of the relation: one, or one for each alternative of the call.

In: a node of which nothing need be inferred. Out: what the op's rule finds (`Bound`). Where axes are known at run time only, every position
is tried; what all agree in is known before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dims import Facts, Size, bounds, eq, fresh
from anyshape.errors import ShapeError
from anyshape.graph.opdef import OpDef, ParamDef
from anyshape.graph.sequences import elements_of
from anyshape.graph.value import SMALL, Node, Value
from anyshape.rules import Bound, Choices, Chosen, Rule, Undetermined, Vec


def related(node: Node, rule: Rule, shapes: Mapping[str, Any] | None = None) -> Bound:
    """Runs the op's rule on a call's operands. Raises what the rule raises, Undetermined too."""
    bound: Bound = node.op.relation(rule, **_operands(node, shapes))
    return bound


def _operands(node: Node, shapes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of the relation. Raises Undetermined for an unknown rank, or for a value that is not known."""
    return {**(shapes_of(node) if shapes is None else shapes), **parameter_values(node)}


@dataclass(frozen=True)
class Alternative:
    """What a call is where positions stand for axes that only the run tells; None where it is refused then."""

    chosen: Mapping[Any, Chosen]
    bound: Bound | None
    refusal: str = ""


def alternatives(node: Node, facts: Facts | None, ranks: bool = False) -> list[Alternative] | None:
    """Lists all that a call may be; None if these are too many, or if more than axes is open. `ranks`: sizes on which ranks depend may be
    open too."""
    if node.sequence is not None:
        return None
    choices = Choices(ranks)
    try:
        operands = _operands(node)
        possible = []
        while choices.again():
            rule = Rule(node.op.full_name, node.source, facts.under(True) if facts is not None else None)
            rule.choices = choices
            possible.append(_alternative(node, rule, operands))
    except Undetermined:
        return None
    return possible if choices.exhausted else None


def _alternative(node: Node, rule: Rule, operands: Mapping[str, Any]) -> Alternative:
    """The alternative that the rule's choices make."""
    assert rule.choices is not None
    try:
        bound = node.op.relation(rule, **operands)
    except ShapeError as e:
        return Alternative(rule.choices.chosen, None, str(e))
    return Alternative(rule.choices.chosen, bound)


def ranks_anyway(node: Node, facts: Facts | None) -> list[tuple[Size, ...] | None] | None:
    """The shapes of the outputs as far as they are the same wherever an axis that only the run tells may be, and however many dims a size
    means; None where that is open."""
    shapes: list[list[Vec]] = []
    for alternative in alternatives(node, facts, ranks=True) or ():
        if alternative.bound is not None:  # refused at run time too
            output_shapes = [alternative.bound.outputs[o.name] for o in node.op.outputs]
            shapes.append([s for o, m in zip(node.op.outputs, output_shapes) for s in (m if o.variadic else [m])])
    if len({len(each) for each in shapes}) != 1:
        return None
    return [_common(each) for each in zip(*shapes)]


class Unread:
    """A number of which the rule of a call asks nothing as long as nothing is done with it; whatever asks raises Undetermined."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def _asked(self, *_: Any) -> Any:
        raise Undetermined(self.name, f"{self.name} is computed at run time, and its values are not known")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = (
        __rfloordiv__
    ) = _asked
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __bool__ = __int__ = __float__ = __index__ = (
        __round__
    ) = _asked
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __str__ = __format__ = _asked


def shapes_without_floats(node: Node, facts: Facts | None) -> list[tuple[Size, ...] | None] | None:
    """The shapes of the outputs of a call whose rule asks for no float that only the run tells; None where it asks for one, or for more."""
    rule = Rule(node.op.full_name, node.source, facts.under(True) if facts is not None else None)
    try:
        bound: Bound = node.op.relation(rule, **shapes_of(node), **parameter_values(node, unread=True))
    except (Undetermined, ShapeError, TypeError):  # functions of numbers alone refuse what is none
        return None
    outputs = [bound.outputs[o.name] for o in node.op.outputs]
    return [tuple(s) for o, m in zip(node.op.outputs, outputs) for s in (m if o.variadic else [m])]


def _common(shapes: Sequence[Vec]) -> tuple[Size, ...] | None:
    """The dims in which shapes agree, a new symbol for any other; None if their ranks differ."""
    if len({len(s) for s in shapes}) != 1:
        return None
    dims: list[Size] = []
    for sizes in zip(*shapes):
        lows, highs = zip(*map(bounds, sizes))
        same = all(n is sizes[0] or n == sizes[0] for n in sizes)
        dims.append(sizes[0] if same else fresh("?", min(n or 0 for n in lows), None if None in highs else max(highs)))
    return tuple(dims)


def _shape(name: str, value: Value | None) -> Vec | None:
    """The shape of an input; None for an absent optional one."""
    if value is None:
        return None
    if value.type.shape is None:
        raise Undetermined(name, f"the rank of {name} is not known")
    return Vec(value.type.shape)


def shapes_of(node: Node) -> dict[str, Any]:
    """The dims of every input by name, lists of them for variadic ones. Raises Undetermined for an unknown rank."""
    shapes: dict[str, Any] = {}
    for name, value in node.grouped_inputs().items():
        if isinstance(value, tuple):
            listed = node.sequence
            shapes[name] = elements_of(node, name, listed) if listed is not None else [_shape(name, v) for v in value]
        else:
            shapes[name] = _shape(name, value)
    return shapes


def parameter_values(node: Node, unread: bool = False) -> dict[str, Any]:
    """Every parameter as the relation takes it: attributes as they are, operands as their contents. `unread`: floats of which nothing is
    known are `Unread`."""
    operands = node.operand_inputs()
    values: dict[str, Any] = {}
    for p in node.op.params:
        raw = _operand_value(node.op, p, operands[p.name], unread) if p.operand else node.attrs.get(p.name, p.default)
        values[p.name] = Vec(raw) if p.is_vector and raw is not None and not isinstance(raw, Vec) else raw
    return values


def _operand_value(op: OpDef, p: ParamDef, value: Value | None, unread: bool = False) -> Any:
    if value is None:
        return p.default
    shape = value.type.shape
    if shape is not None and len(shape) != (1 if p.is_vector else 0) and not _is_one(p, shape):
        expected = "a vector" if p.is_vector else "a scalar"
        raise ShapeError(f"{op.full_name}: {p.name} must be {expected}, got {value.type}")
    if value.constant is not None:
        listed = value.constant.reshape(-1).tolist()
        return Vec(listed) if p.is_vector else listed[0]
    elements: tuple[Any, ...] | None = value.elements()
    count = value.type.count() if unread and value.type.dtype.is_float and value.type.is_static else None
    if elements is None and isinstance(count, int) and count <= SMALL:
        elements = (Unread(p.name),) * count
    if elements is None:
        why = "its length is not known" if shape is None or not value.type.is_static else "its values are not known"
        raise Undetermined(p.name, f"{p.name} is computed at run time, and {why}")
    return Vec(elements) if p.is_vector else elements[0]


def _is_one(p: ParamDef, shape: tuple[Size, ...]) -> bool:
    """Whether a vector of one element stands for a scalar, or a scalar for such a vector."""
    return len(shape) == 0 if p.is_vector else len(shape) == 1 and eq(shape[0], 1) is not False
