"""The loops of one contraction, written into a kernel: batches, blocks of rows, panels of columns, tiles.

In: an open kernel, a `ContractionSpec`, its scratch, and which part of how many it is. Out: code that calls the shared
micro-kernels and runs the epilogue on every tile while it is in the first cache. Blocks do not cut K, and the
micro-kernels cut it by its length alone: results do not depend on the number of parts.

    with module.kernel("matmul") as f:
        ...
        emit_contraction(f, spec, scratch, part, nparts)       # scratch: scratch_bytes(...), each part its own
        f.ret(const(I32, 0))
    loaded = compile_module(module, resolve(module.imports, module.target))
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I8, I64, PTR, VOID, Type, Val, ValLike, const
from .blocks import (
    BatchOperands,
    Block,
    BlockIteration,
    BlockRows,
    Panels,
    prefetch_of_rows,
    prefetch_start,
    share_of_next,
)
from .blocks_of_a import block_of_a
from .context import ContractionContext, packers_of
from .epilogues import TileSums, adjacent_store, finish, strided_store
from .kinds import ProductSizes, choose, stretch, wide_columns
from .microkernels import table_name
from .packing import PACK_ARGUMENTS
from .panels_of_b import panels_of_b
from .shares import ranges_of_part, split_rows
from .spec import ContractionSpec, Gathered, Packed, Poll, Prepacked, Strided, TapRows, Tile
from .tap_rows import emit_tap_rows
from .tap_tiles import emit_tap_tiles
from .tiles import tiles_for
from .widening import called, pays

NEAR_TILES = 4
"""Tiles of gathered rows that are written and read at a time where all of B is near: they stay in L1, or close to it."""


@dataclass(frozen=True)
class _BlocksOfRows:
    """Rows in blocks of so many tiles."""

    rows: BlockRows
    tiles: Val


def emit_contraction(
    f: FunctionBuilder,
    spec: ContractionSpec,
    scratch: Val,
    part: ValLike = 0,
    nparts: ValLike = 1,
    poll: Poll = lambda pause: None,
) -> None:
    """Emit the contraction at the current point of `f`. `scratch` is private to the part. `poll` is emitted once for each stretch of a
    block."""
    tiles, spec = tiles_for(f.target, spec.element), spec.of_elements(f.target)
    if isinstance(spec.a, TapRows):
        of_part = f.i64(part), f.i64(nparts)
        if spec.words is None:
            emit_tap_rows(f, spec, spec.a, scratch, of_part, lambda: poll(None))
        else:
            emit_tap_tiles(f, spec, spec.a, scratch, of_part, poll)
        return
    for name in dict.fromkeys(packers_of(spec)):
        f.module.declare(name, VOID, [type_ for _, type_ in PACK_ARGUMENTS])
    _Driver(ContractionContext(f, spec, tiles, scratch), poll).emit(f.i64(part), f.i64(nparts))


class _Driver:
    """The loops over batches, columns, blocks of rows and tiles."""

    def __init__(self, context: ContractionContext, poll: Poll) -> None:
        self.context, self.poll = context, poll
        self.f, self.spec, self.tiles, self.matrix = context.f, context.spec, context.tiles, context.matrix

    def emit(self, part: Val, nparts: Val) -> None:
        f = self.f
        extents = [f.i64(batch.extent) for batch in self.spec.batch]
        count = const(I64, 1)
        for extent in extents:
            count = f.mul(count, extent)
        b0, b1, m0, m1, n0, n1 = ranges_of_part(self.context, count, part, nparts)
        work = f.and_(f.compare("lt", m0, m1), f.compare("lt", n0, n1))
        with f.if_(work):
            rows = split_rows(self.context, m0, m1)
            # blocks of one size: a last one of few rows would read all of B for them
            most = self.context.per_k(self.context.a_block, self.context.tallest(), self.context.pitch)
            if isinstance(self.spec.a, Gathered):
                is_near = f.compare("le", f.mul(self.context.n, self.context.k), self.tiles.a_block)
                most = f.select(is_near, f.smin(most, NEAR_TILES), most)
            blocks = f.binary("udiv", f.add(rows.tiles, f.sub(most, 1)), most)
            block_tiles = f.binary("udiv", f.add(rows.tiles, f.sub(blocks, 1)), blocks)
            step = f.mul(self.context.per_k(self.context.b_block, self.tiles.columns), self.tiles.columns)
            if not self.spec.packs_b:
                step = f.smax(f.sub(n1, n0), 1)
            blocks_of_rows = _BlocksOfRows(rows, block_tiles)
            with nullcontext() if self.matrix is None else self.matrix.configuration.configured(f):
                if self.spec.packs_a_once:
                    with (
                        self._blocks(blocks_of_rows, self._operands(b0, extents)) as block,
                        f.for_range(b0, b1) as loop,
                    ):
                        self._batch(self._operands(loop.index, extents), block, n0, n1, step)
                else:
                    with f.for_range(b0, b1) as loop:
                        self._batch(self._operands(loop.index, extents), blocks_of_rows, n0, n1, step)

    def _operands(self, number: Val, extents: list[Val]) -> BatchOperands:
        f, spec, ctx = self.f, self.spec, self.context
        indices: list[Val] = []
        for extent in reversed(extents[1:]):
            quotient = f.binary("udiv", number, extent)
            indices.insert(0, f.sub(number, f.mul(quotient, extent)))
            number = quotient
        if extents:
            indices.insert(0, number)

        def moved(pointer: Val | None, strides: list[ValLike], element: Type) -> Val | None:
            if pointer is None:
                return None
            offset = const(I64, 0)
            for index, stride in zip(indices, strides):
                offset = f.add(offset, f.mul(index, f.i64(stride)))
            return f.gep(pointer, offset, element)

        a = spec.a.pointer if isinstance(spec.a, Strided) else None
        b, prepacked = spec.b.pointer if not isinstance(spec.b, Packed) else None, isinstance(spec.b, Prepacked)
        c = spec.c.pointer if spec.c is not None else None
        return BatchOperands(
            Tile(tuple(indices)),
            moved(a, [batch.a for batch in spec.batch], ctx.source_types[0]),
            moved(b, [batch.b for batch in spec.batch], ctx.b_type if prepacked else ctx.source_types[1]),
            moved(c, [batch.c for batch in spec.batch], spec.element),
        )

    @contextmanager
    def _blocks(self, of: _BlocksOfRows, ops: BatchOperands, dot: Val | None = None) -> Iterator[Block]:
        """Code for each block of rows, which are read in place or packed before it."""
        f, rows = self.f, of.rows
        with f.for_range(0, rows.tiles, of.tiles, at_least_once=True) as blocks:
            end = f.smin(f.add(blocks.index, of.tiles), rows.tiles)
            yield block_of_a(self.context, ops, rows, blocks.index, end, dot)

    def _batch(self, ops: BatchOperands, rows: _BlocksOfRows | Block, n0: Val, n1: Val, step: Val) -> None:
        """Multiplies all columns by all blocks of rows, or by one that is packed already."""
        f = self.f
        for operand in (self.spec.a, self.spec.b):
            if isinstance(operand, Packed) and operand.prepare is not None:
                operand.prepare(f, ops.tile)
        with f.for_range(n0, n1, step, at_least_once=True) as columns:
            panels = panels_of_b(self.context, ops, columns.index, f.smin(f.add(columns.index, step), n1))
            with nullcontext(rows) if isinstance(rows, Block) else self._blocks(rows, ops, panels.dot) as block:
                self._sweep(ops, panels, block)
                if self.spec.rows_done is not None:
                    with f.if_(f.compare("ge", panels.end, n1)):
                        self.spec.rows_done(f, ops.tile, block.row, block.count)

    def _sweep(self, ops: BatchOperands, panels: Panels, block: Block) -> None:
        """Multiplies all panels by all tiles of a block; a few panels are the outer loop, so that they stay in cache."""
        f, tiles = self.f, self.tiles
        of = ProductSizes(tiles, self.context.b_type, self.context.all_rows(), self.context.n, self.context.k)
        wide = wide_columns(f, tiles, block.count)
        if self.matrix is not None:
            of = replace(of, tallest=f.i64(self.context.tallest()))
            wide = self.matrix.choose(f, tiles.columns, wide)
        once = pays(f, of, block) if self.spec.widens_b(f.target) else None
        share = share_of_next(f, tiles, self.context.b_type, panels, block, once)
        body, after = f.new_block(), f.new_block()
        before = f.block
        f.jump(body)
        f.start(body)
        column = Val(f.fresh(), I64)
        self.poll(None if self.matrix is None else self.matrix.configuration.paused(f))
        left = f.sub(panels.end, column)
        kind, count = choose(f, of, panels, left, wide)
        taken = stretch(f, of, block, left, count)
        following = f.add(column, taken)
        iteration = self._iteration(panels, block, column, taken, (kind, count, share), once)
        with (
            f.for_range(block.first, block.end, at_least_once=True) as loop,
            f.for_range(column, following, count, at_least_once=True) as inner,
        ):
            self._tile(ops, panels, block, of, iteration, loop.index, inner.index)
        f.set_phi(column, [(panels.first, before), (following, f.block)], body)
        f.branch(f.compare("lt", following, panels.end), body, after)
        f.start(after)

    def _iteration(
        self, panels: Panels, block: Block, first: Val, taken: Val, chosen: tuple[Val, Val, Val], once: Val | None
    ) -> BlockIteration:
        f, tiles = self.f, self.tiles
        base = f.gep(panels.base, f.mul(f.sub(first, panels.first), panels.column_step), self.context.b_type)
        kernels, start, size = self.context.table, base, const(I64, self.context.b_type.bytes)
        if self.matrix is not None:
            kernels = self.matrix.kernels(f, kernels)
        if once is not None:
            kernels = f.select(once, f.module.declare_table(table_name(tiles.element)), kernels)
            start, size = (
                f.select(once, self.context.b_scratch, start),
                f.select(once, const(I64, tiles.element.bytes), size),
            )
        following = f.gep(base, f.mul(taken, panels.column_step), self.context.b_type)
        kind, count, share = chosen
        return BlockIteration(
            kind=kind,
            count=count,
            share=share,
            first=first,
            kernels=kernels,
            b=start,
            size=size,
            following=following,
            stored=base,
            once=once,
        )

    def _tile(
        self,
        ops: BatchOperands,
        panels: Panels,
        block: Block,
        of: ProductSizes,
        iteration: BlockIteration,
        index: Val,
        column: Val,
    ) -> None:
        f, spec, element, count = self.f, self.spec, self.spec.element, iteration.count
        row = block.rows.start(f, index)
        height = f.sub(block.rows.start(f, f.add(index, 1)), row)
        a = f.gep(block.a, f.mul(f.sub(row, block.row), block.tile_step), element)
        a_step = height
        if block.in_place is not None:
            a_step = f.select(block.in_place, block.k_step, height)
        offset = f.mul(f.sub(column, iteration.first), panels.column_step)
        b = f.gep(iteration.b, f.mul(offset, iteration.size), I8)
        b_panel = f.mul(panels.column_step, self.tiles.columns)
        whole = None
        if not self.context.direct:
            assert self.context.temporary is not None
            c, c_step = self.context.temporary, f.smax(count, self.tiles.columns)
        else:
            assert spec.c is not None
            assert ops.c is not None
            c_step = f.i64(spec.c.row)
            c = f.gep(ops.c, f.add(f.mul(row, c_step), column), element)
            if self.matrix is not None:
                assert self.context.temporary is not None
                whole = self.matrix.is_whole(f, height, count)
                c, c_step = f.select(whole, c, self.context.temporary), f.select(whole, c_step, self.tiles.columns)
        following = f.gep(iteration.following, offset, self.context.b_type)
        soon = prefetch_start(f, self.tiles, block, iteration, index, b, following, self.context.k)
        step = f.mul(height, element.bytes)
        soon, share = prefetch_of_rows(
            f, panels, block, iteration, spec.streams_a, a, step, self.context.k, (soon, iteration.share)
        )
        table, b, soon = called(f, of, block, iteration, index, offset, b, soon)
        kernel = f.load(table, PTR, f.add(iteration.kind, height))
        steps = (
            self.context.k if self.matrix is None else self.matrix.choose(f, self.context.panel_steps, self.context.k)
        )
        if spec.words is not None and panels.dot is not None:
            in_place = panels.dot if panels.strip is None else f.or_(panels.dot, panels.strip)
            steps = f.select(in_place, self.context.depth, steps)
        args = [steps, a, block.row_step, a_step, b, panels.step, b_panel, c, c_step, count, soon, share]
        f.call_pointer(kernel, VOID, args)
        if self.context.temporary is None:
            return
        of_tile = TileSums(
            address=self.context.temporary, step=c_step, row=row, height=height, column=column, count=count
        )
        if whole is None:
            epilogue = spec.epilogue or strided_store(spec, self.tiles.lanes, ops.c)
            finish(f, spec, self.tiles.lanes, epilogue, ops.tile, of_tile)
        else:
            with f.if_(f.not_(whole)):
                finish(f, spec, self.tiles.lanes, adjacent_store(spec, ops.c), ops.tile, of_tile)
