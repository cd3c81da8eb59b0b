"""Reads with pads: told from other choices, since what they ask can be asked again of the read's own bounds.

In: a node. Out: the load in it, if it is the element where every bound of the load holds and a constant elsewhere; a condition as the
comparisons that it asks for, and an integer as an affine form.
"""

from __future__ import annotations

from anyshape.dims import Dim, Size
from anyshape.lower.ir.dag import Affine, DagNode, affine


def padded_load(n: DagNode) -> DagNode | None:
    """The load of `select(all its bounds hold, load, constant)`."""
    if n.kind != "op" or n.data != "select":
        return None
    condition, load, outside = n.args
    if load.kind != "load" or outside.kind != "const" or not load.data.bounds:
        return None
    asked = _asked(condition)
    bounds = load.data.bounds
    plain = all(b.guard is None and not b.index.lets for b in bounds)
    same = asked == ({b.index for b in bounds}, {(b.index, b.extent) for b in bounds})
    return load if plain and same else None


def _asked(condition: DagNode) -> tuple[set[Affine], set[tuple[Affine, Size]]] | None:
    """The indices that are not below 0, and those below limits; None if the condition asks for anything else."""
    lower, upper = set(), set()
    for c in conjuncts(condition):
        index = index_of(c.args[0]) if c.kind == "op" and c.data in ("ge", "lt") else None
        limit = index_of(c.args[1]) if index is not None else None
        if index is None or limit is None or not limit.is_constant or (c.data == "ge" and limit.offset != 0):
            return None
        if c.data == "ge":
            lower.add(index)
        else:
            upper.add((index, limit.offset))
    return lower, upper


def conjuncts(n: DagNode) -> list[DagNode]:
    """What must hold, all of it, for the condition to hold."""
    return [c for a in n.args for c in conjuncts(a)] if n.kind == "op" and n.data == "and" else [n]


def index_of(n: DagNode) -> Affine | None:
    """An integer expression of variables and sizes."""
    if n.kind == "var":
        return affine([(n.data, 1)], 0)
    if (n.kind == "dim" and isinstance(n.data, (int, Dim))) or (n.kind == "const" and isinstance(n.data, int)):
        return affine([], n.data)
    if n.kind != "op" or n.data not in ("add", "sub", "mul"):
        return None
    a, b = map(index_of, n.args)
    if a is None or b is None:
        return None
    if n.data != "mul":
        return a + (b if n.data == "add" else b.scaled(-1))
    return a.scaled(b.offset) if b.is_constant else b.scaled(a.offset) if a.is_constant else None
