"""Rows of steps that are more than a cache holds, position by position: what one hands on is in scratch, and memory is read in order.

In: rows of steps whose lanes run along the innermost loop. Out: a loop over the positions around one along the row. A row in registers is
some lines of memory, of which the next position has the same a row further on, while a processor reads ahead within pages. The scratch is a
part of the first cache; a longer row is done in pieces as long as that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from anyshape import dims
from anyshape.dims import Size
from anyshape.lower.analyse.classify import accesses
from anyshape.lower.emit.loops.nest import nest, vector_range, vector_share
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext, Range
from anyshape.lower.emit.values.levels import Buffer, Iteration
from anyshape.lower.ir.dag import Load, affine
from anyshape.lower.llvm.types import I1, Val, const
from anyshape.lower.schedule.recurrence import RowForm
from anyshape.lower.schedule.work import points

PART_OF_CACHE = 4
"""The part of the first cache that has what positions hand on: a piece of the operands and of the results is there too."""
TIERS = (4, 1)
Starts = Callable[[list[tuple[Load, int]]], list[Val]]
"""The values of loads, each of a copy, before the first position."""
PositionLoop = Callable[[], AbstractContextManager[Iteration]]


def is_streamed(ctx: KernelContext, form: RowForm, extent: Size, in_registers: int) -> Val:
    """Whether a row is longer than what registers hand on, and all rows are more than the second cache holds."""
    v, f = form.vector, ctx.f
    if v is None or not form.carried or any(v not in load.domain for load, _ in form.carried):
        return const(I1, 0)
    carried = {load for load, _ in form.carried}
    moved = sum(
        a.tensor.dtype.itemsize
        for a, is_stored in accesses(form.stores, (), carried)
        if a.domain >= frozenset(form.variables) and not (is_stored and a.tensor in form.dropped)
    )
    size = points(form.variables) * extent * moved
    if isinstance(v.extent, int) and v.extent <= in_registers:
        return const(I1, 0)
    if isinstance(size, int):
        large = const(I1, int(size > f.target.l2_bytes))
    else:
        large = f.compare("gt", ctx.sizes.of(size), f.target.l2_bytes)
    if large.number == 0 or dims.gt(v.extent, in_registers) is True:
        return large
    return f.and_(large, f.compare("gt", ctx.sizes.of(v.extent), in_registers))


def emit_streamed(ctx: KernelContext, form: RowForm, positions: PositionLoop, starts: Starts, split: bool) -> None:
    """Emits the loops. `positions` opens the loop over the positions; `split`: the outermost loop is shared out."""
    *outer, v = form.variables
    piece = _piece(ctx, form)
    buffers = {load: Buffer(ctx.memory.reserve(load.dtype, piece), affine([(v, 1)], 0), 1) for load, _ in form.carried}

    def rows() -> None:
        first, last = vector_share(ctx, v, TIERS, split and not outer)
        with ctx.levels.loop(first, last, piece) as strip:
            end = ctx.f.smin(ctx.f.add(strip.index, piece), last)
            for buffer in buffers.values():
                _begin_at(ctx, buffer, strip.index)
            _strip(ctx, form, (strip.index, end), buffers, positions, starts)

    nest(ctx, outer, rows, split=split)


def _piece(ctx: KernelContext, form: RowForm) -> int:
    """Elements of a row that are done together: whole blocks of vectors."""
    bytes_ = sum(elementwise.memory_type(load.dtype).bytes for load, _ in form.carried)
    block = TIERS[0] * ctx.lanes
    return max(1, ctx.f.target.l1_bytes // PART_OF_CACHE // bytes_ // block) * block


def _begin_at(ctx: KernelContext, buffer: Buffer, first: Val) -> None:
    """Has a buffer begin with an element of a row."""
    element = elementwise.memory_type(buffer.tensor.dtype)
    ctx.memory.move(buffer.tensor, ctx.f.gep(ctx.memory.base(buffer.tensor), ctx.f.neg(first), element))


def _strip(
    ctx: KernelContext,
    form: RowForm,
    range_: Range,
    buffers: dict[Load, Buffer],
    positions: PositionLoop,
    starts: Starts,
) -> None:
    values, v = ctx.values, form.vector
    assert v is not None

    def begin() -> None:
        loads = [(load, copy) for load in buffers for copy in values.copies]
        _hand_on(ctx, [(buffers[load], copy, at) for (load, copy), at in zip(loads, starts(loads), strict=True)])

    def step() -> None:
        for load in buffers:
            for copy in values.copies:
                values.of(load, copy)
        for s in form.stores:
            stored = [values.of(s.value, copy) for copy in values.copies]
            for copy in values.copies if s.access.tensor not in form.dropped else ():
                values.store(s.access, stored[copy], copy)
        new = [(buffers[load], c, values.of(s.value, c)) for load, s in form.carried for c in values.copies]
        _hand_on(ctx, new)

    with ctx.levels.section():
        vector_range(ctx, v, TIERS, range_, begin)
    with positions():
        for load, buffer in buffers.items():
            ctx.levels.hold(load, buffer)
        vector_range(ctx, v, TIERS, range_, step)


def _hand_on(ctx: KernelContext, handed: Sequence[tuple[Buffer, int, Val]]) -> None:
    """Stores whole vectors: there is room behind a buffer."""
    f, lanes = ctx.f, ctx.lanes
    for buffer, copy, value in handed:
        raw = f.splat(elementwise.store_value(f, buffer.tensor.dtype, value), lanes)
        f.store(raw, ctx.values.pointer(buffer.tensor, buffer.address), copy * lanes)
