"""Rows whose ends are padded, clamped or mirrored, and whose inside is read as it lies.

In: an `Interior`. Out: for each row what is before its inside, elements or masked vectors; the inside, by whole vectors without masks; what
is after it. Rows that have nothing inside are masked vectors all along.
"""

from __future__ import annotations

from anyshape.lower.emit.loops.inner_loop import emit_loop
from anyshape.lower.emit.loops.nest import masked_vectors, nest, vector_range, vector_share
from anyshape.lower.emit.values.bounds import between
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.tree import Interior, Loop

TIERS = (4, 1)
FEW = 4
"""Elements at an end of a row that are computed one by one."""

SHORT = 6
"""Vectors of a row, its ends among them, below which masks and permutations cost no more than loops."""


def is_most_of_rows(ctx: KernelContext, interior: Interior) -> Val:
    """Whether rows are of some vectors, and three quarters of them inside of the bounds that are the same for all rows."""
    f, along = ctx.f, interior.rows.variables[-1]
    extent = ctx.sizes.of(along.extent)
    inside = extent
    same = [b for b in interior.bounds if [v for v, _ in b.index.terms] == [along]]
    if same:
        low, high = between(ctx.values, same, along)
        inside = f.sub(f.smin(high, extent), f.smax(low, 0))
    return f.and_(f.compare("ge", extent, SHORT * ctx.lanes), f.compare("ge", f.mul(inside, 4), f.mul(extent, 3)))


def emit_interior(ctx: KernelContext, interior: Interior, split: bool) -> None:
    """Emits the loops of a scope; the outermost one is shared out to the parts, if `split`."""
    *outer, along = interior.rows.variables
    (loop,) = interior.rows.steps
    assert isinstance(loop, Loop)
    f, bounds = ctx.f, interior.bounds

    def row() -> None:
        first, last = vector_share(ctx, along, TIERS, split and not outer)
        low, high = between(ctx.values, bounds, along)
        low, high = f.smax(low, first), f.smin(high, last)
        some = f.compare("lt", low, high)
        low, high = (f.select(some, at, last) for at in (low, high))
        ends = f.select(f.compare("lt", high, last), const(I64, 2), const(I64, 1))
        with ctx.levels.loop(0, ends, 1, [first, low, high], surely=True) as end:
            at, until, after = end.carried
            _emit_end(ctx, loop, along, (at, until))
            with ctx.values.held(set(bounds) - ctx.values.holding):
                vector_range(ctx, along, TIERS, (until, after), lambda: emit_loop(ctx, interior.inside))
            end.next([after, last, last])

    nest(ctx, outer, row, split=split)


def _emit_end(ctx: KernelContext, loop: Loop, along: LoopVar, range_: Range) -> None:
    """Emits a few elements one by one, and more by masked vectors."""
    f, (first, last) = ctx.f, range_
    few = f.compare("le", f.sub(last, first), FEW)
    stop = f.select(few, last, first)
    with ctx.levels.loop(first, stop, 1) as iteration:
        ctx.levels.bind_iteration(along, iteration.index)
        emit_loop(ctx, loop)
    masked_vectors(ctx, along, (stop, last), lambda: emit_loop(ctx, loop))
