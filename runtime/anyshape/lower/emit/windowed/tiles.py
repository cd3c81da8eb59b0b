"""Results of sums that are written out as code: all stores of a place, or all places of a tile, one after the other.

In: a `Scope` that has `tiled`, or whose stores are `spread`. Out: loops over planes and rows, shared out, and in them loops over places
and, along the lanes, over vectors. Where lanes are tiles, what was computed for the places of one is put side by side before it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape.lower.emit.loops.nest import LoopRanges, VectorLoop, nest
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.emit.windowed.windows import over_planes
from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.llvm.interleaving import interleaved
from anyshape.lower.llvm.types import I32, Val
from anyshape.lower.schedule.tree import Scope

TileVectors = Mapping[tuple[int, ...], Val]
"""Vectors of sums, by place of a tile."""


def emit_spread(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope of many stores without sums."""
    *outer, place, vector = scope.variables

    def body() -> None:
        for s in scope.stores:
            for copy in ctx.values.copies:
                ctx.values.store(s.access, ctx.values.of(s.value, copy), copy)

    over_planes(
        ctx,
        outer,
        lambda own: nest(ctx, [place, vector], body, vector=_along(ctx, vector), ranges=LoopRanges(own)),
        place,
    )


def _along(ctx: KernelContext, v: LoopVar) -> VectorLoop:
    """The loop along the lanes: of whole vectors where there are no others; else all are masked, since the code is long."""
    return VectorLoop(v, (1,) if isinstance(v.extent, int) and v.extent % ctx.lanes == 0 else ())


def emit_tiles(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope of stores that has `tiled`."""
    tiled, f = scope.tiled, ctx.f
    assert tiled is not None
    *outer, last = (p.tile for p in tiled.splits)
    unsplit = [v for v in scope.stores[0].variables if all(v is not p.variable for p in tiled.splits)]
    planes = [v for v in unsplit if v is not tiled.vector]
    inner = [last] if last is tiled.vector else [last, tiled.vector]

    def body() -> None:
        values = {place: f.splat(ctx.values.of(node), ctx.lanes) for place, node in tiled.values.items()}
        _rows(ctx, scope, (), values)

    over_planes(
        ctx,
        [*planes, *outer],
        lambda own: nest(ctx, inner, body, vector=_along(ctx, tiled.vector), ranges=LoopRanges(own)),
        last,
        ctx.lanes if last is tiled.vector else 1,
    )


def _rows(ctx: KernelContext, scope: Scope, place: tuple[int, ...], values: TileVectors) -> None:
    """Binds the places of a tile in each dim, as far as they are in the result, and stores there."""
    tiled, f, levels = scope.tiled, ctx.f, ctx.levels
    assert tiled is not None
    if len(place) == len(tiled.splits):
        _store(ctx, scope, values[place])
        return
    p = tiled.splits[len(place)]
    first = f.mul(levels.indices[p.tile], p.size)
    if p.tile is tiled.vector:
        vectors = interleaved(f, [values[*place, k] for k in range(p.size)])
        for copy, vector in enumerate(vectors):
            _side_by_side(ctx, scope, f.add(first, copy * ctx.lanes), vector)
        return
    for k in range(p.size):
        index = f.add(first, k)
        with levels.when(f.compare("lt", index, ctx.sizes.of(p.variable.extent))):
            levels.bind(p.variable, index)
            _rows(ctx, scope, (*place, k), values)


def _side_by_side(ctx: KernelContext, scope: Scope, first: Val, sums: Val) -> None:
    """Stores what follows from one vector of sums along the last dim, as far as it is in the result."""
    tiled, f, levels = scope.tiled, ctx.f, ctx.levels
    assert tiled is not None
    along = tiled.splits[-1].variable
    extent = ctx.sizes.of(along.extent)
    with levels.when(f.compare("lt", first, extent)):
        left = f.convert("trunc", f.smin(f.sub(extent, first), ctx.lanes), I32)
        levels.bind(along, first)
        with ctx.values.along(Vector(along, ctx.lanes, (f.tail_mask(left, ctx.lanes),))):
            _store(ctx, scope, sums)


def _store(ctx: KernelContext, scope: Scope, sums: Val) -> None:
    assert scope.tiled is not None
    ctx.levels.define(scope.tiled.sum, 0, sums)
    for s in scope.stores:
        ctx.values.store(s.access, ctx.values.of(s.value), 0)
