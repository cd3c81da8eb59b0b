"""Recurrences as code: a loop over positions, inside the loops over rows or around products and rows.

In: a `Recurrence`. Out: instructions. The position is a symbol like those of dims, with a value only inside its loop
(`Levels.stepping`). Rows of steps carry what they have just computed in registers; they are shared out to the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import cost
from anyshape.lower.emit.loops.nest import nest, vector_loop
from anyshape.lower.emit.products.product import OfBlock
from anyshape.lower.emit.sequences.shared_steps import Emit, SharedSteps, shared_steps
from anyshape.lower.emit.sequences.streamed_rows import emit_streamed, is_streamed
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.levels import Iteration
from anyshape.lower.ir.dag import Affine, Load
from anyshape.lower.llvm.types import I1, I64, Val, const
from anyshape.lower.schedule.blocks_ahead import BlockForm
from anyshape.lower.schedule.products import PhaseStep, Product
from anyshape.lower.schedule.recurrence import Positions, Recurrence, RowForm, StepForm

LIGHT_CYCLES = 20
"""Most cycles of a row's step with which memory decides: half of the registers then carry a row, whose parts lie in memory side by side."""


def emit_recurrence(ctx: KernelContext, r: Recurrence, written: frozenset[Tensor], emit: Emit, split: bool) -> None:
    """Emits a recurrence. `emit` writes a step; `split`: rows, or the loops around the positions, may be shared out to the parts."""
    form = r.form
    if isinstance(form, RowForm):
        _rows(ctx, r.positions, form, split)
        return
    rows = form.rows
    if rows is None:
        nest(ctx, form.around, lambda: _steps(ctx, r, form, written, emit), split=split)
        return
    with nullcontext() if split else ctx.parts.undivided():
        first, last = ctx.parts.share(ctx.sizes.of(rows.all))
    levels, count = ctx.levels, ctx.f.sub(last, first)
    ctx.memory.bound(rows.count, rows.all)
    with (
        levels.when(ctx.f.compare("gt", count, 0)),
        levels.step_to(rows.first, first),
        levels.step_to(rows.count, count),
    ):
        _steps(ctx, r, form, written, emit)


def _steps(ctx: KernelContext, r: Recurrence, form: StepForm, written: frozenset[Tensor], emit: Emit) -> None:
    with _placed(ctx, form.ahead):
        steps = _StepPhases(ctx, form, shared_steps(ctx, r, written, emit), written, emit)
        with ctx.parts.undivided(), _positions_in_blocks(ctx, r.positions, form.ahead, steps.ahead):
            steps.of_position()


@contextmanager
def _placed(ctx: KernelContext, ahead: BlockForm | None) -> Iterator[None]:
    """Code in which there is scratch for a block of positions, of which the length has a value."""
    if ahead is None:
        yield
        return
    length = ahead.length(ctx.f.target)
    ctx.memory.bound(ahead.most, length)
    ctx.memory.bound(ahead.count, length)
    for t in ahead.tensors:
        ctx.memory.place(t)
    with ctx.levels.step_to(ahead.most, ctx.sizes.of(length)):
        yield


@dataclass(frozen=True, eq=False, slots=True)
class _StepPhases:
    """The steps of a recurrence; those of `shared` may be shared out."""

    ctx: KernelContext
    form: StepForm
    shared: SharedSteps | None
    written: frozenset[Tensor]
    emit: Emit

    def of_position(self) -> None:
        ctx, form = self.ctx, self.form
        if form.where is None:
            self.each(form.steps, self.block)
            return
        with ctx.levels.phase(self.written):
            holds = ctx.values.of(form.where)
        with ctx.levels.when(holds):
            self.each(form.steps, self.block)
        with ctx.levels.when(ctx.f.not_(holds)):
            self.each(form.otherwise, self.block)

    def ahead(self, of: BlockForm) -> None:
        """Emits what is computed for a block of positions: all rows, or those that have the positions for themselves."""
        rows, ctx = self.form.rows, self.ctx
        if rows is None or not of.of_rows:
            self.each(of.whole, None)
            return
        has_all = ctx.f.compare("eq", ctx.sizes.of(rows.count), ctx.sizes.of(rows.all))
        with ctx.levels.when(has_all, certain=True):
            self.each(of.whole, None)
        total = ctx.f.mul(ctx.sizes.of(of.count), ctx.sizes.of(rows.count))
        ctx.memory.bound(of.total, of.length(ctx.f.target) * rows.all)
        with ctx.levels.when(ctx.f.not_(has_all), certain=True), ctx.levels.step_to(of.total, total):
            self.each(of.of_rows, None)

    @property
    def block(self) -> OfBlock | None:
        rows = self.form.rows
        return None if rows is None else OfBlock(rows.all, rows.all, None)

    def each(self, steps: Iterable[PhaseStep], block: OfBlock | None) -> None:
        ctx, shared = self.ctx, self.shared
        for step in steps:
            with ctx.levels.phase(self.written):
                if shared is None or not isinstance(step, Product) or step not in shared.functions:
                    self.emit(ctx, step, block)
                    continue
                several = ctx.f.compare("gt", shared.parts[step], 1)
                with ctx.levels.when(several, certain=True):
                    shared.call(ctx, step)
                with ctx.levels.when(ctx.f.not_(several), certain=True):
                    self.emit(ctx, step, block)


@contextmanager
def _positions_in_blocks(
    ctx: KernelContext, along: Positions, of: BlockForm | None, ahead: Callable[[BlockForm], None]
) -> Iterator[None]:
    """The loop over the positions, block by block where something is computed ahead of these."""
    if of is None:
        with _positions(ctx, along, ()):
            yield
        return
    f, levels, extent, length = ctx.f, ctx.levels, ctx.sizes.of(along.extent), ctx.sizes.of(of.most)
    with levels.loop(const(I64, 0), extent, f.smax(length, 1)) as block:
        stop = f.smin(f.add(block.index, length), extent)
        ends = [_read_at(ctx, along, of.at, step) for step in (block.index, f.sub(stop, 1))]
        with levels.step_to(of.first, f.smin(*ends)), levels.step_to(of.count, f.sub(stop, block.index)):
            ahead(of)
            with levels.loop(block.index, stop, 1) as iteration, _at_step(ctx, along, iteration.index):
                yield


def _read_at(ctx: KernelContext, along: Positions, at: Affine | None, step: Val) -> Val:
    """The position that a step reads of a block; the first one of all where there is one block."""
    if at is None:
        return const(I64, 0)
    with ctx.levels.section(), _at_step(ctx, along, step):
        index = ctx.sizes.of(at.offset)
        for v, coefficient in at.terms:
            index = ctx.f.add(index, ctx.f.mul(ctx.levels.indices[v], ctx.sizes.of(coefficient)))
        return index


@contextmanager
def _positions(ctx: KernelContext, along: Positions, carried: tuple[Val, ...]) -> Iterator[Iteration]:
    """The loop over the positions, in which the symbol has a value."""
    with (
        ctx.levels.loop(const(I64, 0), ctx.sizes.of(along.extent), 1, carried) as iteration,
        _at_step(ctx, along, iteration.index),
    ):
        yield iteration


@contextmanager
def _at_step(ctx: KernelContext, along: Positions, step: Val) -> Iterator[None]:
    """Code in which the symbol has the position of a step."""
    last = ctx.f.sub(ctx.sizes.of(along.extent), 1) if along.backward else None
    with ctx.levels.step_to(along.symbol, step if last is None else ctx.f.sub(last, step)):
        yield


def _rows(ctx: KernelContext, along: Positions, form: RowForm, split: bool) -> None:
    inner = frozenset(form.variables)
    heavy = sum(cost(s.value, inner) for s in form.stores)
    many = ctx.f.target.vector_registers // 2 // max(len(form.carried), 1)
    wide = () if heavy > LIGHT_CYCLES else (many, 4) if many > 4 else (4,)
    tiers = () if form.vector is None else (*wide, 1)

    if not form.variables and split:
        with ctx.levels.when(ctx.parts.is_first(), certain=True):
            _steps_of_row(ctx, along, form)
        return
    if form.several is not None:
        _several_rows(ctx, along, form, form.several, split)
        return

    def in_registers() -> None:
        vector = vector_loop(form.vector, tiers)
        nest(ctx, form.variables, lambda: _steps_of_row(ctx, along, form), vector=vector, split=split)

    streamed = is_streamed(ctx, form, along.extent, tiers[0] * ctx.lanes) if wide and tiers else const(I1, 0)
    if streamed.number != 0:
        with ctx.levels.when(streamed, certain=True):
            emit_streamed(ctx, form, lambda: _positions(ctx, along, ()), lambda loads: _first(ctx, along, loads), split)
    if streamed.number != 1:
        with ctx.levels.when(ctx.f.not_(streamed), certain=True) if streamed.number is None else nullcontext():
            in_registers()


def _steps_of_row(ctx: KernelContext, along: Positions, form: RowForm) -> None:
    values, copies = ctx.values, ctx.values.copies
    pairs = [(load, store, c) for load, store in form.carried for c in values.copies_of(load)]
    first = tuple(_first(ctx, along, [(load, c) for load, _, c in pairs]))
    with _positions(ctx, along, first) as iteration:
        for (load, _, copy), value in zip(pairs, iteration.carried, strict=True):
            ctx.levels.define(load, copy if values.varies(load) else -1, value)
        for s in form.stores:
            stored = [values.of(s.value, copy) for copy in copies]
            for copy in copies if s.access.tensor not in form.dropped else ():
                values.store(s.access, stored[copy], copy)
        iteration.next([values.of(store.value, copy) for _, store, copy in pairs])


def _several_rows(ctx: KernelContext, along: Positions, form: RowForm, several: RowForm, split: bool) -> None:
    """Emits blocks of rows that take their steps together, then rows one by one."""
    *outer, v = form.variables

    def rows() -> None:
        whole = ctx.sizes.of(v.extent)
        first, last = ctx.parts.share(whole) if split and not outer else (const(I64, 0), whole)
        stop = ctx.f.sub(last, ctx.f.binary("urem", ctx.f.sub(last, first), several.together))
        for start, end, step, own in ((first, stop, several.together, several), (stop, last, 1, form)):
            with ctx.levels.loop(start, end, step) as iteration:
                ctx.levels.bind_iteration(v, iteration.index)
                _steps_of_row(ctx, along, own)

    nest(ctx, outer, rows, split=split)


def _first(ctx: KernelContext, along: Positions, loads: list[tuple[Load, int]]) -> list[Val]:
    """Values before the first position: the start of the recurrence, or anything where a condition keeps it from being used."""
    extent = ctx.sizes.of(along.extent)
    starts: list[Val] = []
    with (
        ctx.levels.section(),
        ctx.levels.step_to(along.symbol, ctx.f.sub(extent, 1) if along.backward else const(I64, 0)),
    ):
        for load, copy in loads:
            starts.append(ctx.values.of(load, copy) if ctx.memory.has(load.access.tensor) else _nothing(ctx, load))
    return starts


def _nothing(ctx: KernelContext, load: Load) -> Val:
    """A placeholder for the start of a tensor without memory: a condition keeps the first position from reading it."""
    lanes = ctx.values.lanes_of(ctx.values.varies(load))
    return ctx.f.splat(elementwise.literal(load.dtype, 0), lanes)
