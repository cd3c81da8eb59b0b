"""Positions along the lanes by numbers of 32 bits: comparisons with what is the same in all lanes, and positions as floats.

In: a comparison of integers of 64 bits, or a variable. Out: lanes, or None where it compares anything else. Numbers of lanes have 32 bits,
so that a vector of positions takes half as many registers; they are compared with one distance, and nothing is added to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyshape import dtypes
from anyshape.dtypes import I64 as INT64
from anyshape.lower.emit.values.elementwise import memory_type
from anyshape.lower.ir.dag import DagNode, Load, LoopIndex, LoopVar, Operation, Reduction, walk
from anyshape.lower.llvm.types import I32, I64, Val, const_vector

if TYPE_CHECKING:
    from anyshape.lower.emit.values.value import Values

_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_SHORT = 1 << 30
"""More lanes than a block has below what 32 bits hold."""
_FARTHEST = 1 << 62
"""More than any position, and half of what the difference of two may be."""


def compared_lanes(values: Values, n: Operation, copy: int) -> Val | None:
    """Which lanes satisfy a comparison of their position plus what is the same in all lanes with what is the same in all lanes."""
    if values.vector is None or n.name not in _SWAPPED or any(a.dtype != INT64 for a in n.args):
        return None
    left, right = n.args
    for op, position, limit in ((n.name, left, right), (_SWAPPED[n.name], right, left)):
        if _is_known(limit) and not values.varies(limit) and _is_step_of_lanes(values, position):
            lanes = values.vector.lanes
            places = const_vector(I32, list(range(copy * lanes, (copy + 1) * lanes)))
            return values.f.compare(op, places, _distance(values, n, position, limit))
    return None


def position_of(n: DagNode) -> LoopVar | None:
    """The variable whose position a float of at least 32 bits is."""
    if not n.dtype.is_float or n.dtype.bits < 32:
        return None
    match n:
        case LoopIndex(variable) | Operation("cast", (LoopIndex(variable, dtype=dtypes.I64),)):
            return variable
    return None


def float_positions(values: Values, n: DagNode, v: LoopVar, copy: int) -> Val:
    """The positions of the lanes as floats, for a processor that converts integers of 32 bits alone: of more bits, which no loop has that
    ends, one by one."""
    f, first, vector = values.f, values.levels.indices[v], values.vector
    assert vector is not None
    to, steps = memory_type(n.dtype), list(range(copy * vector.lanes, (copy + 1) * vector.lanes))

    def short() -> Val:
        return f.convert("sitofp", f.add(const_vector(I32, steps), f.convert("trunc", first, I32)), to)

    if isinstance(v.extent, int) and v.extent < _SHORT:
        return short()
    with f.if_else(f.compare("lt", first, _SHORT)) as branch:
        with branch.then():
            branch.give(short())
        with branch.otherwise():
            branch.give(f.convert("sitofp", f.add(const_vector(I64, steps), first), to))
    return branch.results[0]


def _distance(values: Values, n: Operation, position: DagNode, limit: DagNode) -> Val:
    """How far the limit is from the first lane, in all lanes; beyond them on either side it is next to them."""
    assert values.vector is not None
    f, levels, vector = values.f, values.levels, values.vector
    distance = levels.find(("distance", n))
    if distance is None:
        with levels.at(levels.depth(n)):
            apart = f.sub(_clamped(values, limit), _first_lane(values, position))
            near = f.smax(f.smin(apart, vector.copies * vector.lanes), -1)
            distance = levels.remember(("distance", n), f.splat(f.convert("trunc", near, I32), vector.lanes))
    return distance


def _clamped(values: Values, limit: DagNode) -> Val:
    """A limit whose difference from a position does not overflow."""
    if _is_position(limit):
        return values.of(limit)
    clamped = values.levels.find(("clamped", limit))
    if clamped is None:
        with values.levels.at(values.levels.depth(limit)):
            f = values.f
            clamped = values.levels.remember(
                ("clamped", limit), f.smax(f.smin(values.of(limit), _FARTHEST), -_FARTHEST)
            )
    return clamped


def _is_known(limit: DagNode) -> bool:
    """Whether no element is read for it: the distance of what is read is not known ahead of a loop, and a vector of it is had at once."""
    return not any(isinstance(n, Load | Reduction) for n in walk([limit]))


def _is_position(n: DagNode) -> bool:
    """A sum or difference of positions, which is far from overflowing; a size may be a parameter, as near the ends of i64 as any."""
    match n:
        case LoopIndex():
            return n.dtype == INT64
        case Operation("add" | "sub", args):
            return n.dtype == INT64 and all(map(_is_position, args))
    return False


def _is_step_of_lanes(values: Values, n: DagNode) -> bool:
    """A position along the lanes, to which what is the same in all lanes may be added."""
    assert values.vector is not None
    match n:
        case LoopIndex(variable):
            return variable is values.vector.variable and n.dtype == INT64
        case Operation("add", (a, b)) if values.varies(a) is not values.varies(b):
            varying, fixed = (a, b) if values.varies(a) else (b, a)
            return _is_position(fixed) and _is_step_of_lanes(values, varying)
        case Operation("sub", (a, b)) if not values.varies(b):
            return _is_position(b) and _is_step_of_lanes(values, a)
    return False


def _first_lane(values: Values, n: DagNode) -> Val:
    """The position in the first lane of the first copy."""
    match n:
        case LoopIndex(variable):
            return values.levels.indices[variable]
        case Operation("add", (a, b)):
            varying, fixed = (a, b) if values.varies(a) else (b, a)
            return values.f.add(_first_lane(values, varying), values.of(fixed))
        case Operation("sub", (a, b)):
            return values.f.sub(_first_lane(values, a), values.of(b))
    raise TypeError(f"{n} is no position along the lanes")
