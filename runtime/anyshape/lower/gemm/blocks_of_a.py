"""Rows of A as the micro-kernels read them, for some tiles: gathered, packed, widened, or A in place.

In: the context, the operands of a batch, tiles of rows, the panels that they multiply. Out: a `Block`, and code that packs its rows.
"""

from __future__ import annotations

from dataclasses import replace

from ..llvm.matrix_tiles import ROWS
from ..llvm.types import I1, I64, VOID, Val, const
from .blocks import BatchOperands, Block, BlockRows, suits_in_place
from .context import ContractionContext
from .kernel_arguments import widened
from .spec import Gathered, Packed, Strided
from .tiled_rows import RowPacking


def block_of_a(
    ctx: ContractionContext, ops: BatchOperands, rows: BlockRows, first: Val, end: Val, dot: Val | None
) -> Block:
    """Packs the rows of tiles first .. end - 1 unless they are read in place. `dot`: whether few rows are multiplied by columns along k."""
    f, spec = ctx.f, ctx.spec
    row = rows.start(f, first)
    block = Block(
        rows=rows,
        first=first,
        end=end,
        row=row,
        count=f.sub(rows.start(f, end), row),
        a=ctx.a_scratch,
        tile_step=ctx.k,
        row_step=const(I64, 1),
        k_step=const(I64, 0),
        in_place=None,
    )
    if ctx.matrix is not None:
        block = replace(block, tile_step=ctx.pitch, row_step=ctx.matrix.choose(f, ctx.pitch, 1))
    if isinstance(spec.a, Gathered):
        return _gathered(ctx, spec.a, ops, block)
    narrow = ctx.a_type != spec.element
    if isinstance(spec.a, Strided) and narrow and dot is not None:
        return _widened_or_packed(ctx, ops, block, dot)
    if isinstance(spec.a, Strided) and not narrow and (ctx.reads_a or dot is not None):
        return _in_place_or_packed(ctx, spec.a, ops, block, dot)
    _pack_rows(ctx, ops, block)
    return block


def _gathered(ctx: ContractionContext, a: Gathered, ops: BatchOperands, block: Block) -> Block:
    a.emit(ctx.f, ops.tile, block.row, block.count, ctx.pitch, ctx.a_scratch)
    if ctx.matrix is not None:
        _row_packing(ctx).ended(ctx.f, block.count)
    return replace(block, tile_step=ctx.pitch, row_step=ctx.pitch, k_step=const(I64, 1), in_place=const(I1, 1))


def _widened_or_packed(ctx: ContractionContext, ops: BatchOperands, block: Block, dot: Val) -> Block:
    """Narrow rows: widened where dot products read few of them along k, packed otherwise."""
    f = ctx.f
    with f.if_else(dot) as few:
        with few.then():
            _widen_rows(ctx, ops, block.row, block.count)
        with few.otherwise():
            _pack_rows(ctx, ops, block)
    return replace(block, row_step=f.select(dot, ctx.k, block.row_step), k_step=const(I64, 1), in_place=dot)


def _in_place_or_packed(
    ctx: ContractionContext, a: Strided, ops: BatchOperands, block: Block, dot: Val | None
) -> Block:
    f, spec = ctx.f, ctx.spec
    assert ops.a is not None
    outer, inner = f.i64(a.outer), f.i64(a.inner)
    are_words = None
    if spec.words is not None and ctx.reads_a:
        are_words = f.and_(f.compare("eq", f.and_(f.or_(ctx.depth, outer), 3), 0), f.compare("eq", inner, 1))
        outer = f.lshr(outer, 2)
    in_place = f.or_(f.compare("eq", block.count, 1), suits_in_place(f, ctx.tiles, ctx.n, outer, inner))
    if are_words is not None:
        in_place = f.and_(in_place, are_words)
    if ctx.matrix is not None:  # which reads whole tiles
        in_place = f.and_(in_place, ctx.matrix.is_whole(f, block.count, f.lshr(ctx.depth, 2)))
    if dot is not None:
        in_place = f.or_(in_place, dot) if ctx.reads_a else dot
    with f.if_(f.not_(in_place)):
        _pack_rows(ctx, ops, block)
    return replace(
        block,
        a=f.select(in_place, f.gep(ops.a, f.mul(block.row, outer), spec.element), block.a),
        tile_step=f.select(in_place, outer, block.tile_step),
        row_step=f.select(in_place, outer, block.row_step),
        k_step=inner,
        in_place=in_place,
    )


def _widen_rows(ctx: ContractionContext, ops: BatchOperands, row: Val, count: Val) -> None:
    """Copies rows that are contiguous along k, widened, one behind the other."""
    f, spec, lanes = ctx.f, ctx.spec, ctx.tiles.lanes
    assert ops.a is not None and isinstance(spec.a, Strided)
    start = f.gep(ops.a, f.mul(row, f.i64(spec.a.outer)), ctx.a_type)
    whole = f.binary("and", ctx.k, const(I64, -lanes))
    narrow, wide = ctx.a_type.vector(lanes), spec.element.vector(lanes)
    with f.for_range(0, count, carried=[start, ctx.a_scratch]) as loop:
        source, to = loop.carried
        with f.for_range(0, whole, lanes) as steps:
            f.store(widened(f, f.load(source, narrow, steps.index), wide), to, steps.index)
        with f.if_(f.compare("lt", whole, ctx.k)):
            mask = f.tail_mask(f.sub(ctx.k, whole), lanes)
            f.masked_store(widened(f, f.masked_load(source, narrow, mask, whole), wide), to, mask, whole)
        loop.next(f.gep(source, f.i64(spec.a.outer), ctx.a_type), f.gep(to, ctx.k, spec.element))


def _row_packing(ctx: ContractionContext) -> RowPacking:
    assert ctx.matrix is not None
    assert ctx.strip is not None
    return RowPacking(ctx.matrix, ctx.strip, ctx.a_scratch)


def _pack_rows(ctx: ContractionContext, ops: BatchOperands, block: Block) -> None:
    """Packs the rows of some tiles."""
    f, spec = ctx.f, ctx.spec
    if ctx.matrix is None:
        _pack_tiles(ctx, ops, block)
    elif not isinstance(spec.a, Strided):
        _pack_strips(ctx, ops, block)
    else:
        assert ops.a is not None
        outer, inner = f.i64(spec.a.outer), f.i64(spec.a.inner)
        with f.if_else(f.and_(ctx.matrix.holds, f.compare("eq", inner, 1))) as lies_in_rows:
            with lies_in_rows.then():
                source = f.gep(ops.a, f.mul(block.row, outer), ctx.source_types[0])
                _row_packing(ctx).along_k(f, source, outer, block.count, ctx.depth)
            with lies_in_rows.otherwise():
                _pack_strips(ctx, ops, block)


def _pack_strips(ctx: ContractionContext, ops: BatchOperands, block: Block) -> None:
    """Packs rows step by step: for vectors tile by tile, for matrix tiles 16 at a time, which become rows."""
    f, matrix, packing = ctx.f, ctx.matrix, _row_packing(ctx)
    assert matrix is not None
    rows, row = block.rows, block.row
    stop = rows.start(f, block.end)
    count = matrix.choose(f, f.ceil_div(f.sub(stop, row), ROWS), f.sub(block.end, block.first))
    with f.for_range(0, count, at_least_once=True) as loop:
        tile = f.add(block.first, loop.index)
        at = f.mul(loop.index, ROWS)
        start = matrix.choose(f, f.add(row, at), rows.start(f, tile))
        following = matrix.choose(f, f.smin(f.add(f.add(row, at), ROWS), stop), rows.start(f, f.add(tile, 1)))
        height = f.sub(following, start)
        to = f.gep(ctx.a_scratch, f.mul(f.sub(start, row), ctx.k), ctx.spec.element)
        width = matrix.choose(f, ROWS, height)
        _pack_strip(ctx, ops, start, height, width, f.select(matrix.holds, packing.strip, to))
        with f.if_(matrix.holds):
            packing.transposed(f, at)


def _pack_tiles(ctx: ContractionContext, ops: BatchOperands, block: Block) -> None:
    """Packs rows step by step, tile by tile."""
    f, rows = ctx.f, block.rows
    with f.for_range(block.first, block.end, at_least_once=True) as loop:
        start = rows.start(f, loop.index)
        height = f.sub(rows.start(f, f.add(loop.index, 1)), start)
        to = f.gep(ctx.a_scratch, f.mul(f.sub(start, block.row), ctx.k), ctx.spec.element)
        _pack_strip(ctx, ops, start, height, height, to)


def _pack_strip(ctx: ContractionContext, ops: BatchOperands, start: Val, height: Val, width: Val, to: Val) -> None:
    """Packs so many rows from `start` on step by step, `width` words a step."""
    f, spec = ctx.f, ctx.spec
    if isinstance(spec.a, Packed):
        spec.a.emit(f, ops.tile, start, height, width, to)
    elif isinstance(spec.a, Strided):
        assert ops.a is not None
        outer, inner = f.i64(spec.a.outer), f.i64(spec.a.inner)
        source = f.gep(ops.a, f.mul(start, outer), ctx.source_types[0])
        f.call(ctx.a_packer, VOID, [source, outer, inner, height, width, ctx.depth, to])
