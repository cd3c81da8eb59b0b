"""Phases as code: what is emitted for each form of them.

In: the phases of a schedule. Out: instructions, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from anyshape.equations import Tensor
from anyshape.lower.emit.loops.empty_loops import unless_empty
from anyshape.lower.emit.products.blocked import emit_blocked
from anyshape.lower.emit.products.product import OfBlock, emit_product
from anyshape.lower.emit.scopes.row_groups import emit_row_groups
from anyshape.lower.emit.scopes.rows import emit_versions
from anyshape.lower.emit.scopes.transposed import can_transpose, emit_transposed
from anyshape.lower.emit.sequences.ordered import emit_ordered
from anyshape.lower.emit.sequences.procedure import emit_procedure
from anyshape.lower.emit.sequences.recurrence import emit_recurrence
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.windowed.folded import emit_folded
from anyshape.lower.emit.windowed.taps import emit_taps, has_taps
from anyshape.lower.emit.windowed.tiles import emit_spread, emit_tiles
from anyshape.lower.emit.windowed.windows import emit_windows
from anyshape.lower.ir.procedure import LoweredProcedure
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.schedule.blocked import Blocked
from anyshape.lower.schedule.kernel_schedule import KernelSchedule, Phase
from anyshape.lower.schedule.products import PhaseStep, Product
from anyshape.lower.schedule.recurrence import Recurrence, RowForm
from anyshape.lower.schedule.tree import Scope, plan


def emit_phases(ctx: KernelContext, schedule: KernelSchedule, panels: Mapping[Product, Tensor]) -> None:
    """Emits the phases in order. `panels` are the operands that hold factors of products as panels."""
    written = frozenset(s.access.tensor for s in schedule.stores)
    written |= {p.store.access.tensor for p in schedule.phases if isinstance(p, Ordered)}
    products = [p for p in schedule.steps if isinstance(p, Product)]
    written |= {s.access.tensor for p in products for s in p.ahead}
    written |= {p.column_sums for p in products if p.column_sums is not None}

    def emit(ctx: KernelContext, step: PhaseStep, block: OfBlock | None = None) -> None:
        if isinstance(step, Product):
            for s in step.ahead:
                ctx.memory.place(s.access.tensor)
                with ctx.parts.undivided():
                    emit_versions(ctx, plan([s]))
            tested = [v for s in step.stores for v in s.variables]
            with unless_empty(ctx, step.stores, tested, step.around):
                emit_product(ctx, step, panels.get(step), block)
            return
        with unless_empty(ctx, step.stores, step.variables[:1]):
            if step.windows is not None:
                emit_windows(ctx, step)
            elif step.folded is not None:
                emit_folded(ctx, step)
            elif step.tiled is not None:
                emit_tiles(ctx, step)
            elif step.spread:
                emit_spread(ctx, step)
            elif step.groups is not None:
                emit_row_groups(ctx, step.groups)
            elif has_taps(step):
                emit_taps(ctx, step)
            elif can_transpose(step):
                emit_transposed(ctx, step)
            else:
                emit_versions(ctx, step)

    # what comes before a recurrence is done by every part that comes by
    starts = any(isinstance(p, Recurrence) for p in schedule.phases)
    for p in schedule.phases:
        # the actions of a program are phases of their own
        with nullcontext() if isinstance(p, LoweredProcedure) else ctx.levels.phase(written):
            match p:
                case Scope():
                    with ctx.parts.undivided() if starts else nullcontext():
                        emit(ctx, p)
                case Product():
                    with ctx.memory.freed(), ctx.parts.undivided() if starts else nullcontext():
                        emit(ctx, p)
                case Blocked():
                    with ctx.parts.undivided() if starts else nullcontext():
                        emit_blocked(ctx, p, written, emit)
                case Recurrence():
                    emit_recurrence(ctx, p, written, emit, not schedule.serial)
                case Ordered():
                    emit_ordered(ctx, p)
                case LoweredProcedure():
                    emit_procedure(ctx, p)


def form_names(p: Phase) -> tuple[str, ...]:
    """Names the form of a phase, for counters and golden tests."""
    match p:
        case Product():
            return ("product",)
        case Scope():
            if p.tiled is not None:
                return ("tiles",)
            if p.folded is not None:
                return ("folded",)
            if p.windows is not None or p.spread:
                return ("windows" if p.windows is not None else "spread",)
            if p.groups is not None:
                return ("row groups",)
            return ("taps" if has_taps(p) else "transposed" if can_transpose(p) else "rows",)
        case Blocked():
            return ("blocked", *(name for step in p.all_steps for name in form_names(step)))
        case Recurrence(form=RowForm()):
            return ("steps",)
        case Recurrence():
            return tuple(name for step in p.steps for name in form_names(step))
        case Ordered(form):
            return (type(form).__name__.lower(),)
        case LoweredProcedure():
            return ("procedure",)
