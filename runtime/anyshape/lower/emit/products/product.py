"""A matrix product as a phase of a kernel: operands and strides for the template, the graph as its epilogue.

In: a `Product`. Out: the template's loops, and inside them the stores of the product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower import gemm
from anyshape.lower.emit.products.constant_panels import packed_step, panel_steps_of, steps_of
from anyshape.lower.emit.products.copied_lines import CopiedLines
from anyshape.lower.emit.products.product_epilogue import ProductEpilogue
from anyshape.lower.emit.products.product_operands import OperandCode
from anyshape.lower.emit.scopes.rows import emit_versions
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.windowed.copies import prepare
from anyshape.lower.ir.dag import Access, Affine, LoopVar
from anyshape.lower.llvm.types import Val
from anyshape.lower.schedule.products import (
    ColumnOperand,
    ComputedColumns,
    GatheredRows,
    InMemory,
    Product,
    RowOperand,
    RowsInPlace,
    WindowColumns,
)
from anyshape.lower.schedule.tree import Loop, Scope, Tried, plan

SHORT = 4
"""Positions of a line of windows that a call of a micro-kernel needs where its columns come from afar."""
FEW = 2
"""Rows for which a computed operand is not packed: packing stores and loads each element once, and so few rows use it once or twice."""


@dataclass(frozen=True)
class OfBlock:
    """What a product of a block of rows takes from the whole: the rows of all blocks, those of one at most, and where `emit_panels` has
    packed b, if it had to."""

    rows: Size
    most: Size
    panels: Val | None


def emit_product(ctx: KernelContext, p: Product, prepacked: Tensor | None, block: OfBlock | None = None) -> None:
    """Emits a product. `prepacked` is the operand that holds b as panels, if it does."""
    _ProductEmission(ctx, p, block).run(prepacked)


def emit_panels(ctx: KernelContext, p: Product, all_rows: Size) -> Val | None:
    """Packs b once for all blocks of rows, in scratch; None where each block reads it in place, or packs what it needs."""
    return None if p.constant is not None else _ProductEmission(ctx, p, None).panels(all_rows)


class _ProductEmission:
    def __init__(self, ctx: KernelContext, p: Product, block: OfBlock | None) -> None:
        self.ctx, self.p, self.block = ctx, p, block
        self.element = elementwise.register_type(p.sum.dtype)
        self.tiles = gemm.tiles_for(ctx.f.target, self.element)
        self.a_type, self.b_type = (
            elementwise.memory_type(x.access.tensor.dtype)
            if isinstance(x, InMemory) and p.words is None
            else self.element
            for x in (p.a, p.b)
        )
        if p.words is not None and p.constant is not None:
            self.b_type = p.words.stored_b(ctx.f.target, _number(p.k.extent) * _number(p.n.extent)) or self.b_type
        self.operands = OperandCode(ctx, p)
        self.epilogue = ProductEpilogue(ctx, p, self.tiles.lanes)

    def run(self, prepacked: Tensor | None) -> None:
        ctx, f, scope = self.ctx, self.ctx.f, self.few_rows()
        if scope is None:
            self.contract_lines(prepacked)
            return
        rows = ctx.sizes.of(self.p.m.extent)
        together = self.rows_together()
        few = 1 if together else FEW
        with ctx.levels.when(f.compare("le", rows, few), certain=True):
            emit_versions(ctx, scope)
        for count, of_rows in together.items():
            with ctx.levels.when(f.compare("eq", rows, count), certain=True):
                emit_versions(ctx, of_rows)
        with ctx.levels.when(f.compare("gt", rows, max(together, default=few)), certain=True):
            self.contract(prepacked)

    def contract_lines(self, prepacked: Tensor | None) -> None:
        """Emits the product, of rows that are read in place for lines of enough positions: of a b that comes from afar, each call for a
        short one waits, and reads it again."""
        ctx, f, line, copied = self.ctx, self.ctx.f, self.p.rows[-1].extent, self.copied
        if copied is not None:
            gathers = copied.takes_longer(ctx, self.p.m.extent)
        elif not self.reads_in_place or not self.is_far or isinstance(line, int):
            is_long = not self.is_far or not isinstance(line, int) or line >= SHORT
            self.contract(prepacked, self.reads_in_place and is_long)
            return
        else:
            gathers = f.compare("lt", ctx.sizes.of(line), SHORT)
        for holds, reads in ((gathers, False), (f.not_(gathers), True)):
            with ctx.memory.freed(), ctx.levels.when(holds, certain=True):
                self.contract(prepacked, reads)

    @property
    def reads_in_place(self) -> bool:
        """Whether rows of windows are read where they lie, and not gathered: words by matrix tiles, which read a copy of lines."""
        p = self.p
        if not isinstance(p.a, GatheredRows) or p.a.in_place is None or self.block is not None:
            return False
        return p.words is None or gemm.by_matrix_tiles(p.words, self.ctx.f.target)

    @property
    def copied(self) -> CopiedLines | None:
        """The copy of lines that matrix tiles read rows of words from, if they do."""
        p = self.p
        if p.words is None or not self.reads_in_place:
            return None
        assert isinstance(p.a, GatheredRows) and p.a.in_place is not None
        return CopiedLines(p.a, p.a.in_place, p.words.per(self.ctx.f.target))

    @property
    def is_far(self) -> bool:
        """Whether b is known to be larger than what stays in the second cache."""
        k, n = self.p.k.extent, self.p.n.extent
        return isinstance(k, int) and isinstance(n, int) and k * n * self.b_type.bytes > self.tiles.near

    def contract(self, prepacked: Tensor | None, in_place: bool = False) -> None:
        """Emits the product in one way. `in_place`: rows of windows are read where they lie."""
        ctx, p = self.ctx, self.p
        with ctx.levels.section():
            if p.windows is not None:
                prepare(ctx, p.windows.staged)
            spec = self.spec(prepacked, in_place)
            m = p.m.extent if self.block is None else self.block.most
            widens = spec.widens_b(ctx.f.target)
            sizes = (m, p.n.extent, steps_of(p, ctx.f.target))
            computed = 0 if isinstance(p.b, InMemory) else self.tiles.computed_block
            block = self.tiles.near_block if widens else computed
            packs = spec.packs_b or widens
            gathers = isinstance(p.a, GatheredRows)
            by_tiles = gemm.by_matrix_tiles(p.words, ctx.f.target)
            bytes_ = gemm.scratch_bytes(
                self.tiles, *sizes, packs, dims.minimum, dims.maximum, block, gathers, by_tiles, spec.packs_a_once
            )
            if isinstance(spec.a, gemm.TapRows):
                copied = self.copied
                bytes_ = gemm.tap_scratch_bytes(self.tiles) if copied is None else copied.scratch_bytes(self.tiles)
            if p.words is not None and p.windows is not None:  # words of channels past the last one
                bytes_ = bytes_ + len(p.windows.taps) * self.tiles.columns * self.element.bytes
            if p.column_sums is not None:
                ctx.memory.place(p.column_sums)
            gemm.emit_contraction(
                ctx.f, spec, self.ctx.memory.take(bytes_), ctx.parts.part, ctx.parts.nparts, ctx.levels.poll
            )

    def few_rows(self) -> Scope | None:
        """A scope of sums that compute the operand where they use it, row by row: for few rows it is faster than packing."""
        p = self.p
        if not isinstance(p.b, ComputedColumns) or self.block is not None or p.around:
            return None
        scope = plan(list(p.stores))
        variables = (*p.batch, p.m, p.n)
        if scope.vector is not p.n or set(scope.variables) != set(variables):
            return None
        return replace(scope, variables=variables, steps=self.tried(scope))

    def rows_together(self) -> dict[int, Scope]:
        """The scopes of two rows and more that are summed at once, by their number, if there are any."""
        p = self.p
        scopes = {} if p.few is None else {k: plan(list(stores)) for k, stores in enumerate(p.few.together, 2)}
        variables = (*p.batch, p.n)
        fit = all(s.vector is p.n and set(s.variables) == set(variables) for s in scopes.values())
        return {k: replace(s, variables=variables) for k, s in scopes.items()} if fit else {}

    def tried(self, scope: Scope) -> list[Scope | Loop]:
        """The steps for few rows, with the sum of sums tried first, if there is one that has the loops of the sum."""
        few, (loop, *after) = self.p.few, scope.steps
        if few is None or not isinstance(loop, Loop) or loop.reductions != (self.p.sum,):
            return scope.steps
        first = plan(list(few.stores))
        *steps, last = first.steps
        is_same = first.vector is scope.vector and first.variables == scope.variables
        if not is_same or not isinstance(last, Loop) or last.reductions or last.variables:
            return scope.steps
        return [replace(loop, tried=Tried(tuple(steps), few.value)), *after]

    def panels(self, all_rows: Size) -> Val | None:
        ctx, p = self.ctx, self.p
        a, b = p.accesses
        if any(v in b.domain for v in p.batch) or (p.words is None and b.address.coefficient(p.n) == 1):
            return None
        with ctx.levels.section():
            sizes = ctx.sizes.of(all_rows), ctx.sizes.of(p.n.extent), ctx.sizes.of(p.k.extent)
            along_k = ctx.f.i64(self.stride(a.address, p.k))
            if p.words is not None:
                steps = panel_steps_of(p, ctx.f.target)
                scratch = ctx.memory.take(gemm.panel_bytes(self.tiles, p.n.extent, steps))
                gemm.emit_word_panels(ctx.f, self.element, p.words, along_k, self.right(b, None), sizes, scratch)
                return scratch
            scratch = self.ctx.memory.take(gemm.panel_bytes(self.tiles, p.n.extent, p.k.extent, self.b_type))
            gemm.emit_panels(ctx.f, (self.element, self.b_type), along_k, self.right(b, None), sizes, scratch)
        return scratch

    def start(self, t: Tensor, address: Affine) -> Val:
        known = tuple((v, c) for v, c in address.terms if v in self.p.around)
        return self.ctx.values.pointer(t, Affine(known, address.offset))

    def stride(self, address: Affine, v: LoopVar) -> Val | int:
        c = address.coefficient(v)
        return c if isinstance(c, int) and self.ctx.sizes.is_literal(c) else self.ctx.sizes.of(c)

    def step(self, x: RowOperand | ColumnOperand, v: LoopVar, in_place: bool = False) -> Val | int:
        """The distance from one value of a batch variable to the next; what is no place in memory finds its own."""
        match x:
            case InMemory(access) | GatheredRows(in_place=RowsInPlace(access)) if isinstance(x, InMemory) or in_place:
                return self.stride(access.address, v)
        return 0

    def right(self, b: Access, panels: Val | None) -> gemm.Strided:
        k, n = self.p.k, self.p.n
        return gemm.Strided(
            self.start(b.tensor, b.address), self.stride(b.address, k), self.stride(b.address, n), panels
        )

    def tap_rows(self, rows: GatheredRows, read: RowsInPlace) -> gemm.TapRows:
        """The rows as they are read in place at the taps of windows."""
        size = self.ctx.sizes.of
        (*taps, along), positions = rows.over, rows.rows
        address = read.access.address
        dims = []
        for tap, bound in zip(taps, read.bounds, strict=True):
            assert isinstance(tap.extent, int)
            dim = gemm.WindowDim(taps=tap.extent, a=self.stride(address, tap))
            if bound is not None:
                ((position, step),) = [(v, c) for v, c in bound.index.terms if v is not tap]
                spread = bound.index.coefficient(tap)
                assert isinstance(step, int) and isinstance(spread, int)
                offset, extent = size(bound.index.offset), size(bound.extent)
                dim = replace(
                    dim, position=positions.index(position), step=step, spread=spread, offset=offset, size=extent
                )
            dims.append(dim)
        if read.fill is not None:
            self.ctx.memory.place(read.fill.access.tensor)
        return gemm.TapRows(
            pointer=self.start(read.access.tensor, address),
            positions=tuple((size(v.extent), self.stride(address, v)) for v in positions),
            dims=tuple(dims),
            channels=size(along.extent) if self.p.words is None else _number(along.extent),
            prepare=None if read.fill is None else partial(self.operands.fill, read.fill),
            outside=None if self.p.codes is None or read.outside is None else self.operands.byte(read.outside),
        )

    def spec(self, prepacked: Tensor | None, in_place: bool) -> gemm.ContractionSpec:
        ctx, p, start, stride = self.ctx, self.p, self.start, self.stride
        size = ctx.sizes.of
        left: gemm.Strided | gemm.Gathered | gemm.Packed | gemm.TapRows
        right: gemm.Strided | gemm.Prepacked | gemm.Packed
        match p.a:
            case InMemory(a):
                left = gemm.Strided(start(a.tensor, a.address), stride(a.address, p.m), stride(a.address, p.k))
            case GatheredRows(in_place=RowsInPlace() as read) as rows if in_place:
                left = self.tap_rows(rows, read)
            case rows:
                left = self.operands.rows(rows)
        match p.b:
            case InMemory() if prepacked is not None:
                right = gemm.Prepacked(self.panels_of(prepacked))
            case InMemory(b):
                right = self.right(b, None if self.block is None else self.block.panels)
            case columns:
                right = self.operands.columns(columns)
        c = p.stores[0].access.address
        batch = []
        for v in p.batch:
            b_step = self.step(p.b, v)
            if prepacked is not None:
                b_step = size(packed_step(p, v, ctx.f.target))
            batch.append(gemm.Batch(size(v.extent), self.step(p.a, v, in_place), b_step, stride(c, v)))
        direct = p.is_plain and c.coefficient(p.n) == 1 and p.windows is None and isinstance(p.a, InMemory)
        to = gemm.Destination(start(p.stores[0].access.tensor, c), stride(c, p.m), 1) if direct else None
        return gemm.ContractionSpec(
            element=self.element,
            m=size(p.m.extent),
            n=size(p.n.extent),
            k=size(p.k.extent),
            a=left,
            b=right,
            c=to,
            epilogue=None if direct else self.epilogue.columns,
            batch=batch,
            streams_a=p.streams_a,
            all_rows=None if self.block is None else size(self.block.rows),
            segments=self.epilogue.segments if self.merges else None,
            row_segments=self.epilogue.row_segments if self.epilogue.lines is not None else None,
            a_stored=self.a_type,
            b_stored=self.b_type,
            together=self.together,
            words=p.words,
        ).of_elements(ctx.f.target)

    @property
    def together(self) -> int:
        """Vectors of results that fill a cache line: the first cache may have evicted a line that is written in parts, with those of the
        other rows between."""
        bytes_ = min(elementwise.memory_type(s.access.tensor.dtype).bytes for s in self.p.stores)
        vectors = self.tiles.line // (bytes_ * self.tiles.lanes)
        return 1 if self.merges else max(1, min(self.tiles.vectors, vectors))

    @property
    def merges(self) -> bool:
        """Whether columns are the places of a copy, in rows longer than those of the results."""
        return isinstance(self.p.b, WindowColumns) and len(self.p.b.windows.staged.moving) > 1

    def panels_of(self, prepacked: Tensor) -> Val:
        """The address of the panels for the values of variables around."""
        f, at = self.ctx.f, self.ctx.memory.base(prepacked)
        for v in self.p.around:
            at = f.gep(at, f.mul(self.ctx.levels.indices[v], packed_step(self.p, v, f.target)), self.b_type)
        return at


def _number(size: Size) -> int:
    """A size that is known: of a constant, or channels of words, which fill whole tiles."""
    assert isinstance(size, int)
    return size
