"""The part of a row in which reads need no pads and no clamped places.

In: the planned scope of a map whose vector runs along the innermost loop. Out: the bounds between which every read along the vector is at
an affine place inside of its tensor, and stores that say so: of a clamped, mirrored or wrapped index the index itself. A row of a pad is
then a plain copy but for its ends, whatever fills these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anyshape.dims import Size
from anyshape.equations.expr import LARGE
from anyshape.lower.analyse.classify import cost
from anyshape.lower.analyse.collapse import Rebuild
from anyshape.lower.ir.dag import Access, Affine, Dag, DagNode, IndexBound, LoopVar, Operation
from anyshape.lower.ir.index_forms import OF_SIZES
from anyshape.lower.ir.padded import index_of, padded_load
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.schedule.tree import Interior, Loop, Scope

HEAVY = 40
"""Cycles of a body beside which masks and clamps take little."""
MOST_BOUNDS = 8


def with_interior(dag: Dag, scope: Scope, plain: Scope) -> Scope:
    """The scope with what it is inside of all bounds, if its rows have bounds. `plain` is the scope as it was planned, with its vector
    innermost."""
    interior = _interior(dag, plain)
    return scope if interior is None else replace(scope, interior=interior)


def _interior(dag: Dag, scope: Scope) -> Interior | None:
    loop, along = scope.steps[0] if len(scope.steps) == 1 else None, scope.vector
    if along is None or scope.variables[-1] is not along or scope.fills or scope.transposed is not None:
        return None
    if not isinstance(loop, Loop) or loop.variables or loop.reductions or loop.keep:
        return None
    if any(s.access.address.coefficient(along) != 1 or s.access.address.lets for s in loop.stores):
        return None
    bounds = _pads(loop.stores, along)
    straight = _StraightCopies(dag, along)
    stores = tuple(straight.store(s) for s in loop.stores)
    bounds |= straight.bounds
    if not bounds or len(bounds) > MOST_BOUNDS or all(b.index.coefficient(along) == 0 for b in bounds):
        return None
    if sum(cost(s.value, frozenset((along,))) for s in stores) > HEAVY:
        return None
    return Interior(tuple(sorted(bounds, key=lambda b: b.order)), scope, replace(loop, stores=stores))


def _pads(stores: Iterable[Store], along: LoopVar) -> set[IndexBound]:
    """The bounds of padded reads along the vector, if every one is of a contiguous read."""
    bounds: set[IndexBound] = set()
    for n in below(stores):
        padded = padded_load(n)
        if padded is not None and along in padded.load.domain:
            if any(b.index.coefficient(along) not in (0, 1) for b in padded.load.access.bounds):
                return set()
            bounds.update(padded.load.access.bounds)
    return bounds


class _StraightCopies(Rebuild):
    """Copies of nodes in which computed places along the vector are affine forms, as they are where `bounds` hold."""

    def __init__(self, dag: Dag, along: LoopVar) -> None:
        super().__init__(dag)
        self.along, self.bounds = along, set[IndexBound]()

    def access(self, x: Access) -> Access:
        lets = [(n, c) for n, c in x.address.lets if self.along in n.domain]
        forms = [(straight(n), c) for n, c in lets]
        known = [(form, c) for form, c in forms if form is not None]
        tested = {n for b in (*x.bounds, *x.checks) for n in (*(n for n, _ in b.index.lets), b.guard) if n is not None}
        if not lets or len(known) < len(lets) or any(self.along in n.domain for n in tested):
            return super().access(x)
        address = Affine(x.address.terms, x.address.offset, tuple(let for let in x.address.lets if let not in lets))
        for (form, _), c in known:
            address = address + form.scaled(c)
        if address.coefficient(self.along) != 1:
            return super().access(x)
        for (_, bounds), _ in known:
            self.bounds.update(bounds)
        return super().access(replace(x, address=address))


BoundedAffine = tuple[Affine, frozenset[IndexBound]]
"""The affine form of a computed index where some bounds hold, and the bounds."""


def straight(n: DagNode) -> BoundedAffine | None:
    """What a computed index is where it is not changed: `min(max(i, 0), n - 1)` is i where 0 <= i < n, and so are `i % n` and an i that is
    mirrored at both ends."""
    form = index_of(n)
    if form is not None:
        return form, frozenset()
    match n:
        case Operation("max" | "min" | "mod" | "add" | "sub" as name, (first, second)):
            a, b = straight(first), straight(second)
            if a is None or b is None:
                return None
            if name in ("add", "sub"):
                return a[0] + b[0].scaled(1 if name == "add" else -1), a[1] | b[1]
            if a[0].is_constant and b[0].is_constant:
                return Affine((), OF_SIZES[name](a[0].offset, b[0].offset)), frozenset()
            if name != "mod" and a[0].is_constant:
                a, b = b, a
            limit = _limit(name, a[0], b[0])
            return None if limit is None else (a[0], a[1] | b[1] | {IndexBound(a[0], limit)})
    return None


def _limit(name: str, index: Affine, other: Affine) -> Size | None:
    """The number below which an index of at least 0 is what an operation makes of it and of another number."""
    match name:
        case "max":
            return LARGE if other == Affine() else None
        case "mod":
            return other.offset if other.is_constant else None
    total = other + index if not other.is_constant else other.scaled(2)
    return total.offset // 2 + 1 if total.is_constant else None
