"""Choice of the kernel for the next columns, and of how many columns a tile takes before the next tile does.

In: values of the kernel under construction: panels, a block of rows, sizes. Out: entries of the table of kernels, and counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I64, Type, Val, ValLike, const
from .blocks import Block, Panels
from .microkernels import DOT, FAR, FULL, MASKED, NARROW, STRIP, WIDE, table_index
from .tiles import Tiles


@dataclass(frozen=True)
class ProductSizes:
    """Sizes by which kernels are chosen: those of the whole product, so that every part adds up in one order."""

    tiles: Tiles
    stored: Type
    rows: Val
    columns: Val
    k: Val
    tallest: Val | None = field(default=None, kw_only=True)
    """Rows of a tile at most, where they are not those of `tiles`."""


def wide_columns(f: FunctionBuilder, tiles: Tiles, count: Val) -> Val:
    """How many columns one call takes with so many rows."""
    wide = const(I64, tiles.columns)
    for height in range(tiles.rows, 0, -1):
        if tiles.panels(height) != tiles.panels(height + 1):
            limit = f.compare("le", count, height)
            wide = f.select(limit, const(I64, tiles.panels(height) * tiles.columns), wide)
    return wide


def choose(f: FunctionBuilder, of: ProductSizes, panels: Panels, left: Val, wide: Val) -> tuple[Val, Val]:
    """The kind of kernel for the next columns, and how many of the columns left it takes."""
    tiles = of.tiles
    full, masked, narrow, several, far, dot, strip = (
        const(I64, table_index(tiles, kind, 0)) for kind in (FULL, MASKED, NARROW, WIDE, FAR, DOT, STRIP)
    )
    size = f.mul(f.mul(f.sub(panels.end, panels.first), of.k), of.stored.bytes)
    several = f.select(f.compare("gt", size, tiles.unfetched), far, several)
    fits_wide, fits = f.compare("ge", left, wide), f.compare("ge", left, tiles.columns)
    ragged = f.select(f.compare("le", left, tiles.lanes), narrow, masked)
    kind = f.select(fits_wide, several, f.select(fits, full, ragged))
    count = f.select(fits_wide, wide, f.smin(left, tiles.columns))
    if panels.dot is not None:
        kind = f.select(panels.dot, dot, kind)
    if panels.strip is not None:
        kind = f.select(panels.strip, strip, kind)
        count = f.select(panels.strip, f.smin(left, tiles.shared_strip), count)
    if panels.in_place is not None:
        long = f.compare("gt", of.columns, tiles.panels(1) * tiles.columns)
        single = f.and_(panels.in_place, f.and_(long, f.compare("eq", of.rows, 1)))
        kind = f.select(single, strip, kind)
        count = f.select(single, f.smin(left, tiles.strip), count)
    return kind, count


def stretch(f: FunctionBuilder, of: ProductSizes, block: Block, left: Val, count: Val) -> Val:
    """Columns that a tile takes before the next tile does, a multiple of the `count` of a call: several panels that fit the second cache
    beside A, if the rows of the tile stay in the first one meanwhile, and those of all tiles would not."""
    tiles = of.tiles
    whole = f.and_(f.compare("eq", count, tiles.columns), f.compare("gt", f.mul(block.count, of.k), 2 * tiles.strip))
    most: ValLike = tiles.strip // tiles.rows
    if of.tallest is not None:
        most = f.binary("udiv", const(I64, tiles.strip), of.tallest)
    stays = f.compare("le", of.k, most)
    panel = f.mul(f.smax(of.k, 1), tiles.columns)
    most = f.smax(f.binary("udiv", const(I64, tiles.near_block), panel), 1)
    fitting = f.smin(f.binary("udiv", left, const(I64, tiles.columns)), most)
    return f.select(f.and_(whole, stays), f.mul(fitting, tiles.columns), count)
