"""Groups of rows as code: the largest first, then what is left in smaller ones.

In: a scope with `RowGroups`. Out: for each size of group a loop over the first rows of groups, around the scope of so many rows. A loop
that all sizes have outermost, as over panels of codes, is around these: what one iteration of it reads is near for all groups of a block of
rows, and comes from memory once for these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyshape.lower.emit.loops.nest import nest
from anyshape.lower.emit.scopes.rows import emit_scope, emit_versions
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.tree import RowGroups, Scope, run_time_coefficients

BLOCK = 64
"""Rows that take turns at what one iteration of the outermost loop reads: those of 8,192 bytes fill half a megabyte of the second cache."""


def emit_row_groups(ctx: KernelContext, groups: RowGroups) -> None:
    rows, around = ctx.sizes.of(groups.rows.extent), _outermost(groups)
    if around is None:
        _emit_groups(ctx, groups, const(I64, 0), rows, lambda scope: emit_versions(ctx, scope))
        return

    def emit(scope: Scope) -> None:
        emit_scope(ctx, replace(scope, variables=tuple(v for v in scope.variables if v is not around)))

    with ctx.levels.loop(const(I64, 0), rows, BLOCK) as block:
        end = ctx.f.smin(ctx.f.add(block.index, BLOCK), rows)
        nest(ctx, (around,), lambda: _emit_groups(ctx, groups, block.index, end, emit), split=True)


def _outermost(groups: RowGroups) -> LoopVar | None:
    """The outermost loop of the scopes of all sizes, if it is one that does not run along the lanes, and there is one version of each."""
    scopes = [*groups.scopes.values()]
    first = scopes[0].variables[0]
    same = all(s.variables[0] is first and s.vector is not first for s in scopes)
    return first if same and not any(s.usual or run_time_coefficients(s) for s in scopes) else None


def _emit_groups(ctx: KernelContext, groups: RowGroups, first: Val, last: Val, emit: Callable[[Scope], None]) -> None:
    f = ctx.f
    for count, scope in groups.scopes.items():
        end = f.add(first, f.and_(f.sub(last, first), -count))
        with ctx.levels.loop(first, end, count) as iteration:
            ctx.levels.bind_iteration(groups.rows, iteration.index)
            emit(scope)
        first = end
