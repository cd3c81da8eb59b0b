"""Reductions over short windows of which the lanes are no part: per place of a result one test whether all of its window is inside.

In: a `Scope` that runs over places and, along the lanes, over channels. Out: its loops twice: the taps one after the other, without any mask,
for places whose window is inside of what it reads, and masked for those at edges. Places are the inner loop, for a few channels at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from anyshape.lower.emit.context import KernelContext
from anyshape.lower.emit.inner_loop import emit_loop
from anyshape.lower.emit.nest import nest
from anyshape.lower.emit.windows import over_planes
from anyshape.lower.ir.dag import Bound, Load, LoopVar, walk
from anyshape.lower.llvm.types import I1, I64, Val, const
from anyshape.lower.schedule.tree import Loop, Scope

WRITTEN_OUT = 25
"""The most taps that are written out."""
TIERS = (2, 1)
"""Vectors of channels at once: their factors of all taps stay in registers from place to place."""


def has_taps(scope: Scope) -> bool:
    """Whether the scope has one reduction over a few taps, at edges of which reads are masked alike for all lanes."""
    loops = [s for s in scope.steps if isinstance(s, Loop)]
    summing = [s for s in loops if s.reductions]
    if len(loops) != len(scope.steps) or len(summing) != 1 or scope.fills or any(s.keep for s in loops):
        return False
    if scope.vector is None or len(scope.variables) < 3 or any(s.variables for s in loops if s is not summing[0]):
        return False
    extents = [v.extent for v in summing[0].variables]
    taps = [n for n in extents if isinstance(n, int)]
    return len(taps) == len(extents) and 1 < math.prod(taps) <= WRITTEN_OUT and bool(_bounds(scope, summing[0].variables))


def _bounds(scope: Scope, taps: Sequence[LoopVar]) -> set[Bound]:
    """The bounds of reads that a tap decides with the place, each with one tap, so that it holds between two taps for which it does."""
    assert scope.vector is not None
    reads = (n for s in scope.steps if isinstance(s, Loop) for r in s.reductions for n in walk([r.body]) if isinstance(n, Load))
    found = {b for n in reads for b in n.access.bounds}
    return {b for b in found if _is_monotonic(b, scope.vector, taps)}


def _is_monotonic(b: Bound, vector: LoopVar, taps: Sequence[LoopVar]) -> bool:
    own = [v for v, _ in b.index.terms if v in taps]
    return len(own) == 1 and b.guard is None and not b.index.lets and b.index.coefficient(vector) == 0


def emit_taps(ctx: KernelContext, scope: Scope) -> None:
    """Emits a scope that `has_taps`."""
    *outer, place, channels = scope.variables
    taps = next(s.variables for s in scope.steps if isinstance(s, Loop) and s.reductions)
    bounds = _bounds(scope, taps)

    def steps() -> None:
        for step in scope.steps:
            assert isinstance(step, Loop)
            emit_loop(ctx, step, written_out=bool(step.variables))

    def at_place() -> None:
        inside = _all_inside(ctx, taps, bounds)
        with ctx.levels.when(inside), ctx.values.held(bounds):
            steps()
        with ctx.levels.when(ctx.f.not_(inside)):
            steps()

    def of_channels() -> None:
        nest(ctx, [place], at_place)

    over_planes(ctx, outer, lambda: nest(ctx, [channels], of_channels, vector=channels, tiers=TIERS))


def _all_inside(ctx: KernelContext, taps: Sequence[LoopVar], bounds: set[Bound]) -> Val:
    """Tests the bounds for the first taps and for the last ones."""
    result = const(I1, 1)
    for index in (lambda v: 0, lambda v: v.extent - 1):
        with ctx.levels.section():
            for v in taps:
                ctx.levels.bind(v, const(I64, index(v)))
            holds = ctx.values.inside(sorted(bounds, key=str), 0)
        result = result if holds is None else ctx.f.and_(result, holds)
    return result
