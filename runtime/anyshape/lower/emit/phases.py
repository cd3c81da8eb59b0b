"""Phases as code: what is emitted for each form of them.

In: the phases of a schedule. Out: instructions, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations import Tensor
from anyshape.lower.emit.blocked import emit_blocked
from anyshape.lower.emit.empty_loops import unless_empty
from anyshape.lower.emit.ordered import emit_ordered
from anyshape.lower.emit.procedure import emit_procedure
from anyshape.lower.emit.product import OfBlock, emit_product
from anyshape.lower.emit.recurrence import emit_recurrence
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.transposed import can_transpose, emit_transposed
from anyshape.lower.emit.windows import emit_windows
from anyshape.lower.ir.procedure import Procedure
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.schedule.blocked import Blocked
from anyshape.lower.schedule.contraction import Product, Step
from anyshape.lower.schedule.kernel_schedule import KernelSchedule, Phase
from anyshape.lower.schedule.recurrence import Recurrence, RowForm
from anyshape.lower.schedule.tree import Scope


def emit_phases(rows: Rows, schedule: KernelSchedule, panels: Mapping[Product, Tensor]) -> None:
    """`panels` are the operands that hold factors of products as panels."""
    written = frozenset(s.access.tensor for s in schedule.stores)
    written |= {p.store.access.tensor for p in schedule.phases if isinstance(p, Ordered)}

    def emit(step: Step, block: OfBlock | None = None) -> None:
        if isinstance(step, Product):
            emit_product(rows, step, panels.get(step), block)
            return
        with unless_empty(rows, step):
            if step.windows is not None:
                emit_windows(rows, step)
            elif can_transpose(step):
                emit_transposed(rows, step)
            else:
                rows.top(step)

    # what comes before a recurrence is done by every part that comes by
    starts = any(isinstance(p, Recurrence) for p in schedule.phases)
    most: Size = 0
    for p in schedule.phases:
        # the actions of a program are phases of their own
        with nullcontext() if isinstance(p, Procedure) else rows.phase(written):
            match p:
                case Scope() | Product():
                    begun = rows.scratch
                    with rows.alone() if starts else nullcontext():
                        emit(p)
                    if isinstance(p, Product):  # what it took is free again
                        rows.scratch, most = begun, dims.maximum(most, rows.scratch)
                case Blocked():
                    with rows.alone() if starts else nullcontext():
                        emit_blocked(rows, p, written, emit)
                case Recurrence():
                    emit_recurrence(rows, p, written, emit, not schedule.serial)
                case Ordered():
                    emit_ordered(rows, p)
                case Procedure():
                    emit_procedure(rows, p)
    rows.scratch = dims.maximum(most, rows.scratch)


def form_names(p: Phase) -> tuple[str, ...]:
    """What a phase is, for counters and golden tests."""
    match p:
        case Product():
            return ("product",)
        case Scope():
            return ("windows" if p.windows is not None else "turned" if can_transpose(p) else "rows",)
        case Blocked():
            return ("blocked", *(name for step in p.all_steps for name in form_names(step)))
        case Recurrence(form=RowForm()):
            return ("steps",)
        case Recurrence():
            return tuple(name for step in p.steps for name in form_names(step))
        case Ordered(form):
            return (type(form).__name__.lower(),)
        case Procedure():
            return ("procedure",)
