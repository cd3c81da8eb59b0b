"""Panels of 16 bits, widened once for several tiles: a kernel that widens as it reads spends two conversions on every step of a tile.

So the first tile stores what it widens, beside its products, and the others read that with the kernels of f32. In: values of the kernel
under construction, room in the second cache. Out: which kernel a tile calls, and with which panels.
"""

from __future__ import annotations

from ..llvm.builder import FunctionBuilder
from ..llvm.types import Val
from .blocks import Block, BlockIteration
from .kinds import ProductSizes
from .microkernels import SEVERAL, keeping_name


def pays(f: FunctionBuilder, of: ProductSizes, block: Block) -> Val:
    """Whether there are enough tiles, and a widened panel stays in the second cache."""
    fits = f.compare("le", of.k, of.tiles.near_block // of.tiles.columns)
    return f.and_(fits, f.compare("ge", f.sub(block.end, block.first), SEVERAL))


def called(
    f: FunctionBuilder,
    of: ProductSizes,
    block: Block,
    iteration: BlockIteration,
    index: Val,
    offset: Val,
    b: Val,
    soon: Val,
) -> tuple[Val, Val, Val]:
    """The table of a tile's kernels, its B, and what it prefetches or, if it widens B for the others, where it keeps that: at `b`, which is
    so many elements behind the first column of the iteration."""
    if iteration.once is None:
        return iteration.kernels, b, soon
    first = f.and_(iteration.once, f.compare("eq", index, block.first))
    keeping = f.module.declare_table(keeping_name(of.tiles.element, of.stored))
    stored = f.gep(iteration.stored, offset, of.stored)
    return f.select(first, keeping, iteration.kernels), f.select(first, stored, b), f.select(first, b, soon)
