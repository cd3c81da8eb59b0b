"""Lists as operands of ops of tensors: what is known of a list that is not in sight, and how a call goes through it.

In: a call that gives a list where its spec says `seq`. Out: shapes of the first element and of any, and a `Walk`: what a program does
for every element, once for the sizes and once with the op's own equations. A list whose elements are in sight is those elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.dims import Dim, free_symbols, fresh
from anyshape.errors import ShapeError
from anyshape.graph.value import Node, Value
from anyshape.rules import Check, Elements, Undetermined, Vec
from anyshape.types import DIFFERS, ListType, TensorType

ElementAxis = tuple[Dim, int]
"""A symbol, and the axis of an element that it is the size of."""


@dataclass(frozen=True, eq=False)
class Walk:
    """`elements` are the shapes, `value` is any element, `checks` are made for each. `first` and `each` say where symbols are read."""

    elements: Elements[Vec]
    value: Value
    first: tuple[ElementAxis, ...]
    each: tuple[ElementAxis, ...]
    checks: tuple[Check, ...]

    @property
    def inside(self) -> frozenset[Dim]:
        """The symbols that only the code for one element knows."""
        before = {e.before for e in self.elements.sums if isinstance(e.before, Dim)}
        return self.elements.own | {self.elements.index} | before

    @property
    def data_dependent(self) -> tuple[Dim, ...]:
        """The symbols whose values a walk through the list computes."""
        totals = (e.total for e in self.elements.sums if isinstance(e.total, Dim))
        return (self.elements.count, *(s for s, _ in self.first), *totals)


def in_sight(operand: object) -> Sequence[Value] | None:
    """The elements of an operand that is a list, if all of them are known."""
    from anyshape.graph.lists import known_items

    return known_items(operand) if isinstance(operand, Value) and isinstance(operand.type, ListType) else None


def spread(inputs: Sequence[Value | None], at: int) -> Sequence[Value | None]:
    """The operands of a call, with the elements of the list at this place instead of it, where there are any and they are in sight."""
    items = in_sight(inputs[at]) if at < len(inputs) else None
    return (*inputs[:at], *items, *inputs[at + 1 :]) if items else inputs


def elements_of(node: Node, name: str, v: Value) -> Elements[Vec]:
    """The shapes of the elements of a list. Raises ShapeError for one that surely is empty, Undetermined where elements have no rank."""
    t = v.type
    assert isinstance(t, ListType)
    if t.never or in_sight(v) == []:
        raise ShapeError(f"{node.op.full_name}: {name} needs at least one tensor, and the list is empty")
    shape = t.element.shape
    if shape is None:
        raise Undetermined(name, f"the rank of the elements of {name} is not known")
    first = Vec(fresh("first", 0) if n is DIFFERS else n for n in shape)
    each = Vec(fresh("each", 0) if n is DIFFERS else n for n in shape)
    own = [n for n, m in zip(each, shape) if m is DIFFERS]
    return Elements(first, each, fresh("element", 0), fresh("length", 0), own)


def walk_of(v: Value, elements: Elements[Vec], checks: Sequence[Check]) -> tuple[Walk, tuple[Check, ...]]:
    """The walk through a list, and the checks that are made once."""
    t = v.type
    assert isinstance(t, ListType)
    value = Value(TensorType(t.element.dtype, tuple(elements.any)), f"{v.name or 'list'}[{elements.index}]")
    first, each = (
        tuple((n, k) for k, (n, m) in enumerate(zip(shape, t.element.shape or ())) if m is DIFFERS)
        for shape in (elements.first, elements.any)
    )
    walk = Walk(elements, value, first, each, ())
    inner = tuple(c for c in checks if free_symbols(c.cond) & walk.inside)
    return Walk(elements, value, first, each, inner), tuple(c for c in checks if c not in inner)
