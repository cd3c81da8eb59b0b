"""Results by tiles as code: all places of a tile are computed for a vector of tiles, then put side by side.

In: a `Scope` that has `tiled`. Out: for each plane loops over tiles, and in them one over the rows of a tile, whose vectors are what the
stores and all that follows from the sums work with.
"""

from __future__ import annotations

from anyshape.lower.emit.context import KernelContext
from anyshape.lower.emit.nest import nest
from anyshape.lower.emit.value import Vector
from anyshape.lower.emit.windows import over_planes
from anyshape.lower.llvm.interleaving import interleaved
from anyshape.lower.llvm.types import I32, Val
from anyshape.lower.schedule.tree import Scope


def emit_tiles(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope of stores that has `tiled`."""
    tiled, f = scope.tiled, ctx.f
    assert tiled is not None
    tiles = [p.tile for p in tiled.splits]

    def body() -> None:
        values = {place: f.splat(ctx.values.of(node), ctx.lanes) for place, node in tiled.values.items()}
        _rows(ctx, scope, (), values)

    planes = [v for v in scope.stores[0].variables if all(v is not p.variable for p in tiled.splits)]
    over_planes(ctx, planes, lambda: nest(ctx, tiles, body, vector=tiles[-1]))


def _rows(ctx: KernelContext, scope: Scope, place: tuple[int, ...], values: dict[tuple[int, ...], Val]) -> None:
    """Binds the places of a tile in all dims but the last, each if it is in the result."""
    tiled, f, levels = scope.tiled, ctx.f, ctx.levels
    assert tiled is not None
    p = tiled.splits[len(place)]
    first = f.mul(levels.indices[p.tile], p.size)
    if len(place) == len(tiled.splits) - 1:
        vectors = interleaved(f, [values[*place, k] for k in range(p.size)])
        for copy, vector in enumerate(vectors):
            _store(ctx, scope, f.add(first, copy * ctx.lanes), vector, copy > 0)
        return
    for k in range(p.size):
        index = f.add(first, k)
        with levels.when(f.compare("lt", index, ctx.sizes.of(p.variable.extent))):
            levels.bind(p.variable, index)
            _rows(ctx, scope, (*place, k), values)


def _store(ctx: KernelContext, scope: Scope, first: Val, sums: Val, maybe: bool) -> None:
    """Stores what follows from one vector of sums."""
    tiled, f, levels = scope.tiled, ctx.f, ctx.levels
    assert tiled is not None
    along = tiled.splits[-1].variable
    extent = ctx.sizes.of(along.extent)
    with levels.when(f.compare("lt", first, extent)):
        left = f.convert("trunc", f.smin(f.sub(extent, first), ctx.lanes), I32)
        levels.bind(along, first)
        with ctx.values.along(Vector(along, ctx.lanes, (f.tail_mask(left, ctx.lanes),))):
            levels.define(tiled.sum, 0, sums)
            for s in scope.stores:
                ctx.values.store(s.access, ctx.values.of(s.value), 0)
