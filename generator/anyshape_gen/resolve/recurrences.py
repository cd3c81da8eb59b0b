"""Resolves recurrences: equations that read each other at strictly earlier positions of one variable.

In: the equations of one cycle, resolved. Out: the same in the order in which each position computes them, with the variable and the
direction of the recurrence; or None where they are no recurrence. A start before position 0 shifts all positions of its tensor up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyshape_gen.model.analysis import ResolvedEquation, ScratchTensor
from anyshape_gen.model.build import add
from anyshape_gen.model.nodes import (
    Assert,
    BinOp,
    BoolOp,
    Compare,
    Exact,
    Expr,
    Int,
    Item,
    Name,
    Node,
    Part,
    Slice,
    Star,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.model.source import Findings
from anyshape_gen.model.traverse import rebuild, walk_all


@dataclass(frozen=True)
class _Read:
    """A read of a cycle's tensor: the number of the equation that reads, the tensor, and the items of the index."""

    reader: int
    tensor: str
    items: tuple[Item, ...]


@dataclass
class _Route:
    """The variable of the recurrence in each equation, and its place in the index of each tensor."""

    along: dict[int, str]
    place: dict[str, int]


class Cycle:
    """A cycle of equations; `positive` are expressions that the spec asserts to be at least 1."""

    def __init__(self, equations: Sequence[ResolvedEquation], positive: Sequence[Expr]) -> None:
        self.equations = list(equations)
        self.positive = positive
        self.targets = {e.target.tensor for e in equations}
        self.reads = [
            _Read(k, node.tensor, items_of(node.parts))
            for k, e in enumerate(equations)
            for node in walk_all((e.right, *e.parts))
            if isinstance(node, TensorRead) and node.tensor in self.targets
        ]

    def resolve(self, number: int) -> list[ResolvedEquation] | None:
        """Orders the equations as a recurrence; None where no variable fits."""
        for seed in self.reads:
            for at, entry in enumerate(seed.items):
                offset = self._offset(entry)
                if offset is not None and offset[1] != 0:
                    order = self._along(seed, at, number)
                    if order is not None:
                        return order
        return None

    def _offset(self, entry: Item) -> tuple[str, int] | None:
        """Splits an index into (variable, direction): 0 for the variable itself, -1 for an earlier position, +1 for a later one."""
        match entry:
            case Name(id=name):
                return name, 0
            case BinOp(op="-" | "+" as op, left=Name(id=name), right=right) if self._is_positive(right):
                return name, -1 if op == "-" else 1
        return None

    def _is_positive(self, e: Expr) -> bool:
        return e.value >= 1 if isinstance(e, Int) else e in self.positive

    def _along(self, seed: _Read, at: int, number: int) -> list[ResolvedEquation] | None:
        first = self._offset(seed.items[at])
        assert first is not None
        route = _Route({seed.reader: first[0]}, {seed.tensor: at})
        if not self._spread(route):
            return None
        directions: set[int] = set()
        needs: dict[int, set[int]] = {k: set() for k in range(len(self.equations))}
        for r in self.reads:
            offset = self._offset(r.items[route.place[r.tensor]])
            if offset is None or offset[0] != route.along[r.reader]:
                return None
            if offset[1]:
                directions.add(offset[1])
            else:
                needs[r.reader] |= {k for k, e in enumerate(self.equations) if e.target.tensor == r.tensor}
        order = _topological(needs)
        if len(directions) != 1 or order is None:
            return None
        backward = directions == {1}
        return [replace(self.equations[k], recurrence=route.along[k], backward=backward, cycle=number) for k in order]

    def _spread(self, route: _Route) -> bool:
        """Propagates the variable from equations to places of the tensors that they read, and from places to equations that write or read
        them."""
        changed = True
        while changed:
            before = len(route.along) + len(route.place)
            for k, e in enumerate(self.equations):
                own = items_of(e.parts)
                tensor = e.target.tensor
                if k in route.along and Name(route.along[k]) in own:
                    route.place.setdefault(tensor, own.index(Name(route.along[k])))
                elif tensor in route.place:
                    entry = own[route.place[tensor]] if route.place[tensor] < len(own) else None
                    if isinstance(entry, Name):
                        route.along.setdefault(k, entry.id)
            for r in self.reads:
                if r.tensor in route.place and route.place[r.tensor] < len(r.items):
                    offset = self._offset(r.items[route.place[r.tensor]])
                    if offset is not None:
                        route.along.setdefault(r.reader, offset[0])
                elif r.reader in route.along:
                    fits = [
                        i for i, x in enumerate(r.items) if (self._offset(x) or ("", 0))[0] == route.along[r.reader]
                    ]
                    if len(fits) == 1:
                        route.place[r.tensor] = fits[0]
            changed = len(route.along) + len(route.place) > before
        names = {k: {v.name for v in e.vars if not v.run} for k, e in enumerate(self.equations)}
        complete = len(route.along) == len(self.equations) and self.targets <= set(route.place)
        return complete and all(route.along[k] in names[k] for k in names)


def _topological(needs: Mapping[int, set[int]]) -> list[int] | None:
    order: list[int] = []
    while len(order) < len(needs):
        ready = next((k for k in needs if k not in order and needs[k] <= set(order)), None)
        if ready is None:
            return None
        order.append(ready)
    return order


def items_of(parts: tuple[Part, ...]) -> tuple[Item, ...]:
    """Returns the items of an index, as written; a part that changes their order becomes one item that is no variable."""
    items: list[Item] = []
    for part in parts:
        items += part.items if isinstance(part, Exact) else [Star(Int(0))]
    return tuple(items)


# --- starts


def with_starts(
    equations: Sequence[ResolvedEquation], scratch: tuple[ScratchTensor, ...], findings: Findings
) -> tuple[tuple[ResolvedEquation, ...], tuple[ScratchTensor, ...]]:
    """Shifts tensors so that starts of recurrences have room: `t[-1, …] = e` becomes position 0, and position 0 becomes 1."""
    room: dict[str, tuple[int, int, int]] = {}
    for e in equations:
        if e.recurrence is None:
            continue
        place = items_of(e.parts).index(Name(e.recurrence))
        starts = [s for s in equations if s.target.tensor == e.target.tensor and s.recurrence is None and s.op == "="]
        extent = next(v.extent for v in e.vars if v.name == e.recurrence)
        distances = [_distance(items_of(s.parts)[place], extent, e.backward) for s in starts]
        for s, distance in zip(starts, distances):
            if distance is None:
                where = (
                    "after the last position, as in `t[n, …]`" if e.backward else "before position 0, as in `t[-1, …]`"
                )
                findings.add(s.target.span, f"the start of the recurrence of '{e.target.tensor}' must be {where}")
        known = [d for d in distances if d is not None]
        if known:
            room[e.target.tensor] = (place, 0 if e.backward else max(known), max(known))
    sizes = {s.name: s for s in scratch}
    for tensor in room:
        if tensor not in sizes:
            span = next(e.target.span for e in equations if e.target.tensor == tensor)
            findings.add(span, f"'{tensor}' is an output: a recurrence with a start needs a scratch tensor")
            return tuple(equations), scratch
    moved = _Moving({t: (place, shift) for t, (place, shift, _) in room.items() if shift})
    grown = tuple(_grown(s, *room[s.name][::2]) if s.name in room else s for s in scratch)
    return tuple(moved.equation(e) for e in equations), grown


def _distance(entry: Item, extent: Expr, backward: bool) -> int | None:
    """Computes the distance of a start from the positions that the recurrence computes."""
    match entry:
        case Unary(op="-", operand=Int(value=value)) if not backward:
            return value
        case _ if backward and entry == extent:
            return 1
        case BinOp(op="+", left=left, right=Int(value=value)) if backward and left == extent:
            return value + 1
    return None


def _grown(s: ScratchTensor, place: int, by: int) -> ScratchTensor:
    assert isinstance(s.shape, VecLit)
    items = list(s.shape.items)
    extent = items[place]
    assert not isinstance(extent, Star | Slice)
    items[place] = add(extent, Int(by))
    return replace(s, shape=VecLit(tuple(items)))


@dataclass
class _Moving:
    """Shifts every index of some tensors: {tensor: (place, distance)}."""

    by: Mapping[str, tuple[int, int]]

    def equation(self, e: ResolvedEquation) -> ResolvedEquation:
        parts = self._parts(e.target.tensor, tuple(self._node(part) for part in e.parts))
        generators, filters = (tuple(map(self._node, nodes)) for nodes in (e.generators, e.filters))
        return replace(e, parts=parts, value=self._node(e.value), generators=generators, filters=filters)

    def _node(self, node: Any) -> Any:
        changed = rebuild(node, self._node)
        if isinstance(changed, TensorRead):
            return replace(changed, parts=self._parts(changed.tensor, changed.parts))
        return changed

    def _parts(self, tensor: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        if tensor not in self.by:
            return parts
        place, shift = self.by[tensor]
        out: list[Part] = []
        at = 0
        for part in parts:
            items = part.items if isinstance(part, Exact) else (None,)
            if isinstance(part, Exact) and at <= place < at + len(items):
                own = list(part.items)
                own[place - at] = _plus(own[place - at], shift)
                part = replace(part, items=tuple(own))
            at += len(items)
            out.append(part)
        return tuple(out)


def _plus(entry: Item, shift: int) -> Item:
    match entry:
        case Unary(op="-", operand=Int(value=value)):
            return Int(shift - value)
        case BinOp(op="-", left=left, right=Int(value=value)):
            rest = shift - value
            return left if rest == 0 else BinOp("+", left, Int(rest)) if rest > 0 else BinOp("-", left, Int(-rest))
    assert not isinstance(entry, Star | Slice)
    return add(entry, Int(shift))


def asserted_positive(nodes: Sequence[Node]) -> list[Expr]:
    """Collects expressions that asserts of a rule say to be at least 1."""
    positive: list[Expr] = []
    for node in nodes:
        if not isinstance(node, Assert):
            continue
        tests = node.cond.items if isinstance(node.cond, BoolOp) and node.cond.op == "and" else (node.cond,)
        for test in tests:
            match test:
                case (
                    Compare(first=first, rest=((">", Int(value=0)),))
                    | Compare(first=first, rest=((">=", Int(value=1)),))
                ):
                    positive.append(first)
                case (
                    Compare(first=Int(value=0), rest=(("<", other),))
                    | Compare(first=Int(value=1), rest=(("<=", other),))
                ):
                    positive.append(other)
    return positive
