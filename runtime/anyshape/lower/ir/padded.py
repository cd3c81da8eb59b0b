"""Reads with pads, recognised among other choices, since the read's own bounds express the same condition.

In: a node. Out: the load in it, if it is the element where every bound of the load holds and elsewhere one value for all elements: a
constant, or a scalar in memory (a zero point), or 0 where indices are data; a condition as its comparisons, and an integer as an affine
form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from anyshape.dims import Dim, Size
from anyshape.dtypes import I64
from anyshape.lower.ir.dag import Affine, Constant, DagNode, Load, LoopIndex, Operation, SizeValue, affine


@dataclass(frozen=True, slots=True)
class PaddedLoad:
    load: Load
    outside: Constant | Load
    """The value where a bound of the load does not hold: it varies with nothing."""


def padded_load(n: DagNode) -> PaddedLoad | None:
    """The load and the value outside of `select(all its bounds hold, load, outside)`."""
    match n:
        case Operation("select", (condition, Load(access) as load, Constant() | Load() as outside)) if access.bounds:
            if outside.domain or (isinstance(outside, Load) and not outside.access.is_plain):
                return None
            plain = all(b.guard is None and not b.index.lets for b in access.bounds)
            bounds = {b.index for b in access.bounds}, {(b.index, b.extent) for b in access.bounds}
            return PaddedLoad(load, outside) if plain and _compared(condition) == bounds else None
    return None


def zeros_outside(n: DagNode) -> Load | None:
    """The load in `select(all its bounds hold, load, 0)`, wherever its indices come from: a mask gives the same."""
    match n:
        case Operation("select", (condition, Load(access) as load, Constant() as outside)) if access.bounds:
            bounds = {b.index for b in access.bounds}, {(b.index, b.extent) for b in access.bounds}
            plain = all(b.guard is None for b in access.bounds)
            return load if plain and is_zero(outside) and _compared(condition, computed=True) == bounds else None
    return None


def is_zero(n: DagNode) -> bool:
    """Whether a value is 0 with all of its bits, as lanes are that a mask leaves out of a load."""
    return isinstance(n, Constant) and n.value == 0 and math.copysign(1, n.value) > 0


def _compared(condition: DagNode, computed: bool = False) -> tuple[set[Affine], set[tuple[Affine, Size]]] | None:
    """The indices that are compared with 0, and those with limits; None if the condition has anything else. `computed`: indices may be
    data."""
    lower, upper = set(), set()
    for c in conjuncts(condition):
        match c:
            case Operation("ge" | "lt" as name, (first, second)):
                index, limit = index_of(first, computed), index_of(second)
                if index is None or limit is None or not limit.is_constant or (name == "ge" and limit.offset != 0):
                    return None
                if name == "ge":
                    lower.add(index)
                else:
                    upper.add((index, limit.offset))
            case _:
                return None
    return lower, upper


def conjuncts(n: DagNode) -> list[DagNode]:
    """The conditions that must all hold for a condition to hold."""
    match n:
        case Operation("and", args):
            return [c for a in args for c in conjuncts(a)]
    return [n]


def index_of(n: DagNode, computed: bool = False) -> Affine | None:
    """An integer expression of variables and sizes in affine form; of data too, if `computed`."""
    match n:
        case LoopIndex(variable):
            return affine([(variable, 1)], 0)
        case SizeValue(Dim() as size) | Constant(int() as size):
            return affine([], size)
        case Operation("add" | "sub" | "mul" as name, (first, second)):
            a, b = index_of(first, computed), index_of(second, computed)
            if a is None or b is None:
                return None
            if name != "mul":
                return a + (b if name == "add" else b.scaled(-1))
            if a.is_constant or b.is_constant:
                return a.scaled(b.offset) if b.is_constant else b.scaled(a.offset)
    return Affine(lets=((n, 1),)) if computed and n.dtype == I64 else None
