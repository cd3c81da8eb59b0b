"""The epilogue of a product: the stores, whose values are computed of the sums while these are in registers.

What depends on columns only is emitted once per vector of columns, the rest per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from anyshape.dims import Size
from anyshape.lower import gemm
from anyshape.lower.emit.products.product_operands import bind_row, in_batch
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.quantisation import store_bytes
from anyshape.lower.emit.values.vector import Vector
from anyshape.lower.ir.dag import DagNode, Load, LoopIndex, LoopVar
from anyshape.lower.ir.stores import below
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.products import Product, WindowRows


class ProductEpilogue:
    """Emits the stores of a product for the rows and columns that the template has sums of."""

    def __init__(self, ctx: KernelContext, p: Product, lanes: int) -> None:
        self.ctx, self.p, self.lanes = ctx, p, lanes
        self.segment: tuple[Val, Val] | None = None
        """The row of results and the vector's start in it, inside of `segments`."""
        self.open = ExitStack()
        """Contexts that `columns` and `row_segments` enter and `row` leaves."""
        self.line = const(I64, 0)
        """The row that a line of results begins with, inside of `row_segments`."""
        self.rows_are_one = _walk_as_one(p, p.rows, [(v.extent,) for v in p.rows[1:]])

    def segments(
        self, f: FunctionBuilder, tile: gemm.Tile, column: Val, mask: Val | None, emit: Callable[[Val | None], None]
    ) -> None:
        """Emits code for the rows of results that a vector of columns overlaps: a loop over them, or the whole vector where columns are
        results alone and all that is stored and read walks these as one."""
        assert self.p.windows is not None
        across, along = self.p.windows.staged.moving
        pitch, width = (self.ctx.sizes.of(n) for n in (self.p.windows.staged.result_pitches[0], along.position.extent))
        counts = (along.position.extent, self.p.windows.staged.result_pitches[0])
        if not _walk_as_one(self.p, (across.position, along.position), [counts]):
            self.rows_of(f, column, mask, emit, pitch)
            return
        with f.if_else(f.compare("eq", pitch, width)) as counts_results:
            with counts_results.then():
                row = f.binary("udiv", column, width)
                self.segment = row, f.sub(column, f.mul(row, width))
                emit(mask)
            with counts_results.otherwise():
                self.rows_of(f, column, mask, emit, pitch)

    def rows_of(
        self, f: FunctionBuilder, column: Val, mask: Val | None, emit: Callable[[Val | None], None], pitch: Val
    ) -> None:
        """Loops over the rows of results, `pitch` columns apart, that a vector of columns overlaps."""
        ctx, p, lanes = self.ctx, self.p, self.lanes
        assert p.windows is not None
        across, along = p.windows.staged.moving
        width = ctx.sizes.of(along.position.extent)
        first = f.binary("udiv", column, pitch)
        last = f.binary("udiv", f.add(column, lanes - 1), pitch)
        end = f.smin(f.add(last, 1), ctx.sizes.of(across.position.extent))
        with f.for_range(first, end) as loop:
            begin = f.sub(column, f.mul(loop.index, pitch))
            places = f.add(f.iota(I64, lanes), begin)
            exists = f.compare("lt", places, width, unsigned=True)
            self.segment = loop.index, begin
            emit(exists if mask is None else f.and_(exists, mask))

    @property
    def lines(self) -> tuple[Size, Size] | None:
        """Rows from one line of results to the next, and rows of a line that are results; None where all rows are one line."""
        p = self.p
        if isinstance(p.a, WindowRows) and len(p.a.windows.staged.moving) > 1:
            return p.a.windows.staged.result_pitches[0], p.rows[-1].extent
        return None if self.rows_are_one or len(p.rows) == 1 else (p.rows[-1].extent, p.rows[-1].extent)

    def row_segments(self, f: FunctionBuilder, row: Val, count: Val, emit: Callable[[Val, Val], None]) -> None:
        """Loops over the lines of results that rows overlap: a row's number is divided once for each, and places without results are left
        out."""
        ctx, p = self.ctx, self.p
        assert self.lines is not None
        pitch, width = (ctx.sizes.of(n) for n in self.lines)
        end = f.add(row, count)
        first, last = (f.binary("udiv", x, pitch) for x in (row, f.sub(end, 1)))
        with f.for_range(first, f.add(last, 1), at_least_once=True) as loop:
            self.line = f.mul(loop.index, pitch)
            self.open.enter_context(ctx.levels.inner())
            bind_row(ctx, p.rows[:-1], loop.index)
            emit(f.smax(row, self.line), f.smin(end, f.add(self.line, width)))

    def bind(self, row: Val) -> None:
        """Binds what rows count to one of them."""
        ctx, p = self.ctx, self.p
        if self.lines is not None:
            row = ctx.f.sub(row, self.line)
        else:
            for v in p.rows[:-1]:
                ctx.levels.bind(v, const(I64, 0))
        ctx.levels.bind(p.rows[-1], row)

    def columns(self, f: FunctionBuilder, tile: gemm.Tile, column: Val, masks: gemm.Masks) -> gemm.RowBody:
        ctx, p = self.ctx, self.p
        self.open.enter_context(in_batch(ctx, p, tile))
        along = p.n
        if self.segment is not None and p.windows is not None:
            across, along = (m.position for m in p.windows.staged.moving)
            row, column = self.segment
            ctx.levels.bind(across, row)
        ctx.levels.bind(along, column)
        self.open.enter_context(ctx.values.along(Vector(along, self.lanes, masks)))
        self.ahead(len(masks))
        ctx.levels.close()
        return self.row

    def ahead(self, copies: int) -> None:
        """Emits values and addresses that do not depend on the row."""
        ctx, p = self.ctx, self.p
        late: set[DagNode] = set()
        for n in below(p.stores, stop=p.sum):
            if n is p.sum or not n.domain.isdisjoint(p.rows) or any(a in late for a in n.inputs):
                late.add(n)
                if isinstance(n, Load):
                    ctx.values.pointer(n.access.tensor, n.access.address)
            else:
                for copy in range(copies):
                    ctx.values.of(n, copy)
        for s in p.stores:
            ctx.values.pointer(s.access.tensor, s.access.address)

    def row(self, f: FunctionBuilder, row: Val, sums: Sequence[Val]) -> None:
        ctx, p = self.ctx, self.p
        with self.open.pop_all(), ctx.levels.inner():
            self.bind(row)
            for copy, vector in enumerate(sums):
                ctx.levels.define(p.sum, copy, vector)
            for s in p.stores:
                if store_bytes(ctx.values, s.access, s.value, ctx.values.copies):
                    continue
                for copy in range(len(sums)):
                    ctx.values.store(s.access, ctx.values.of(s.value, copy), copy)


def _walk_as_one(p: Product, variables: Sequence[LoopVar], counts: Sequence[Sequence[Size]]) -> bool:
    """Whether all that the stores of a product read and write walks some variables, row-major, as one: the step of each is that of the next
    one times what counts its positions, which is said for all but the first, in one or several ways."""
    nodes = below(p.stores, stop=p.sum)
    if any(isinstance(n, LoopIndex) and n.variable in variables for n in nodes):
        return False
    for x in (*(s.access for s in p.stores), *(n.access for n in nodes if isinstance(n, Load))):
        if not x.is_plain and not x.domain.isdisjoint(variables):
            return False
        steps = [x.address.coefficient(v) for v in variables]
        if not all(any(a == b * n for n in several) for a, b, several in zip(steps, steps[1:], counts, strict=False)):
            return False
    return True
