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

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from ..llvm.builder import FunctionBuilder
from ..llvm.matrix_tiles import ROWS
from ..llvm.polling import Pause
from ..llvm.types import I1, I8, I64, PTR, VOID, Type, Val, ValLike, const
from .blocks import (
    BatchOperands,
    Block,
    BlockIteration,
    BlockRows,
    Panels,
    prefetch_of_rows,
    prefetch_start,
    share_of_next,
    suits_in_place,
)
from .epilogues import TileSums, adjacent_store, finish, strided_store
from .kernel_arguments import widened
from .kinds import ProductSizes, choose, stretch, wide_columns
from .matrix_tiles import TALLEST, clear_steps
from .microkernels import table_name
from .packing import PACK_ARGUMENTS, pack_name
from .panels import ColumnPacker, fits_dot, pack_strided, words_in_place
from .spec import ContractionSpec, Gathered, Packed, Prepacked, Strided, TapRows, Tile
from .tap_rows import emit_tap_rows
from .tiled_rows import RowPacking, matrix_use
from .tiles import ALIGN, Tiles, tiles_for
from .widening import called, pays
from .words import OperandWords

NEAR_TILES = 4
"""Tiles of gathered rows that are written and read at a time where all of B is near: they stay in L1, or close to it."""
UNEVEN = 16
"""Batches are uneven where the largest share of them is more than a part of so many larger than it would be."""
READING = 4
"""Reading a row of A costs a part as much as so many of its products: where columns are shared out, every part reads all rows."""


Poll = Callable[[Pause | None], None]
"""Emits a poll. `Pause`: what to do around code of others that it may call."""


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
    tiles = tiles_for(f.target, spec.element)
    if isinstance(spec.a, TapRows):
        emit_tap_rows(f, spec, spec.a, scratch, (f.i64(part), f.i64(nparts)), lambda: poll(None))
        return
    for name in dict.fromkeys(packers_of(spec)):
        f.module.declare(name, VOID, [type_ for _, type_ in PACK_ARGUMENTS])
    _Driver(f, spec, tiles, scratch, poll).emit(f.i64(part), f.i64(nparts))


def packers_of(spec: ContractionSpec) -> tuple[str, str]:
    """The packers of A and B."""
    if spec.words is not None:
        return spec.words.packers
    return pack_name(spec.a_stored or spec.element, spec.element), pack_name(spec.b_stored or spec.element)


class _Driver:
    def __init__(self, f: FunctionBuilder, spec: ContractionSpec, tiles: Tiles, scratch: Val, poll: Poll) -> None:
        self.f, self.poll = f, poll
        self.spec = spec
        self.tiles = tiles
        self.m, self.n, self.depth = f.i64(spec.m), f.i64(spec.n), f.i64(spec.k)
        self.k = self.depth if spec.words is None else f.ceil_div(self.depth, spec.words.per(f.target))
        """Steps of the micro-kernels."""
        self.matrix = matrix_use(f, spec, tiles, self.k, self._all_rows())
        self.panel_steps = self.k if self.matrix is None else self.matrix.steps
        """Steps that packed panels have."""
        self.a_type, self.b_type = spec.a_stored or spec.element, spec.b_stored or spec.element
        self.row = self._row()
        """Elements between rows of A in scratch."""
        table = table_name(spec.element, self.b_type) if spec.words is None else spec.words.table
        self.table = f.module.declare_table(table)
        self.a_packer, self.b_packer = packers_of(spec)
        self.source_types = (self.a_type, self.b_type) if spec.words is None else (spec.words.source,) * 2
        """Elements of operands in memory that are not packed yet."""
        self.a_scratch = self._aligned(scratch)
        self.b_scratch = self._aligned(f.gep(self.a_scratch, self._a_elements(), spec.element))
        self.strip = None
        if self.matrix is not None:
            self.strip = self._aligned(f.gep(self.b_scratch, self._b_elements(), spec.element))
        self.direct = spec.c is not None and spec.c.column == 1
        self.temporary = None if self.direct and self.matrix is None else f.alloca(spec.element, tiles.temporary)
        """Memory of the sums of a tile: of those of matrix tiles that are not whole, if others go where they belong."""

    # sizes

    def _row(self) -> Val:
        f, line = self.f, self.tiles.line // self.tiles.element.bytes
        if not isinstance(self.spec.a, Gathered):
            return self.k if self.matrix is None else self.matrix.choose(f, self.matrix.pitch, self.k)
        return f.add(f.mul(f.binary("udiv", f.add(self.k, 2 * line - 1), const(I64, 2 * line)), 2 * line), line)

    def _aligned(self, address: Val) -> Val:
        f = self.f
        number = f.convert("ptrtoint", address, I64)
        rounded = f.binary("and", f.add(number, ALIGN - 1), const(I64, -ALIGN))
        return f.convert("inttoptr", rounded, PTR)

    def _a_elements(self) -> Val:
        f, tiles = self.f, self.tiles
        m, row, rows = self.m, self.row, tiles.rows
        if self.matrix is not None:  # as `scratch_bytes` has it, whichever way it is
            m, row, rows = f.add(m, ROWS - 1), self.matrix.pitch, tiles.tallest
        block = f.smax(f.mul(row, rows), tiles.a_block)
        return f.add(f.smin(f.mul(m, row), block), tiles.slack)

    def _b_elements(self) -> ValLike:
        f, tiles = self.f, self.tiles
        if not self.spec.packs_b:
            return 0
        columns = f.add(self.n, tiles.columns - 1)
        block = f.smax(f.mul(self.panel_steps, tiles.columns), self._b_block)
        return f.add(f.smin(f.mul(columns, self.panel_steps), block), tiles.slack)

    @property
    def _b_block(self) -> int:
        """Elements of B that are packed at once."""
        return self.tiles.computed_block if isinstance(self.spec.b, Packed) else self.tiles.b_block

    def _per_k(self, elements: int, unit: ValLike, row: Val | None = None) -> Val:
        """How many rows (columns) of length k fit `elements`, in whole units, at least one."""
        f = self.f
        length = self.panel_steps if row is None else row
        fitting = f.binary("udiv", const(I64, elements), f.mul(f.smax(length, 1), unit))
        return f.smax(fitting, 1)

    def _all_rows(self) -> Val:
        """Rows of the product that this is a part of."""
        return self.m if self.spec.all_rows is None else self.f.i64(self.spec.all_rows)

    # parts

    def emit(self, part: Val, nparts: Val) -> None:
        f = self.f
        extents = [f.i64(batch.extent) for batch in self.spec.batch]
        count = const(I64, 1)
        for extent in extents:
            count = f.mul(count, extent)
        b0, b1, m0, m1, n0, n1 = self._ranges(count, part, nparts)
        work = f.and_(f.compare("lt", m0, m1), f.compare("lt", n0, n1))
        with f.if_(work):
            rows = self._split_rows(m0, m1)
            # blocks of one size: a last one of few rows would read all of B for them
            most = self._per_k(self.tiles.a_block, self._tallest(), self.row)
            if isinstance(self.spec.a, Gathered):
                is_near = f.compare("le", f.mul(self.n, self.k), self.tiles.a_block)
                most = f.select(is_near, f.smin(most, NEAR_TILES), most)
            blocks = f.binary("udiv", f.add(rows.tiles, f.sub(most, 1)), most)
            block_tiles = f.binary("udiv", f.add(rows.tiles, f.sub(blocks, 1)), blocks)
            step = f.mul(self._per_k(self._b_block, self.tiles.columns), self.tiles.columns)
            with (
                nullcontext() if self.matrix is None else self.matrix.configured(f),
                f.for_range(b0, b1) as loop,
            ):
                self._batch(self._operands(loop.index, extents), rows, block_tiles, n0, n1, step)

    def _ranges(self, count: Val, part: Val, nparts: Val) -> tuple[Val, Val, Val, Val, Val, Val]:
        """The share of this part: some batches, or else some rows, or else some panels of columns."""
        f, zero = self.f, const(I64, 0)
        if nparts.number == 1:
            return zero, count, zero, self.m, zero, self.n

        def share(total: Val) -> tuple[Val, Val]:
            low = f.binary("udiv", f.mul(total, part), nparts)
            return low, f.binary("udiv", f.mul(total, f.add(part, 1)), nparts)

        by_batch = self._by_batch(count, nparts)
        by_rows = f.and_(f.not_(by_batch), self._is_tall(nparts))
        by_columns = f.not_(f.or_(by_batch, by_rows))
        batches, heights = share(count), self._shares_of_rows(share)
        panels = share(f.ceil_div(self.n, self.tiles.columns))
        columns = [f.smin(f.mul(panel, self.tiles.columns), self.n) for panel in panels]
        return (
            f.select(by_batch, batches[0], zero),
            f.select(by_batch, batches[1], count),
            f.select(by_rows, heights[0], zero),
            f.select(by_rows, heights[1], self.m),
            f.select(by_columns, columns[0], zero),
            f.select(by_columns, columns[1], self.n),
        )

    def _by_batch(self, count: Val, nparts: Val) -> Val:
        """Whether batches are shared out: where there are enough of them; of few that are not even, and read the panels of a constant, not
        where there are rows enough for each part."""
        f, spec = self.f, self.spec
        enough = f.compare("ge", count, nparts)
        if not spec.batch or not isinstance(spec.b, Prepacked) or not isinstance(spec.a, Strided):
            return enough
        most = f.binary("udiv", f.sub(f.add(count, nparts), 1), nparts)
        even = f.compare("le", f.mul(f.mul(most, nparts), UNEVEN), f.mul(count, UNEVEN + 1))
        return f.and_(enough, f.or_(even, f.compare("lt", self.m, f.mul(nparts, self.tiles.rows))))

    def _shares_of_rows(self, share: Callable[[Val], tuple[Val, Val]]) -> tuple[Val, Val]:
        """The first row of a part and that of the next one: where matrix tiles multiply, whole tiles of rows but the last."""
        f, matrix = self.f, self.matrix
        if matrix is None:
            return share(self.m)
        unit = matrix.choose(f, ROWS, 1)
        low, high = share(f.binary("udiv", f.sub(f.add(self.m, unit), 1), unit))
        return f.smin(f.mul(low, unit), self.m), f.smin(f.mul(high, unit), self.m)

    def _tallest(self) -> ValLike:
        """Rows of a tile at most."""
        return self.tiles.rows if self.matrix is None else self.matrix.choose(self.f, TALLEST, self.tiles.rows)

    def _is_tall(self, nparts: Val) -> Val:
        """Whether rows are shared out: where there are enough for each part, and, unless every part had to compute A, where that is no less
        even than columns. A B that is computed, or widened for several tiles, would be so by every part."""
        f, tiles = self.f, self.tiles
        if self.spec.rows_done:
            return const(I1, 1)
        enough = f.compare("ge", self.m, f.mul(nparts, tiles.rows))
        if isinstance(self.spec.a, Strided):
            enough = f.and_(enough, self._is_even(nparts))
        if isinstance(self.spec.b, Packed) or self.spec.widens_b(f.target):
            enough = f.and_(enough, f.compare("lt", self.n, f.mul(nparts, tiles.columns)))
        return f.or_(enough, f.compare("ge", self.m, self.n))

    def _is_even(self, nparts: Val) -> Val:
        """Whether sharing out rows is as even as sharing out columns: 17 of 33 rows are 3 % more than half."""
        f, width = self.f, self.tiles.columns

        def most(count: Val) -> Val:
            return f.binary("udiv", f.sub(f.add(count, nparts), 1), nparts)

        of_columns = f.mul(self.m, f.add(f.mul(most(f.ceil_div(self.n, width)), width), READING))
        return f.compare("le", f.mul(most(self.m), self.n), of_columns)

    def _split_rows(self, m0: Val, m1: Val) -> BlockRows:
        f = self.f
        total = f.sub(m1, m0)
        count = f.ceil_div(total, self.tiles.rows)
        height = f.binary("udiv", total, count)
        rows = BlockRows(m0, count, height, f.sub(total, f.mul(count, height)))
        return rows if self.matrix is None else self.matrix.split(f, total, rows)

    # batches

    def _operands(self, number: Val, extents: list[Val]) -> BatchOperands:
        f, spec = self.f, self.spec
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
            moved(a, [batch.a for batch in spec.batch], self.source_types[0]),
            moved(b, [batch.b for batch in spec.batch], self.b_type if prepacked else self.source_types[1]),
            moved(c, [batch.c for batch in spec.batch], spec.element),
        )

    def _batch(self, ops: BatchOperands, rows: BlockRows, block_tiles: Val, n0: Val, n1: Val, step: Val) -> None:
        f = self.f
        for operand in (self.spec.a, self.spec.b):
            if isinstance(operand, Packed) and operand.prepare is not None:
                operand.prepare(f, ops.tile)
        if not self.spec.packs_b:
            step = f.smax(f.sub(n1, n0), 1)
        with f.for_range(n0, n1, step, at_least_once=True) as columns:
            panels = self._panels(ops, columns.index, f.smin(f.add(columns.index, step), n1))
            with f.for_range(0, rows.tiles, block_tiles, at_least_once=True) as blocks:
                end = f.smin(f.add(blocks.index, block_tiles), rows.tiles)
                block = self._block(ops, rows, blocks.index, end, panels)
                self._sweep(ops, panels, block)
                if self.spec.rows_done is not None:
                    with f.if_(f.compare("ge", panels.end, n1)):
                        self.spec.rows_done(f, ops.tile, block.row, block.count)

    # operands of the kernels

    @property
    def _reads_a(self) -> bool:
        """Whether A may be read in place."""
        return self.spec.words is None or self.spec.words.reads_a(self.f.target)

    def _panels(self, ops: BatchOperands, first: Val, end: Val) -> Panels:
        f, spec, width = self.f, self.spec, const(I64, self.tiles.columns)
        if isinstance(spec.b, Prepacked):
            assert ops.b is not None
            base = f.gep(ops.b, f.mul(first, self.panel_steps), self.b_type)
            return Panels(base, first, end, width, self.panel_steps)
        packed = Panels(self.b_scratch, first, end, width, self.panel_steps)
        if isinstance(spec.b, Packed):
            self._pack_panels(ops, packed)
            return packed
        assert ops.b is not None
        if spec.words is not None:
            return self._panels_of_words(ops, spec.words, packed)
        one = const(I64, 1)
        in_place = Panels(
            f.gep(ops.b, first, self.b_type), first, end, f.i64(spec.b.outer), one, dot=None, in_place=const(I1, 1)
        )
        if spec.b.inner == 1:
            return in_place
        inner = f.i64(spec.b.inner)
        unit = f.compare("eq", inner, one)
        dot = const(I1, 0)
        if isinstance(spec.a, Strided):
            dot = fits_dot(f, self.tiles, f.i64(spec.a.inner), spec.b, self._all_rows())
        if spec.b.panels is not None:
            start = f.gep(spec.b.panels, f.mul(first, self.k), self.b_type)
            packed = Panels(start, first, end, width, self.k)
        else:
            with f.if_(f.not_(f.or_(unit, dot))):
                self._pack_panels(ops, packed)
        column = f.gep(ops.b, f.mul(first, inner), self.b_type)
        return Panels(
            f.select(dot, column, f.select(unit, in_place.base, packed.base)),
            first,
            end,
            f.select(dot, inner, f.select(unit, in_place.step, packed.step)),
            f.select(dot, inner, f.select(unit, one, self.k)),
            dot=dot,
            in_place=unit,
        )

    def _panels_of_words(self, ops: BatchOperands, words: OperandWords, packed: Panels) -> Panels:
        """B packed as words, or in place where few rows are multiplied."""
        f, spec = self.f, self.spec
        first, panels = packed.first, spec.b.panels if isinstance(spec.b, Strided) else None
        if panels is not None:
            packed = replace(packed, base=f.gep(panels, f.mul(first, self.panel_steps), self.b_type))
        if not words.reads_b or not isinstance(spec.a, Strided) or not isinstance(spec.b, Strided):
            if panels is None:
                self._pack_panels(ops, packed)
            return packed
        assert ops.b is not None
        inner, outer = f.i64(spec.b.inner), f.i64(spec.b.outer)
        in_place = words_in_place(f, self.tiles, words, f.i64(spec.a.inner), spec.b, self._all_rows())
        dot, strip = in_place.dot, in_place.strip
        either = f.or_(dot, strip)
        if panels is None:
            with f.if_(f.not_(either)):
                self._pack_panels(ops, packed)
        return Panels(
            f.select(either, f.gep(ops.b, f.mul(first, inner), self.b_type), packed.base),
            first,
            packed.end,
            f.select(dot, inner, f.select(strip, outer, packed.step)),
            f.select(either, inner, self.panel_steps),
            dot=dot,
            strip=strip,
        )

    def _pack_panels(self, ops: BatchOperands, panels: Panels) -> None:
        f, b, tiles = self.f, self.spec.b, self.tiles
        if isinstance(b, Strided):
            assert ops.b is not None
            packer = ColumnPacker(self.b_packer, self.source_types[1], self.k, self.panel_steps)
            pack_strided(f, tiles, ops.b, b, self.depth, panels.first, panels.end, panels.base, self.b_type, packer)
        elif isinstance(b, Packed):
            with f.for_range(panels.first, panels.end, tiles.columns) as loop:
                count = f.smin(f.sub(panels.end, loop.index), tiles.columns)
                to = f.gep(panels.base, f.mul(f.sub(loop.index, panels.first), self.panel_steps), tiles.element)
                b.emit(f, ops.tile, loop.index, count, const(I64, tiles.columns), to)
                if self.matrix is not None:
                    clear_steps(f, to, tiles.columns, self.k, self.panel_steps)

    def _block(self, ops: BatchOperands, rows: BlockRows, first: Val, end: Val, panels: Panels) -> Block:
        f, spec = self.f, self.spec
        row = rows.start(f, first)
        count = f.sub(rows.start(f, end), row)
        packed = Block(
            rows=rows,
            first=first,
            end=end,
            row=row,
            count=count,
            a=self.a_scratch,
            tile_step=self.k,
            row_step=const(I64, 1),
            k_step=const(I64, 0),
            in_place=None,
        )
        if self.matrix is not None:
            packed = replace(packed, tile_step=self.row, row_step=self.matrix.choose(f, self.row, 1))
        if isinstance(spec.a, Gathered):
            spec.a.emit(f, ops.tile, row, count, self.row, self.a_scratch)
            if self.matrix is not None:
                self._row_packing().ended(f, count)
            step, one = self.row, const(I64, 1)
            return replace(packed, tile_step=step, row_step=step, k_step=one, in_place=const(I1, 1))
        if isinstance(spec.a, Strided) and self.a_type != spec.element and panels.dot is not None:
            with f.if_else(panels.dot) as few:
                with few.then():
                    self._widen_rows(ops, row, count)
                with few.otherwise():
                    self._pack_rows(ops, rows, first, end, row)
            row_step = f.select(panels.dot, self.k, packed.row_step)
            return replace(packed, row_step=row_step, k_step=const(I64, 1), in_place=panels.dot)
        reads = self._reads_a or panels.dot is not None
        if isinstance(spec.a, Packed) or self.a_type != spec.element or not reads:
            self._pack_rows(ops, rows, first, end, row)
            return packed
        assert ops.a is not None and isinstance(spec.a, Strided)
        outer, inner = f.i64(spec.a.outer), f.i64(spec.a.inner)
        are_words = None
        if spec.words is not None and self._reads_a:
            are_words = f.and_(f.compare("eq", f.and_(f.or_(self.depth, outer), 3), 0), f.compare("eq", inner, 1))
            outer = f.lshr(outer, 2)
        in_place = f.or_(f.compare("eq", count, 1), suits_in_place(f, self.tiles, self.n, outer, inner))
        if are_words is not None:
            in_place = f.and_(in_place, are_words)
        if self.matrix is not None:  # which reads whole tiles
            in_place = f.and_(in_place, self.matrix.is_whole(f, count, f.lshr(self.depth, 2)))
        if panels.dot is not None:
            in_place = f.or_(in_place, panels.dot) if self._reads_a else panels.dot
        with f.if_(f.not_(in_place)):
            self._pack_rows(ops, rows, first, end, row)
        start = f.select(in_place, f.gep(ops.a, f.mul(row, outer), spec.element), packed.a)
        tile_step, row_step = f.select(in_place, outer, packed.tile_step), f.select(in_place, outer, packed.row_step)
        return Block(
            rows=rows,
            first=first,
            end=end,
            row=row,
            count=count,
            a=start,
            tile_step=tile_step,
            row_step=row_step,
            k_step=inner,
            in_place=in_place,
        )

    def _widen_rows(self, ops: BatchOperands, row: Val, count: Val) -> None:
        """Copies rows that are contiguous along k, widened, one behind the other."""
        f, spec, lanes = self.f, self.spec, self.tiles.lanes
        assert ops.a is not None and isinstance(spec.a, Strided)
        start = f.gep(ops.a, f.mul(row, f.i64(spec.a.outer)), self.a_type)
        whole = f.binary("and", self.k, const(I64, -lanes))
        narrow, wide = self.a_type.vector(lanes), spec.element.vector(lanes)
        with f.for_range(0, count, carried=[start, self.a_scratch]) as loop:
            source, to = loop.carried
            with f.for_range(0, whole, lanes) as steps:
                f.store(widened(f, f.load(source, narrow, steps.index), wide), to, steps.index)
            with f.if_(f.compare("lt", whole, self.k)):
                mask = f.tail_mask(f.sub(self.k, whole), lanes)
                f.masked_store(widened(f, f.masked_load(source, narrow, mask, whole), wide), to, mask, whole)
            loop.next(f.gep(source, f.i64(spec.a.outer), self.a_type), f.gep(to, self.k, spec.element))

    def _row_packing(self) -> RowPacking:
        assert self.matrix is not None
        assert self.strip is not None
        return RowPacking(self.matrix, self.strip, self.a_scratch)

    def _pack_rows(self, ops: BatchOperands, rows: BlockRows, first: Val, end: Val, row: Val) -> None:
        """Packs the rows of some tiles."""
        f, spec = self.f, self.spec
        if self.matrix is None:
            self._pack_tiles(ops, rows, first, end, row)
        elif not isinstance(spec.a, Strided):
            self._pack_strips(ops, rows, first, end, row)
        else:
            assert ops.a is not None
            outer, inner = f.i64(spec.a.outer), f.i64(spec.a.inner)
            with f.if_else(f.and_(self.matrix.holds, f.compare("eq", inner, 1))) as lies_in_rows:
                with lies_in_rows.then():
                    source = f.gep(ops.a, f.mul(row, outer), self.source_types[0])
                    count = f.sub(rows.start(f, end), row)
                    self._row_packing().along_k(f, source, outer, count, self.depth)
                with lies_in_rows.otherwise():
                    self._pack_strips(ops, rows, first, end, row)

    def _pack_strips(self, ops: BatchOperands, rows: BlockRows, first: Val, end: Val, row: Val) -> None:
        """Packs rows step by step: for vectors, tile by tile, for matrix tiles, 16 at a time, which become rows."""
        f, matrix, packing = self.f, self.matrix, self._row_packing()
        assert matrix is not None
        stop = rows.start(f, end)
        count = matrix.choose(f, f.ceil_div(f.sub(stop, row), ROWS), f.sub(end, first))
        with f.for_range(0, count, at_least_once=True) as loop:
            tile = f.add(first, loop.index)
            at = f.mul(loop.index, ROWS)
            start = matrix.choose(f, f.add(row, at), rows.start(f, tile))
            following = matrix.choose(f, f.smin(f.add(f.add(row, at), ROWS), stop), rows.start(f, f.add(tile, 1)))
            height = f.sub(following, start)
            to = f.gep(self.a_scratch, f.mul(f.sub(start, row), self.k), self.spec.element)
            width = matrix.choose(f, ROWS, height)
            self._pack_strip(ops, start, height, width, f.select(matrix.holds, packing.strip, to))
            with f.if_(matrix.holds):
                packing.transposed(f, at)

    def _pack_tiles(self, ops: BatchOperands, rows: BlockRows, first: Val, end: Val, row: Val) -> None:
        f, spec = self.f, self.spec
        with f.for_range(first, end, at_least_once=True) as loop:
            start = rows.start(f, loop.index)
            height = f.sub(rows.start(f, f.add(loop.index, 1)), start)
            to = f.gep(self.a_scratch, f.mul(f.sub(start, row), self.k), spec.element)
            self._pack_strip(ops, start, height, height, to)

    def _pack_strip(self, ops: BatchOperands, start: Val, height: Val, width: Val, to: Val) -> None:
        """Packs so many rows from `start` on step by step, `width` words a step."""
        f, spec = self.f, self.spec
        if isinstance(spec.a, Packed):
            spec.a.emit(f, ops.tile, start, height, width, to)
        elif isinstance(spec.a, Strided):
            assert ops.a is not None
            outer, inner = f.i64(spec.a.outer), f.i64(spec.a.inner)
            source = f.gep(ops.a, f.mul(start, outer), self.source_types[0])
            f.call(self.a_packer, VOID, [source, outer, inner, height, width, self.depth, to])

    # tiles

    def _sweep(self, ops: BatchOperands, panels: Panels, block: Block) -> None:
        """Multiplies all panels by all tiles of a block; a few panels are the outer loop, so that they stay in cache."""
        f, tiles = self.f, self.tiles
        of = ProductSizes(tiles, self.b_type, self._all_rows(), self.n, self.k)
        wide = wide_columns(f, tiles, block.count)
        if self.matrix is not None:
            of = replace(of, tallest=f.i64(self._tallest()))
            wide = self.matrix.choose(f, tiles.columns, wide)
        once = pays(f, of, block) if self.spec.widens_b(f.target) else None
        share = share_of_next(f, tiles, self.b_type, panels, block, once)
        body, after = f.new_block(), f.new_block()
        before = f.block
        f.jump(body)
        f.start(body)
        column = Val(f.fresh(), I64)
        self.poll(None if self.matrix is None else self.matrix.paused(f))
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
        base = f.gep(panels.base, f.mul(f.sub(first, panels.first), panels.column_step), self.b_type)
        kernels, start, size = self.table, base, const(I64, self.b_type.bytes)
        if self.matrix is not None:
            kernels = self.matrix.kernels(f, kernels)
        if once is not None:
            kernels = f.select(once, f.module.declare_table(table_name(tiles.element)), kernels)
            start, size = f.select(once, self.b_scratch, start), f.select(once, const(I64, tiles.element.bytes), size)
        following = f.gep(base, f.mul(taken, panels.column_step), self.b_type)
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
        if not self.direct:
            assert self.temporary is not None
            c, c_step = self.temporary, f.smax(count, self.tiles.columns)
        else:
            assert spec.c is not None
            assert ops.c is not None
            c_step = f.i64(spec.c.row)
            c = f.gep(ops.c, f.add(f.mul(row, c_step), column), element)
            if self.matrix is not None:
                assert self.temporary is not None
                whole = self.matrix.is_whole(f, height, count)
                c, c_step = f.select(whole, c, self.temporary), f.select(whole, c_step, self.tiles.columns)
        following = f.gep(iteration.following, offset, self.b_type)
        soon = prefetch_start(f, self.tiles, block, iteration, index, b, following, self.k)
        step = f.mul(height, element.bytes)
        soon, share = prefetch_of_rows(f, panels, block, a, step, self.k, (soon, iteration.share))
        table, b, soon = called(f, of, block, iteration, index, offset, b, soon)
        kernel = f.load(table, PTR, f.add(iteration.kind, height))
        steps = self.k if self.matrix is None else self.matrix.choose(f, self.panel_steps, self.k)
        if spec.words is not None and panels.dot is not None:
            in_place = panels.dot if panels.strip is None else f.or_(panels.dot, panels.strip)
            steps = f.select(in_place, self.depth, steps)
        args = [steps, a, block.row_step, a_step, b, panels.step, b_panel, c, c_step, count, soon, share]
        f.call_pointer(kernel, VOID, args)
        if self.temporary is None:
            return
        of_tile = TileSums(address=self.temporary, step=c_step, row=row, height=height, column=column, count=count)
        if whole is None:
            epilogue = spec.epilogue or strided_store(spec, self.tiles.lanes, ops.c)
            finish(f, spec, self.tiles.lanes, epilogue, ops.tile, of_tile)
        else:
            with f.if_(f.not_(whole)):
                finish(f, spec, self.tiles.lanes, adjacent_store(spec, ops.c), ops.tile, of_tile)
