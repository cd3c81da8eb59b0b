"""Indices of data that are within an axis whatever the data is: least and most values say so, or a choice of such indices.

In: an index, the extent of the axis, the position of the recurrence that is open. Out: whether it needs no check.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.lower.ir.dag import Affine, Constant, DagNode, LoopIndex, Operation, SizeValue, walk
from anyshape.lower.ir.index_forms import ends_of, linear


@dataclass(frozen=True, slots=True)
class Along:
    """A position, which is from 0 on and below the extent."""

    symbol: Dim
    extent: Size

    def ends(self, n: Size) -> list[Size]:
        """The values of a size at the first position and at the last one; itself, where it is not linear in the position between them."""
        first, second = (dims.substitute(n, {self.symbol: k}) for k in (0, 1))
        if first + (second - first) * self.symbol != n:
            return [n]
        return [first, dims.substitute(n, {self.symbol: self.extent - 1})]


def is_clamped(i: Affine, n: Size, along: Along | None) -> bool:
    """Whether an index that is data is one of an axis of n elements."""
    if i.terms or len(i.lets) != 1 or i.lets[0][1] != 1:
        return False
    node, offset = i.lets[0][0], i.offset
    # what varies with a variable, or with the position, is computed where there is one; the rest ahead of the loop
    extents = {v.extent for v in node.domain}
    if along is not None and any(
        along.symbol in dims.free_symbols(s) for s in map(_size, walk([node])) if s is not None
    ):
        extents.add(along.extent)
    bounds = _Clamp(frozenset(extents), along)
    return bounds.is_at_least(node, -offset) and bounds.is_at_most(node, n - 1 - offset)


@dataclass(frozen=True, slots=True)
class _Clamp:
    open: frozenset[Size]
    along: Along | None

    def is_at_least(self, node: DagNode, least: Size) -> bool:
        match node:
            case Operation(name="max", args=args):
                return any(self.is_at_least(a, least) for a in args)
            case Operation(name="min", args=args) | Operation(name="select", args=(_, *args)):
                return all(self.is_at_least(a, least) for a in args)
            case LoopIndex():
                return dims.le(least, 0) is True
            case Operation():
                return any(all(dims.ge(end, least) is True for end in ends) for ends in self.ends(node))
        size = _size(node)
        if size is None:
            return False
        return dims.ge(size, least) is True or (dims.le(least, 0) is True and any(size == n - 1 for n in self.open))

    def is_at_most(self, node: DagNode, most: Size) -> bool:
        match node:
            case Operation(name="min", args=args):
                return any(self.is_at_most(a, most) for a in args)
            case Operation(name="max", args=args) | Operation(name="select", args=(_, *args)):
                return all(self.is_at_most(a, most) for a in args)
            case LoopIndex(variable=v):
                return dims.le(v.extent - 1, most) is True
            case Operation():
                return any(all(dims.le(end, most) is True for end in ends) for ends in self.ends(node))
        size = _size(node)
        if size is not None and self.along is not None and size == self.along.symbol:
            size = self.along.extent - 1
        return size is not None and dims.le(size, most) is True

    def ends(self, node: DagNode) -> list[list[Size]]:
        """The least and the greatest values of what is linear in variables, and in the position: one list of them, or none."""
        form = linear(node)
        ends = None if form is None else ends_of(form)
        if ends is None:
            return []
        return [[*ends]] if self.along is None else [[n for end in ends for n in self.along.ends(end)]]


def _size(node: DagNode) -> Size | None:
    match node:
        case SizeValue(size=size) if not isinstance(size, Cond):
            return size
        case Constant(value=int() as value) if not isinstance(value, bool):
            return value
    return None
