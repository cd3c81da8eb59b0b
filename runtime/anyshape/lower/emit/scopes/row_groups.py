"""Groups of rows as code: the largest first, then what is left in smaller ones.

In: a scope with `RowGroups`. Out: for each size of group a loop over the first rows of groups, around the scope of so many rows.
"""

from __future__ import annotations

from anyshape.lower.emit.scopes.rows import emit_versions
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.tree import RowGroups


def emit_row_groups(ctx: KernelContext, groups: RowGroups) -> None:
    f, rows = ctx.f, ctx.sizes.of(groups.rows.extent)
    first: Val = const(I64, 0)
    for count, scope in groups.scopes.items():
        end = f.add(first, f.and_(f.sub(rows, first), -count))
        with ctx.levels.loop(first, end, count) as iteration:
            ctx.levels.bind_iteration(groups.rows, iteration.index)
            emit_versions(ctx, scope)
        first = end
