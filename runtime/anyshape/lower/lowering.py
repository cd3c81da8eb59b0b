"""`lower_group`: from a fused group of equations to a kernel.

In: a `Group` and a `Target`. Out: a `Kernel`. The steps are a list: schedule, lay out constants, emit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.equations.traversal import walk as walk_expr
from anyshape.lower.depth import room_for
from anyshape.lower.emit.loops.empty_loops import end_if_empty
from anyshape.lower.emit.phases import emit_phases, form_names
from anyshape.lower.emit.products.constant_panels import PanelLayout, pack_sums, panel_layout, prepack
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.emit.values.failure_report import ReportedElements
from anyshape.lower.ir.dag import DagNode, Load, walk
from anyshape.lower.ir.procedure import LoweredProcedure
from anyshape.lower.ir.stores import Ordered
from anyshape.lower.kernel import Group, Kernel, KernelError, PackedConstant, WrittenCode, magnitude_bound
from anyshape.lower.llvm.builder import KERNEL_ARGS, Module
from anyshape.lower.llvm.polling import Polls
from anyshape.lower.llvm.types import I32, const
from anyshape.lower.schedule.kernel_schedule import KernelSchedule, schedule_group
from anyshape.lower.schedule.products import Product
from anyshape.lower.schedule.recurrence import Recurrence
from anyshape.lower.schedule.reuse import ReusePairs, reuse_pairs
from anyshape.lower.target import Target

_NAME = "anyshape_kernel"
MOST_LITERAL = 16
"""Numbers above this are sizes of operands, which kernels of one form have others of; up to it vectors' and registers' numbers are."""


def nodes_of(group: Group) -> int:
    """Counts the nodes of a group's expressions, which decide how deep walking them may go."""
    return sum(1 for q in group.equations for e in q.expressions for _ in walk_expr(e))


def lower_group(group: Group, target: Target) -> Kernel:
    with room_for(nodes_of(group)):
        return _lowered(group, schedule_group(group), target)


def _lowered(group: Group, schedule: KernelSchedule, target: Target) -> Kernel:
    operands, panels, marks = _operands(group, schedule, target)
    module = Module(target)
    lanes = target.lanes(_element_bytes(schedule))
    reported = ReportedElements(
        schedule.unnamed, frozenset(q.unbacked for q in group.equations if q.unbacked is not None)
    )
    with module.kernel(_NAME) as f:
        polls = Polls(f, deep=schedule.is_unbounded) if schedule.polls else None
        numbers = enumerate((*operands, *group.outputs))
        places = {t: k for k, operand in numbers if (t := marks.get(k, operand)) is not None and isinstance(t, Tensor)}
        most_literal = MOST_LITERAL if schedule.passes_numbers else None
        bounds = {t: magnitude_bound(a) for t, a in group.constants.items()}
        ctx = KernelContext.of_kernel(
            f, places, lanes=lanes, reported=reported, polls=polls, most_literal=most_literal,
            magnitudes={t: b for t, b in bounds.items() if b is not None},
        )  # fmt: skip
        if not (schedule.errors or schedule.is_plain):
            end_if_empty(ctx, group.outputs)
        for t in schedule.temporaries:
            ctx.memory.place(t)
        pieces = schedule.functions()
        if schedule.serial:
            with ctx.levels.when(ctx.parts.is_first()), ctx.parts.undivided():
                emit_phases(ctx, schedule, panels)
        elif len(pieces) > 1:
            for k, piece in enumerate(pieces):
                _emit_callee(ctx, f"{_NAME}_{k}", piece)
        else:
            emit_phases(ctx, schedule, panels)
        f.ret(const(I32, 0))
    errors = _with_reported(schedule.errors, ctx)
    text = module.text()
    symbol = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    phases = [p for p in schedule.phases if not isinstance(p, Recurrence | LoweredProcedure)]
    pairs = reuse_pairs(phases, operands, group.outputs) if len(phases) == len(schedule.phases) else ReusePairs()
    return Kernel(
        symbol=symbol,
        code=WrittenCode(text.replace(_NAME, symbol)),
        scalars=tuple(ctx.sizes.table),
        inputs=operands,
        outputs=group.outputs,
        scratch=ctx.memory.bytes,
        errors=errors,
        schedule=tuple(name for p in schedule.phases for name in form_names(p)),
        imports=tuple(module.imports),
        reusable=pairs.by_size,
        overwrites=pairs.by_shape,
        work=schedule.work(lanes, target),
        pieces=schedule.pieces(lanes, target),
        polls=schedule.polls,
        shares=ctx.parts.shares,
    )


def _emit_callee(ctx: KernelContext, name: str, piece: KernelSchedule) -> None:
    """Emits a piece of the schedule as a function of its own, which the kernel calls."""
    f = ctx.f
    with f.module.function(name, I32, KERNEL_ARGS, internal=True, inline=False, noalias=False) as own:
        callee = ctx.of_callee(own)
        emit_phases(callee, piece, {})
        own.ret(const(I32, 0))
    ctx.memory.cover(callee.memory)
    f.call(name, I32, f.args)


def _with_reported(errors: Sequence[KernelError], ctx: KernelContext) -> tuple[KernelError, ...]:
    """The errors with the tensors of which they report elements. Sizes that they mention are passed too, so that they are reported as
    numbers; not those that the kernel itself computes."""
    reported, sizes = ctx.values.reported, ctx.sizes
    read = tuple(replace(e, read=reported.tensors.get(number, ())) for number, e in enumerate(errors, 1))
    for number in reported.tensors:
        for n in read[number - 1].sizes:
            if not isinstance(n, int) and not reported.is_computed(n):
                sizes.add(n)
    return read


KernelOperand = Tensor | PackedConstant


def _operands(
    group: Group, schedule: KernelSchedule, target: Target
) -> tuple[tuple[KernelOperand, ...], dict[Product, Tensor], dict[int, Tensor]]:
    """The operands with constants in their packed form, which comes in place of the tensor where nothing else reads it.

    The second result names the packed form of each product: a tensor that only marks its place among the operands. The third has the marks
    by their places, those of sums of constants too.
    """
    operands: list[KernelOperand] = list(group.inputs)
    panels: dict[Product, Tensor] = {}
    marks: dict[int, Tensor] = {}
    products = [s for s in schedule.steps if isinstance(s, Product)]
    alike = _packed_alike(products, target)
    for p in products:
        for sums in p.known:
            marks[len(operands)] = sums.tensor
            operands.append(pack_sums(sums, group.constants[sums.of.tensor]))
        t = p.constant
        if t is None or p in panels:
            continue
        packed = prepack(p, group.constants[t], target)
        place = operands.index(t) if t in operands and _reads(schedule, t) == len(alike[p]) else len(operands)
        operands[place : place + 1] = [packed]
        mark = marks[place] = Tensor(f"panels{len(marks)}", t.dtype, t.shape)
        panels |= dict.fromkeys(alike[p], mark)
    return tuple(operands), panels, marks


def _packed_alike(products: Sequence[Product], target: Target) -> dict[Product, list[Product]]:
    """The products that read the same constant in the same panels, for each of them."""
    by_panels: dict[tuple[Tensor, PanelLayout], list[Product]] = {}
    for p in products:
        if p.constant is not None:
            by_panels.setdefault((p.constant, panel_layout(p, target)), []).append(p)
    return {p: own for own in by_panels.values() for p in own}


def _reads(schedule: KernelSchedule, t: Tensor) -> int:
    """Counts the places of the graph that read a tensor."""
    stores = [*schedule.stores]
    ordered = [r for p in schedule.phases if isinstance(p, Ordered) for r in p.roots]
    nodes = walk([*(r for s in stores for r in s.roots), *ordered])
    loads: set[DagNode] = {n for n in nodes if isinstance(n, Load) and n.access.tensor is t}
    return sum(a in loads for n in nodes for a in n.inputs) + sum(s.value in loads for s in stores)


def _element_bytes(schedule: KernelSchedule) -> int:
    """The element size that decides the number of lanes: 4 bytes unless all that is computed is 8 bytes wide."""
    stores = [*schedule.stores]
    dtypes: set[DType] = {s.access.tensor.dtype for s in stores}
    dtypes |= {n.dtype for n in walk(s.value for s in stores)}
    sizes = {d.itemsize for d in dtypes if d.kind != "bool"}
    return 8 if sizes == {8} else 4
