"""Products of one step of a recurrence, shared out to threads: a batch of one has no rows that could be, and each thread would read all
columns for its share of a few.

A kernel that runs in one part may share a function of its own over the pool, once for each step (`vm/native/pool_code.py`): its caller says
where that is, by the words behind those of polls (`lower/llvm/polling.py`). Parts of the product are some of its columns, so that results
do not depend on their number. What follows it in the step is computed by the caller of the function, which waits for all parts.

In: products of steps, and of blocks of positions ahead of them. Out: functions of the kernel's module, and calls of them. A part has
scratch of its own, ahead of which it is told the position, the block of positions, and where the scratch of the kernel is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from anyshape.dims import Dim, Size, maximum
from anyshape.equations import Tensor
from anyshape.kernel_model.costs import CYCLES_PER_PART
from anyshape.lower.emit.products.product import OfBlock
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.llvm.builder import KERNEL_ARGS
from anyshape.lower.llvm.polling import SharedPool
from anyshape.lower.llvm.types import I8, I32, I64, PTR, Val, const
from anyshape.lower.schedule.blocked import BlockOfRows
from anyshape.lower.schedule.blocks_ahead import BlockForm
from anyshape.lower.schedule.products import PhaseStep, Product
from anyshape.lower.schedule.recurrence import Recurrence
from anyshape.lower.schedule.shared_steps import FEW_ROWS, shared_products

Emit = Callable[[KernelContext, PhaseStep, OfBlock | None], None]
MOST_PARTS = 8
"""Parts of a product at most: a step takes some tens of microseconds, and each part has scratch of its own."""
_HEADER, _SHARED, _SYMBOLS = 64, 0, 1
"""Bytes ahead of a part's scratch, and the words in them: the address of the kernel's scratch, then the values of symbols."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SharedSteps:
    """Which products of a recurrence are shared, each with the number of its parts, an i64, and the scratch of these. `symbols` are those
    that have a value inside of loops of the kernel only, the position among them."""

    pool: SharedPool
    symbols: Sequence[Dim]
    parts: Mapping[Product, Val]
    functions: Mapping[Product, str]
    scratch: Val
    bytes: Size

    def call(self, ctx: KernelContext, p: Product) -> None:
        """Emits the product, shared over the pool."""
        f, parts, stride = ctx.f, self.parts[p], ctx.sizes.of(self.bytes)
        known = [ctx.sizes.of(symbol) if symbol in ctx.levels.stepping else const(I64, 0) for symbol in self.symbols]
        with f.for_range(0, parts, carried=[self.scratch], at_least_once=True) as each:
            for k, value in enumerate(known, _SYMBOLS):
                f.store(value, each.carried[0], k)
            f.store(f.convert("ptrtoint", f.args[2], I64), each.carried[0], _SHARED)
            each.next(f.gep(each.carried[0], stride, I8))
        self.pool.share(f, self.functions[p], self.scratch, stride, parts)


def shared_steps(ctx: KernelContext, r: Recurrence, written: frozenset[Tensor], emit: Emit) -> SharedSteps | None:
    """Emits the functions of all products of a recurrence that are worth several parts where rows are few; None if there are none."""
    work = shared_products(r, ctx.lanes, ctx.f.target)
    if not work:
        return None
    functions: dict[Product, str] = {}
    bytes_: Size = 0
    ahead = r.ahead
    symbols = (r.positions.symbol, *(() if ahead is None else (ahead.first, ahead.count)))
    for p in work:
        whole = ahead is not None and p in ahead.whole
        functions[p], room = _function(ctx, symbols, ahead, None if whole else r.rows, p, written, emit)
        bytes_ = maximum(bytes_, room)
    ctx.parts.shares = True
    f = ctx.f
    alone = f.compare("eq", ctx.parts.nparts, 1)
    if r.rows is not None:
        alone = f.and_(alone, f.compare("le", ctx.sizes.of(r.rows.all), FEW_ROWS))
    pool = SharedPool.of_caller(f)
    most = f.select(alone, f.smin(pool.threads, MOST_PARTS), 1)
    parts = {p: f.smin(most, ctx.sizes.of(n // CYCLES_PER_PART)) for p, n in work.items()}
    scratch = ctx.memory.take(bytes_ * MOST_PARTS)
    return SharedSteps(pool=pool, symbols=symbols, parts=parts, functions=functions, scratch=scratch, bytes=bytes_)


def _function(
    ctx: KernelContext,
    symbols: Sequence[Dim],
    ahead: BlockForm | None,
    rows: BlockOfRows | None,
    p: Product,
    written: frozenset[Tensor],
    emit: Emit,
) -> tuple[str, Size]:
    """Emits the function of a product; returns its name and the bytes of scratch of a part."""
    module = ctx.f.module
    name = module.unused(f"{ctx.f.name}_step")
    with module.function(name, I32, KERNEL_ARGS, internal=True, inline=False, noalias=False) as f:
        known = [f.load(f.args[2], I64, k) for k, _ in enumerate(symbols, _SYMBOLS)]
        bounds: dict[Dim, Size] = {} if rows is None else {rows.count: FEW_ROWS}
        length = None if ahead is None else ahead.length(ctx.f.target)
        if ahead is not None and length is not None:
            bounds |= {ahead.most: length, ahead.count: length}
        own = ctx.of_step(f, f.load(f.args[2], PTR, _SHARED), _HEADER, bounds)
        with ExitStack() as inside:
            inside.enter_context(own.levels.section())  # symbols have values inside of something only
            for symbol, value in zip(symbols, known, strict=True):
                inside.enter_context(own.levels.step_to(symbol, value))
            if ahead is not None:
                inside.enter_context(own.levels.step_to(ahead.most, own.sizes.of(length)))
            if rows is not None:
                inside.enter_context(own.levels.step_to(rows.first, const(I64, 0)))
                inside.enter_context(own.levels.step_to(rows.count, own.sizes.of(rows.all)))
            with own.levels.phase(written):
                emit(own, p, None if rows is None else OfBlock(rows.all, FEW_ROWS, None))
        f.ret(const(I32, 0))
    return name, own.memory.bytes
