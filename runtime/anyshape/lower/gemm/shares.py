"""Which part of a contraction one of several threads computes, and its rows as tiles of nearly equal height.

In: the context, the number of a part and how many there are. Out: ranges of batches, rows and columns, decided when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable

from ..llvm.matrix_tiles import ROWS
from ..llvm.types import I1, I64, Val, const
from .blocks import BlockRows
from .context import ContractionContext
from .spec import Packed, Strided

UNEVEN = 16
"""Batches are uneven where the largest share of them is more than a part of so many larger than it would be."""
READING = 4
"""Reading a row of A costs a part as much as so many of its products: where columns are shared out, every part reads all rows. So does
reading a column of a B that is no panels, where rows are."""


def ranges_of_part(ctx: ContractionContext, count: Val, part: Val, nparts: Val) -> tuple[Val, Val, Val, Val, Val, Val]:
    """The share of this part: some batches, or else some rows, or else some panels of columns."""
    f, zero = ctx.f, const(I64, 0)
    if nparts.number == 1:
        return zero, count, zero, ctx.m, zero, ctx.n

    def share(total: Val) -> tuple[Val, Val]:
        low = f.binary("udiv", f.mul(total, part), nparts)
        return low, f.binary("udiv", f.mul(total, f.add(part, 1)), nparts)

    by_batch = _by_batch(ctx, count, nparts)
    by_rows = f.and_(f.not_(by_batch), _is_tall(ctx, nparts))
    by_columns = f.not_(f.or_(by_batch, by_rows))
    batches, heights = share(count), _shares_of_rows(ctx, share)
    panels = share(f.ceil_div(ctx.n, ctx.tiles.columns))
    columns = [f.smin(f.mul(panel, ctx.tiles.columns), ctx.n) for panel in panels]
    return (
        f.select(by_batch, batches[0], zero),
        f.select(by_batch, batches[1], count),
        f.select(by_rows, heights[0], zero),
        f.select(by_rows, heights[1], ctx.m),
        f.select(by_columns, columns[0], zero),
        f.select(by_columns, columns[1], ctx.n),
    )


def _by_batch(ctx: ContractionContext, count: Val, nparts: Val) -> Val:
    """Whether batches are shared out: where there are enough of them; of few that are not even, and whose columns no part packs, not where
    there are rows enough for each part."""
    f, spec = ctx.f, ctx.spec
    enough = f.compare("ge", count, nparts)
    if not spec.batch or spec.packs_b or not isinstance(spec.a, Strided):
        return enough
    most = f.binary("udiv", f.sub(f.add(count, nparts), 1), nparts)
    even = f.compare("le", f.mul(f.mul(most, nparts), UNEVEN), f.mul(count, UNEVEN + 1))
    return f.and_(enough, f.or_(even, f.compare("lt", ctx.m, f.mul(nparts, ctx.tiles.rows))))


def _shares_of_rows(ctx: ContractionContext, share: Callable[[Val], tuple[Val, Val]]) -> tuple[Val, Val]:
    """The first row of a part and that of the next one: where matrix tiles multiply, whole tiles of rows but the last."""
    f, matrix = ctx.f, ctx.matrix
    if matrix is None:
        return share(ctx.m)
    unit = matrix.choose(f, ROWS, 1)
    low, high = share(f.binary("udiv", f.sub(f.add(ctx.m, unit), 1), unit))
    return f.smin(f.mul(low, unit), ctx.m), f.smin(f.mul(high, unit), ctx.m)


def _is_tall(ctx: ContractionContext, nparts: Val) -> Val:
    """Whether rows are shared out: where there are enough for each part, and, unless every part had to compute A, where that is no less
    even than columns. A B that is computed, or widened for several tiles, would be so by every part."""
    f, tiles = ctx.f, ctx.tiles
    if ctx.spec.rows_done:
        return const(I1, 1)
    enough = f.compare("ge", ctx.m, f.mul(nparts, tiles.rows))
    if isinstance(ctx.spec.a, Strided):
        enough = f.and_(enough, _is_even(ctx, nparts))
    if isinstance(ctx.spec.b, Packed) or ctx.spec.widens_b(f.target):
        enough = f.and_(enough, f.compare("lt", ctx.n, f.mul(nparts, tiles.columns)))
    return f.or_(enough, f.compare("ge", ctx.m, ctx.n))


def _is_even(ctx: ContractionContext, nparts: Val) -> Val:
    """Whether sharing out rows is as even as sharing out columns: 17 of 33 rows are 3 % more than half."""
    f, width = ctx.f, ctx.tiles.columns

    def most(count: Val) -> Val:
        return f.binary("udiv", f.sub(f.add(count, nparts), 1), nparts)

    of_columns = f.mul(ctx.m, f.add(f.mul(most(f.ceil_div(ctx.n, width)), width), READING))
    rows = f.add(most(ctx.m), READING) if isinstance(ctx.spec.b, Strided) else most(ctx.m)
    return f.compare("le", f.mul(rows, ctx.n), of_columns)


def split_rows(ctx: ContractionContext, m0: Val, m1: Val) -> BlockRows:
    """Splits rows m0 .. m1 - 1 into tiles."""
    f = ctx.f
    total = f.sub(m1, m0)
    count = f.ceil_div(total, ctx.tiles.rows)
    height = f.binary("udiv", total, count)
    rows = BlockRows(m0, count, height, f.sub(total, f.mul(count, height)))
    return rows if ctx.matrix is None else ctx.matrix.split(f, total, rows)
