"""Records of where the loops of the driver are: operands of one batch, panels of B, tiles of rows, a block of A; what a tile prefetches.

In: values of the kernel under construction. Out: frozen records of them, so that the driver's steps can be read one by one.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I8, I64, Type, Val, ValLike, const
from .spec import Tile
from .tiles import Tiles

SOON = 128
"""How many lines ahead a single tile prefetches: as many as its rows are multiplied by during one access to memory."""


@dataclass(frozen=True)
class BatchOperands:
    """The operands of one batch."""

    tile: Tile
    a: Val | None
    b: Val | None
    c: Val | None


@dataclass(frozen=True)
class Panels:
    """B for some columns as the kernels read it: column j - first at base + (j - first) * column_step."""

    base: Val
    first: Val
    end: Val
    step: Val
    column_step: Val
    _: KW_ONLY
    dot: Val | None = None
    """Columns contiguous along k, and few rows of A likewise: neither operand is packed."""
    in_place: Val | None = None
    """B as it lies, its columns adjacent."""
    strip: Val | None = None
    """B of words as it lies, its columns adjacent, and few rows of A: elements of B become words as they are read."""


@dataclass(frozen=True)
class BlockRows:
    """The split of the part's rows into tiles of nearly equal height."""

    first: Val
    tiles: Val
    height: Val
    taller: Val
    end: Val | None = None
    """The end of the last tile, if it may have fewer rows than the others."""

    def start(self, f: FunctionBuilder, tile: Val) -> Val:
        row = f.add(f.add(self.first, f.mul(tile, self.height)), f.smin(tile, self.taller))
        return row if self.end is None else f.smin(row, self.end)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Tiles whose rows of A are packed together, or read in place.

    The first tile begins at `a`, a tile r rows further down at a + r * tile_step; in a tile, rows are `row_step` apart
    and steps of k `k_step`, or the height of the tile where A is packed (not `in_place`).
    """

    rows: BlockRows
    first: Val
    end: Val
    row: Val
    count: Val
    a: Val
    tile_step: Val
    row_step: Val
    k_step: Val
    in_place: Val | None


@dataclass(frozen=True, kw_only=True)
class BlockIteration:
    """What all tiles of a block do with some columns: the kernel, the columns of a call of it, and what is prefetched meanwhile.

    `share`: bytes of a panel of the next iteration that are prefetched in a step of k; `kernels`: the table; `b`: the `first` of the
    columns, whose elements have `size` bytes; `following`: the first column of the next iteration. Where `once` holds, the first tile reads
    `stored` and keeps it at `b`, widened, for the others.
    """

    kind: Val
    count: Val
    share: Val
    first: Val
    kernels: Val
    b: Val
    size: Val
    following: Val
    stored: Val
    once: Val | None


def suits_in_place(f: FunctionBuilder, tiles: Tiles, columns: Val, outer: Val, inner: Val) -> Val:
    """Whether A is read in place. Rows contiguous along k are, however many panels read them; rows contiguous among themselves are for a
    few panels. Rows that are a page apart are not: they would all map to one set of L1."""
    along_k, along_rows = f.compare("eq", inner, 1), f.compare("eq", outer, 1)
    few = f.compare("le", columns, tiles.few_panels * tiles.columns)
    distance = f.select(along_k, outer, inner)
    apart = f.compare("ne", f.binary("and", distance, const(I64, tiles.page - 1)), 0)
    return f.and_(apart, f.or_(along_k, f.and_(along_rows, few)))


def keeping_tiles(f: FunctionBuilder, once: Val | None) -> ValLike:
    """How many tiles keep a panel, and do not prefetch."""
    return 0 if once is None else f.convert("zext", once, I64)


def share_of_next(f: FunctionBuilder, tiles: Tiles, b: Type, panels: Panels, block: Block, once: Val | None) -> Val:
    """Bytes of a panel of the next iteration that a tile prefetches in a step of k, so that all tiles of the block prefetch all of it; the
    first tile would have to wait for it. A B in place has no panels that lie one behind the other."""
    count = f.sub(block.end, f.add(block.first, keeping_tiles(f, once)))
    share = f.binary("udiv", f.add(count, tiles.columns * b.bytes - 1), count)
    return share if panels.in_place is None else f.select(panels.in_place, const(I64, 0), share)


def prefetch_start(
    f: FunctionBuilder,
    tiles: Tiles,
    block: Block,
    iteration: BlockIteration,
    index: Val,
    b: Val,
    following: Val,
    k: Val,
) -> Val:
    """Returns the address at which a tile begins to prefetch: at its own share of the panel `following`, or, if it is alone, ahead of what
    it reads."""
    before = f.sub(index, f.add(block.first, keeping_tiles(f, iteration.once)))
    shared = f.gep(following, f.mul(before, f.mul(iteration.share, k)), I8)
    alone = f.compare("eq", f.sub(block.end, block.first), 1)
    return f.select(alone, f.gep(b, SOON * tiles.line, I8), shared)


def prefetch_of_rows(
    f: FunctionBuilder,
    panels: Panels,
    block: Block,
    iteration: BlockIteration,
    streams_a: bool,
    a: Val,
    step: Val,
    k: Val,
    of_b: tuple[Val, Val],
) -> tuple[Val, Val]:
    """Computes from where and how much in a step of k a tile prefetches: B, or, where rows of A are read in place, one behind the other,
    the rows of the next tile: where B lies in place, and with the first columns if `streams_a`. `step`: bytes of the tile's own rows,
    which begin at `a`, for a step of k."""
    reads = None
    if streams_a:
        several = f.compare("gt", f.sub(block.end, block.first), 1)
        reads = f.and_(several, f.compare("eq", iteration.first, panels.first))
    if panels.in_place is not None:
        reads = panels.in_place if reads is None else f.or_(reads, panels.in_place)
    if block.in_place is None or reads is None:
        return of_b
    follow = f.and_(f.and_(reads, block.in_place), f.compare("eq", block.row_step, k))
    return f.select(follow, f.gep(a, f.mul(step, k), I8), of_b[0]), f.select(follow, step, of_b[1])
