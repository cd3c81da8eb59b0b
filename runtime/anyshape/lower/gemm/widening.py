"""Panels of 16 bits, widened once for several tiles: a kernel that widens as it reads spends two conversions on every step of a tile.

In: values of the kernel under construction, room in the second cache. Out: the columns of a turn as the kernels of whole floats read them.
"""

from __future__ import annotations

from dataclasses import replace

from ..llvm.builder import Function
from ..llvm.types import I64, Val, const
from . import halves
from .blocks import Block
from .kernel_arguments import widened
from .kinds import Product

_TILES = 3
"""From how many tiles on: to write a widened panel costs about what two tiles spend on conversions."""


def pays(f: Function, of: Product, block: Block) -> Val:
    """Whether there are enough tiles, and a widened panel stays in the second cache."""
    fits = f.compare("le", of.k, of.tiles.computed_block // of.tiles.columns)
    return f.and_(fits, f.compare("ge", f.sub(block.end, block.first), _TILES))


def scaled(f: Function, of: Product, block: Block) -> Block:
    """A packed for kernels that widen B by shifts (`halves.py`), if they are to widen it at all: kernels of several rows."""
    enough = f.compare("gt", block.rows.height, of.tiles.few_rows)
    shifts = f.and_(f.and_(enough, f.not_(pays(f, of, block))), halves.keeps_small(f, block.a))
    with f.if_(shifts):
        halves.scale(f, block.a, f.mul(block.count, of.k), of.tiles.lanes)
    return replace(block, scaled=shifts)


def widen(f: Function, of: Product, start: Val, columns: Val, to: Val) -> None:
    """Prepacked panels for so many columns, all of them whole."""
    tiles = of.tiles
    panels = f.ceil_div(columns, tiles.columns)
    narrow, vector = of.stored.vector(tiles.lanes), tiles.element.vector(tiles.lanes)
    with f.for_range(const(I64, 0), f.mul(f.mul(panels, of.k), tiles.columns), tiles.columns) as loop:
        for at in range(0, tiles.columns, tiles.lanes):
            place = f.add(loop.index, at)
            f.store(widened(f, f.load(start, narrow, place), vector), to, place)
