"""Short sums of as many rows as a vector has lanes: their lanes are added up together, and the sums lie along the lanes of one vector.

In: a scope of a sum along a short row, of what rows share and of what is their own (the distances of points), and stores of it. Out: loops
over blocks of rows, in which what the rows share is read once. To add up the lanes of one sum takes as many instructions as a row of a
dozen vectors; those of a vector of sums take three for each. A row that is left over is added up in the same order, so that results do not
depend on where blocks begin.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape.lower.emit.loops import reduction
from anyshape.lower.emit.loops.inner_loop import accumulate, emit_loop
from anyshape.lower.emit.loops.nest import Accumulators, nest, nest_carrying, vector_loop
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.dag import Load, LoopIndex, LoopVar, Reduction, walk
from anyshape.lower.ir.inline_values import neutral
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.tree import Loop, Scope

MOST_VECTORS = 16
"""Vectors of a row that is short."""
PART_OF_CACHE = 4
"""The part of the first cache that what a block of rows is computed with for one block after the other takes."""


def runs_together(ctx: KernelContext, scope: Scope) -> bool:
    """Whether a scope is a short sum of floats for each of its rows, some of whose operands rows share, and stores along the rows."""
    if ctx.values.vector is not None or scope.vector is not None or not scope.variables or scope.fills:
        return False
    if scope.interior is not None or len(scope.steps) != 2:
        return False
    along, then = scope.steps
    if not isinstance(along, Loop) or not isinstance(then, Loop):
        return False
    return _is_short_sum(ctx, along, scope.variables[-1]) and _is_stored_along(then, scope.variables[-1])


def _is_short_sum(ctx: KernelContext, loop: Loop, row: LoopVar) -> bool:
    if len(loop.reductions) != 1 or len(loop.variables) != 1 or loop.stores or loop.keep or loop.tried is not None:
        return False
    (total,), (along,) = loop.reductions, loop.variables
    lanes, extent = ctx.lanes, along.extent
    if loop.vector is not along or total.kind != "sum" or not total.dtype.is_float or total.dtype.bits < 32:
        return False
    if lanes * total.dtype.bits != 8 * ctx.f.target.vector_bytes or lanes > ctx.f.target.vector_registers // 2:
        return False
    if not isinstance(extent, int) or not lanes <= extent <= MOST_VECTORS * lanes:
        return False
    loads = [n.access for n in walk([total.body]) if isinstance(n, Load) and along in n.domain]
    if any(isinstance(n, Reduction) and along in n.domain for n in walk([total.body])):
        return False
    if any(isinstance(n, LoopIndex) and n.variable is row for n in walk([total.body])):
        return False
    plain = all(not a.checks and not a.bounds and not a.address.lets for a in loads)
    steps = [a.address.coefficient(row) for a in loads]
    contiguous = all(a.address.coefficient(along) == 1 for a in loads)
    return plain and contiguous and all(isinstance(c, int) for c in steps) and 0 in steps and any(steps)


def _is_stored_along(loop: Loop, row: LoopVar) -> bool:
    if loop.variables or loop.reductions or loop.keep or loop.tried is not None or not loop.stores:
        return False
    return all(s.access.is_plain and s.access.address.coefficient(row) == 1 for s in loop.stores)


def emit_together(ctx: KernelContext, scope: Scope, split: bool) -> None:
    """Emits blocks of rows, and the rows that are left over. `split`: the outermost variable is shared out to the parts."""
    *outer, row = scope.variables
    if not outer:
        share = ctx.parts.share(ctx.sizes.of(row.extent), ctx.lanes) if split else None
        _RowBlocks(ctx, scope).emit(share, None)
        return
    *outer, around = outer

    def blocks() -> None:
        extent = ctx.sizes.of(around.extent)
        first, last = ctx.parts.share(extent) if split and not outer else (const(I64, 0), extent)
        count = _most_around(ctx, scope)
        with ctx.levels.loop(first, last, count) as several:
            end = ctx.f.smin(ctx.f.add(several.index, count), last)
            _RowBlocks(ctx, scope).emit(None, (several.index, end))

    nest(ctx, outer, blocks, split=split)


def _most_around(ctx: KernelContext, scope: Scope) -> int:
    """How many values of the variable around the rows take a part of the first cache, in which a block of rows stays for all of them."""
    along = scope.steps[0]
    assert isinstance(along, Loop)
    (extent,) = (v.extent for v in along.variables)
    assert isinstance(extent, int)
    return max(1, ctx.f.target.l1_bytes // PART_OF_CACHE // (extent * along.reductions[0].dtype.bits // 8))


class _RowBlocks:
    """Blocks of rows, for some values of the variable around them."""

    def __init__(self, ctx: KernelContext, scope: Scope) -> None:
        along, then = scope.steps
        assert isinstance(along, Loop)
        assert isinstance(then, Loop)
        self.ctx, self.along, self.then, self.total = ctx, along, then, along.reductions[0]
        self.row, self.around = scope.variables[-1], scope.variables[-2] if len(scope.variables) > 1 else None

    def emit(self, share: Range | None, around: Range | None) -> None:
        """Emits the rows of a share, or all, for a range of the variable around them."""
        ctx, f, lanes = self.ctx, self.ctx.f, self.ctx.lanes
        first, last = (const(I64, 0), ctx.sizes.of(self.row.extent)) if share is None else share
        stop = f.add(first, f.and_(f.sub(last, first), -lanes))
        with ctx.levels.loop(first, stop, lanes) as block:
            self.repeated(around, lambda: self.block(block.index))
        with ctx.levels.loop(stop, last, 1) as single:
            self.repeated(around, lambda: self.single(single.index))

    def repeated(self, around: Range | None, body: Callable[[], None]) -> None:
        if self.around is None or around is None:
            body()
            return
        with self.ctx.levels.loop(*around, 1) as iteration:
            self.ctx.levels.bind(self.around, iteration.index)
            body()

    def block(self, first: Val) -> None:
        """Emits as many rows as a vector has lanes."""
        sums = self.sums(first, self.ctx.lanes)
        self.ctx.levels.bind(self.row, first)
        with self.ctx.values.along(Vector(self.row, self.ctx.lanes, (None,))):
            self.ctx.levels.define(self.total, 0, _across_lanes(self.ctx.f, self.total, sums))
            emit_loop(self.ctx, self.then)

    def single(self, number: Val) -> None:
        """Emits one row."""
        sums = self.sums(number, 1)
        self.ctx.levels.bind(self.row, number)
        value = reduction.finish(self.ctx.f, self.total.kind, self.total.dtype, sums, None)
        self.ctx.levels.define(self.total, -1, value)
        emit_loop(self.ctx, self.then)

    def sums(self, first: Val, count: int) -> list[Val]:
        """A vector of partial sums for each of some rows."""
        ctx, total = self.ctx, self.total
        start = ctx.f.splat(elementwise.literal(total.dtype, neutral(total.kind, total.dtype)), ctx.lanes)

        def added(sums: Accumulators) -> Accumulators:
            more: Accumulators = []
            for at, (before,) in enumerate(sums):
                with ctx.levels.section(), ctx.values.further(self.row, at):
                    ctx.levels.bind(self.row, first)
                    more.append([accumulate(ctx, total, before, 0)])
            return more

        variables, along = self.along.variables, self.along.vector
        each = nest_carrying(ctx, variables, [[start] for _ in range(count)], added, vector=vector_loop(along, (1,)))
        return [value for (value,) in each]


def _across_lanes(f: FunctionBuilder, total: Reduction, rows: list[Val]) -> Val:
    """The sum of all lanes of each of as many vectors: halves of a row are added until each has one lane, in the order of a single row."""
    lanes, size = len(rows), len(rows)
    while size > 1:
        half = size // 2
        starts = [*range(0, lanes, size), *range(lanes, 2 * lanes, size)]
        low, high = ([at + i for at in starts for i in range(first, first + half)] for first in (0, half))
        rows = [
            reduction.accumulate(f, total.kind, total.dtype, f.shuffle(a, b, low), f.shuffle(a, b, high))
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
        size = half
    return rows[0]
