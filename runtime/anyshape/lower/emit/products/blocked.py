"""Blocks of rows as code: a loop over batches, one over blocks of rows, and in it the steps of the block.

In: a `Blocked`. Out: instructions. Batches with their blocks are shared out to the parts. Blocks get smaller where there are more parts
than blocks: every row is computed alike, wherever blocks begin, so that this changes no result.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower import gemm
from anyshape.lower.emit.products.product import OfBlock, emit_panels
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.elementwise import register_type
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I64, Val, const
from anyshape.lower.schedule.blocked import Blocked
from anyshape.lower.schedule.products import PhaseStep, Product

Emit = Callable[[KernelContext, PhaseStep, OfBlock | None], None]


def emit_blocked(ctx: KernelContext, b: Blocked, written: frozenset[Tensor], emit: Emit) -> None:
    """Emits the phases of a `Blocked`. `emit` writes one of its steps; `written` are tensors that the kernel writes, those of the blocks
    too."""
    _BlockedEmission(ctx, b, written, emit).run()


class _BlockedEmission:
    def __init__(self, ctx: KernelContext, b: Blocked, written: frozenset[Tensor], emit: Emit) -> None:
        self.ctx, self.b, self.written, self.emit = ctx, b, written, emit
        products = [p for p in b.all_steps if isinstance(p, Product)]
        (element,) = {register_type(p.sum.dtype) for p in products}
        tiles = gemm.tiles_for(ctx.f.target, element)
        by_tiles = any(gemm.by_matrix_tiles(p.words, ctx.f.target) for p in products)
        self.tile = tiles.tallest if by_tiles else tiles.rows
        self.most = b.most(ctx.f.target, self.tile)

    def run(self) -> None:
        ctx, b, f = self.ctx, self.b, self.ctx.f
        self.place()
        batches = const(I64, 1)
        for _, extent in b.batch:
            batches = f.mul(batches, ctx.sizes.of(extent))
        blocks = self.blocks(batches)
        first, last = ctx.parts.share(f.mul(batches, blocks))
        start = f.binary("udiv", first, f.smax(blocks, 1))
        stop = f.select(f.compare("lt", first, last), _ceil(f, last, f.smax(blocks, 1)), start)
        with ctx.parts.undivided(), ctx.levels.loop(start, stop, 1) as iteration, ExitStack() as symbols:
            begin = f.mul(iteration.index, blocks)
            low, high = f.smax(f.sub(first, begin), 0), f.smin(f.sub(last, begin), blocks)
            self.bind(symbols, iteration.index)
            panels = self.ahead()
            with ctx.levels.loop(low, high, 1) as block:
                self.block(block.index, blocks, panels)

    def place(self) -> None:
        """Reserves scratch for what is held for a batch, and for a block."""
        ctx, b = self.ctx, self.b
        sizes: dict[Tensor, Size] = {**b.held, **{t: n * self.most for t, n in b.rowwise.items()}}
        for t, elements in sizes.items():
            if t not in b.over:
                ctx.memory.place(t, elements)
        for t, under in b.over.items():
            ctx.memory.overlay(t, under)

    def blocks(self, batches: Val) -> Val:
        """Computes how many blocks the rows of a batch are cut into."""
        ctx, f = self.ctx, self.ctx.f
        total = ctx.sizes.of(self.b.rows)
        for_parts = _ceil(f, ctx.parts.nparts, f.smax(batches, 1))
        return f.smax(_ceil(f, total, ctx.sizes.of(self.most)), f.smin(for_parts, f.ceil_div(total, self.tile)))

    def bind(self, symbols: ExitStack, number: Val) -> None:
        """Binds the symbols of a batch to its indices."""
        ctx, f = self.ctx, self.ctx.f
        for symbol, extent in reversed(self.b.batch[1:]):
            size = ctx.sizes.of(extent)
            quotient = f.binary("udiv", number, size)
            symbols.enter_context(ctx.levels.step_to(symbol, f.sub(number, f.mul(quotient, size))))
            number = quotient
        if self.b.batch:
            symbols.enter_context(ctx.levels.step_to(self.b.batch[0][0], number))

    def ahead(self) -> dict[Product, Val | None]:
        """Emits the steps that run once for a batch; returns where operands of its products are packed."""
        for step in self.b.ahead:
            with self.ctx.levels.phase(self.written):
                self.emit(self.ctx, step, None)
        panels: dict[Product, Val | None] = {}
        for step in self.b.all_steps:
            if isinstance(step, Product):
                with self.ctx.levels.phase(self.written):
                    panels[step] = emit_panels(self.ctx, step, self.b.rows)
        return panels

    def block(self, number: Val, blocks: Val, panels: dict[Product, Val | None]) -> None:
        ctx, b, f = self.ctx, self.b, self.ctx.f
        total = ctx.sizes.of(b.rows)
        first = f.binary("udiv", f.mul(number, total), blocks)
        count = f.sub(f.binary("udiv", f.mul(f.add(number, 1), total), blocks), first)
        with ctx.levels.step_to(b.first, first), ctx.levels.step_to(b.count, count):
            for step in b.steps:
                packed = panels.get(step) if isinstance(step, Product) else None
                with ctx.levels.phase(self.written):
                    self.emit(self.ctx, step, OfBlock(b.rows, self.most, packed))


def _ceil(f: FunctionBuilder, a: Val, b: Val) -> Val:
    """Divides, rounding up; neither number is negative, and b is not 0."""
    return f.binary("udiv", f.sub(f.add(a, b), 1), b)
