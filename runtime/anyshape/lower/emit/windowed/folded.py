"""Reductions over windows of several dims, one dim after the other: columns are shared by the windows that have them.

In: a `Scope` that has `folded`. Out: for each plane one fill of the copy, and loops over rows of results. Along a row vectors of columns
stay in registers from one vector of results to the next, and the taps of the last dim are shifts across two of them. An extreme of floats
takes one instruction a tap where the copy, as it was filled, had no NaN; there is a version each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from anyshape.lower.analyse.windows import Folded
from anyshape.lower.emit.loops import reduction
from anyshape.lower.emit.loops.nest import Accumulators, VectorLoop, nest, nest_carrying
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.windowed.copies import bind_ends, fill, fill_pads, prepare
from anyshape.lower.emit.windowed.kept_rows import KeptRows
from anyshape.lower.emit.windowed.windows import over_copied_planes
from anyshape.lower.llvm.types import I1, Val
from anyshape.lower.schedule.tree import Scope


def emit_folded(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope that has `folded`."""
    folded, f = scope.folded, ctx.f
    assert folded is not None
    staged = folded.staged
    prepare(ctx, staged)
    bind_ends(ctx, staged)
    fill_pads(ctx, staged)
    positions = [m.position for m in staged.moving]
    planes = [v for v in scope.stores[0].variables if v not in positions]
    kept = KeptRows(ctx, scope.stores, positions)
    watched = folded.reduction.kind in ("max", "min") and staged.tensor.dtype.is_float

    def rows(ignores_nan: bool) -> None:
        nest(ctx, positions[:-1], _FoldedRow(ctx, scope, folded, kept, ignores_nan).emit)

    start: list[Val] = []
    if watched:
        outside = None if staged.outside is None else ctx.values.of(staged.outside)
        start = [f.splat(0 if outside is None else f.fcmp("uno", outside, outside), ctx.lanes, I1)]

    def reduced(seen: Sequence[Val]) -> None:
        if not seen:
            rows(False)
            return
        has_nan = f.reduce("or", seen[0])
        with ctx.levels.when(has_nan):
            rows(False)
        with ctx.levels.when(f.not_(has_nan)):
            rows(True)

    over_copied_planes(ctx, planes, staged, start, lambda seen: fill(ctx, staged, pads=False, seen_nan=seen), reduced)


@dataclass(frozen=True)
class _FoldedRow:
    """A row of results; `ignores_nan`: there is none in the copy."""

    ctx: KernelContext
    scope: Scope
    folded: Folded
    kept: KeptRows
    ignores_nan: bool

    @property
    def ahead(self) -> int:
        """How many vectors of columns past its own place a vector of results needs."""
        return -(-max(shift for _, shift in self.folded.taps) // self.ctx.lanes)

    def emit(self) -> None:
        self.kept.begin_row()
        last = self.folded.staged.moving[-1].position
        first = [[self.column(k, at)] for at in range(self.ahead) for k in range(len(self.folded.columns))]
        nest_carrying(self.ctx, [last], first, self.results, vector=VectorLoop(last, (1,)))

    def step(self, total: Val, value: Val) -> Val:
        r, dtype = self.folded.reduction, self.folded.staged.tensor.dtype
        step = reduction.extreme if self.ignores_nan else reduction.accumulate
        return step(self.ctx.f, r.kind, dtype, total, value)

    def column(self, k: int, ahead: int) -> Val:
        """A vector of columns of a remainder, so many vectors past the place of the results."""
        ctx, tensor = self.ctx, self.folded.staged.tensor
        type_ = elementwise.memory_type(tensor.dtype).vector(ctx.lanes)
        read = partial(ctx.f.load, type_=type_, index=ahead * ctx.lanes)
        return reduce(self.step, (read(ctx.values.pointer(tensor, a)) for a in self.folded.columns[k]))

    def results(self, carried: Accumulators) -> Accumulators:
        ctx, f = self.ctx, self.ctx.f
        columns = [value for (value,) in carried] + self.furthest(carried)
        count = len(self.folded.columns)

        def tap(k: int, shift: int) -> Val:
            vector, lane = divmod(shift, ctx.lanes)
            first = columns[vector * count + k]
            if lane == 0:
                return first
            return f.shuffle(first, columns[(vector + 1) * count + k], list(range(lane, lane + ctx.lanes)))

        r, dtype = self.folded.reduction, self.folded.staged.tensor.dtype
        total = reduce(self.step, (tap(k, shift) for k, shift in self.folded.taps))
        ctx.levels.define(r, 0, elementwise.convert(f, total, dtype, r.dtype))
        for s in self.scope.stores:
            ctx.values.store(s.access, ctx.values.of(s.value), 0)
        return [[value] for value in columns[count:]]

    def furthest(self, carried: Accumulators) -> list[Val]:
        """The columns that no vector of results before needed; of those past the end of the row, anything."""
        ctx, f, count = self.ctx, self.ctx.f, len(self.folded.columns)
        if self.ahead == 0:
            return [self.column(k, 0) for k in range(count)]
        last = self.folded.staged.moving[-1]
        places = ctx.sizes.of(last.position.extent + last.reach // last.step)
        place = f.add(ctx.levels.indices[last.position], self.ahead * ctx.lanes)
        with ctx.levels.when(f.compare("lt", place, places), [value for (value,) in carried[-count:]]) as more:
            more.next([self.column(k, self.ahead) for k in range(count)])
        return [*more.results]
