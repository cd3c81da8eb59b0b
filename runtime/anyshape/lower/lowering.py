"""`lower_group`: from a fused group of equations to a kernel.

In: a `Group` and a `Target`. Out: a `Kernel`. The steps are a list: inline, collapse, split into phases, plan, emit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.equations.traversal import walk as walk_expr
from anyshape.lower.analyse.collapse import collapse
from anyshape.lower.analyse.windows import row_windows
from anyshape.lower.depth import room_for
from anyshape.lower.emit.blocked import emit_blocked
from anyshape.lower.emit.empty_loops import end_if_empty, unless_empty
from anyshape.lower.emit.ordered import emit_ordered, form_name, serial_after
from anyshape.lower.emit.procedure import emit_procedure
from anyshape.lower.emit.product import OfBlock, emit_product, prepack
from anyshape.lower.emit.recurrence import emit_recurrence
from anyshape.lower.emit.rows import Rows
from anyshape.lower.emit.transposed import can_transpose, emit_transposed
from anyshape.lower.emit.windows import emit_windows
from anyshape.lower.ir.dag import Dag, DagNode, Load, walk
from anyshape.lower.ir.procedure import Procedure
from anyshape.lower.ir.stores import Ordered, Store, reductions_of
from anyshape.lower.kernel import Group, Kernel, KernelError, Packed
from anyshape.lower.llvm.builder import KERNEL_ARGS, Module
from anyshape.lower.llvm.polling import Polls
from anyshape.lower.llvm.types import I32, I64, const
from anyshape.lower.schedule.blocked import Blocked, block_phases
from anyshape.lower.schedule.contraction import Product, split_phases
from anyshape.lower.schedule.inline import inline_group
from anyshape.lower.schedule.recurrence import Recurrence, plan_recurrence
from anyshape.lower.schedule.reuse import reusable
from anyshape.lower.schedule.tree import MOST_STORES, Scope, components, plan
from anyshape.lower.schedule.work import cycles
from anyshape.lower.target import Target

_NAME = "anyshape_kernel"


@dataclass(frozen=True, slots=True)
class KernelSchedule:
    """What a group became: scopes and products in order, by blocks of rows or whole, the tensors that stay in scratch."""

    steps: tuple[Scope | Product | Blocked, ...]
    stages: tuple[tuple[Store, ...], ...]
    temporaries: tuple[Tensor, ...]
    serial: bool
    errors: tuple[KernelError, ...]
    ordered: tuple[Ordered, ...] = ()
    recurrences: tuple[Recurrence, ...] = ()
    procedures: tuple[Procedure, ...] = ()
    unnamed: frozenset[Tensor] = frozenset()

    @property
    def all_steps(self) -> tuple[Scope | Product, ...]:
        own = (inner for s in self.steps for inner in (s.all_steps if isinstance(s, Blocked) else (s,)))
        return (*own, *(p for r in self.recurrences for p in r.phases))

    @property
    def polls(self) -> bool:
        """Whether one part may take long however many there are: it is alone, or has work that all parts would have to do."""
        others = self.serial or self.ordered or self.recurrences or self.procedures
        return bool(others) or any(isinstance(s, Product) for s in self.all_steps)

    @property
    def is_plain(self) -> bool:
        """Loops that make nothing but what they store, each for itself."""
        others = self.ordered or self.recurrences or self.procedures or self.temporaries
        return not others and all(isinstance(s, Scope) for s in self.steps)

    @property
    def whole(self) -> Iterator[tuple[Scope | Product, tuple[Store, ...]]]:
        """Steps with their stores, those of blocks as if they were not."""
        for step, stores in zip(self.steps, self.stages, strict=True):
            if isinstance(step, Blocked):
                yield from step.whole
            else:
                yield step, stores

    @property
    def all_stages(self) -> tuple[tuple[Store, ...], ...]:
        return (*self.stages, *(stage for r in self.recurrences for stage in r.stages))


Planned = tuple[Scope | Product | Blocked, ...]
Stored = tuple[tuple[Store, ...], ...]


def schedule_group(group: Group) -> KernelSchedule:
    inlined = inline_group(group)
    if inlined.procedures:
        return KernelSchedule((), (), inlined.temporaries, True, inlined.errors, procedures=inlined.procedures)
    # one component after the other: that others have a variable alone keeps no pair from being one loop
    parts = [[collapse(inlined.dag, [part])[0] for part in components(stage)] for stage in inlined.stages]
    stages = [[s for part in stage for s in part] for stage in parts]
    steps, stores, whole = _phases(inlined.dag, stages, group)
    found = tuple(plan_recurrence(inlined.dag, s, group.outputs, group.constants) for s in inlined.recurrences)
    serial = len(stages) > 1 or bool(whole) or serial_after(bool(steps or found), inlined.ordered)
    temporaries = (*inlined.temporaries, *whole, *(t for r in found for t in r.temporaries))
    dropped = _dropped(found, stages)
    return KernelSchedule(
        steps,
        stores,
        tuple(t for t in temporaries if t not in dropped),
        serial or _are_serial(found, stores),
        inlined.errors,
        inlined.ordered,
        found,
        unnamed=inlined.unnamed,
    )


def _phases(dag: Dag, stages: list[list[Store]], group: Group) -> tuple[Planned, Stored, list[Tensor]]:
    """The steps of the stages with their stores, and what one of them keeps for another as a whole."""
    steps: list[Scope | Product | Blocked] = []
    stores: list[tuple[Store, ...]] = []
    whole: list[Tensor] = []
    for c in split_phases(dag, stages, group.constants):
        blocked = block_phases(dag, c.items, c.temporaries) if c.temporaries else None
        if blocked is not None:
            steps.append(blocked)
            stores.append(blocked.stores)
            continue
        steps += [p if isinstance(p, Product) else _planned(dag, p) for p in c.items]
        stores += [tuple(p.stores) if isinstance(p, Product) else tuple(p) for p in c.items]
        whole += c.temporaries
    return tuple(steps), tuple(stores), whole


def _dropped(found: Sequence[Recurrence], stages: list[list[Store]]) -> set[Tensor]:
    """What rows of recurrences hold in place of memory; a start is read from there."""
    dropped = {t for r in found if r.rows is not None for t in r.rows.dropped}
    return dropped - {s.access.tensor for stage in stages for s in stage}


def _are_serial(found: Sequence[Recurrence], stores: Stored) -> bool:
    """Whether recurrences, and what is stored before them, are for one part alone."""
    alone = len(found) > 1 or any(r.rows is None and not r.around for r in found)
    return alone or (bool(found) and not all(_are_starts(step, found[0]) for step in stores))


def _are_starts(stores: tuple[Store, ...], r: Recurrence) -> bool:
    """Whether all that is stored is where the recurrence begins, and little: every part of what is around it may do it again."""
    cycle = {s.access.tensor for stage in r.stages for s in stage}
    return bool(r.around) and not reductions_of(stores) and all(s.access.tensor in cycle for s in stores)


def _planned(dag: Dag, stores: list[Store]) -> Scope:
    scope = plan(stores)
    scope.windows = row_windows(dag, stores)
    return scope


def nodes_of(group: Group) -> int:
    """Of its expressions: what decides how deep walking them may go."""
    return sum(1 for q in group.equations for e in q.expressions for _ in walk_expr(e))


def lower_group(group: Group, target: Target) -> Kernel:
    with room_for(nodes_of(group)):
        return _lowered(group, schedule_group(group), target)


def _lowered(group: Group, schedule: KernelSchedule, target: Target) -> Kernel:
    operands, panels = _operands(group, schedule, target)
    module = Module(target)
    places, element_bytes = _places(operands, group.outputs, panels), _element_bytes(schedule)
    with module.kernel(_NAME) as f:
        rows = Rows(f, places)
        rows.element_bytes = element_bytes
        if schedule.polls:
            rows.polls = Polls(f)
        rows.unnamed, rows.found = schedule.unnamed, frozenset(q.born for q in group.equations if q.born is not None)
        if not (schedule.errors or schedule.is_plain):
            end_if_empty(rows, group.outputs)
        for t in schedule.temporaries:
            rows.place(t)
        pieces = _functions(schedule)
        if schedule.serial:
            rows.part, rows.nparts = const(I64, 0), const(I64, 1)
            with rows.when(f.compare("eq", f.args[3], 0)):
                _emit(rows, schedule, panels)
        elif len(pieces) > 1:
            for k, piece in enumerate(pieces):
                _emit_apart(rows, f"{_NAME}_{k}", piece, places)
        else:
            _emit(rows, schedule, panels)
        f.ret(const(I32, 0))
    errors = _told(schedule.errors, rows)
    text = module.text()
    symbol = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    forms = (*("blocked" for s in schedule.steps if isinstance(s, Blocked)), *map(_form, schedule.all_steps))
    forms += tuple("steps" for r in schedule.recurrences if r.rows is not None)
    forms += tuple(form_name(o) for o in schedule.ordered)
    forms += ("procedure",) * len(schedule.procedures)
    return Kernel(
        symbol,
        text.replace(_NAME, symbol),
        tuple(rows.scalars),
        operands,
        group.outputs,
        rows.scratch,
        errors,
        forms,
        tuple(module.imports),
        ()
        if schedule.recurrences or schedule.procedures
        else reusable(
            schedule.steps, schedule.stages, operands, group.outputs, [r for o in schedule.ordered for r in o.roots]
        ),
        _work(schedule, target.lanes(rows.element_bytes), target),
        _pieces(schedule),
        schedule.polls,
    )


def _functions(schedule: KernelSchedule) -> list[KernelSchedule]:
    """The schedule in pieces, each short enough for a function of its own, where its steps have nothing to do with each other."""
    if not schedule.is_plain or schedule.errors or schedule.serial or schedule.polls:
        return [schedule]
    found: list[list[int]] = [[]]
    room = MOST_STORES
    for k, stores in enumerate(schedule.stages):
        if found[-1] and len(stores) > room:
            found.append([])
            room = MOST_STORES
        found[-1].append(k)
        room -= len(stores)
    pick = ((tuple(schedule.steps[k] for k in own), tuple(schedule.stages[k] for k in own)) for own in found)
    return [replace(schedule, steps=steps, stages=stages) for steps, stages in pick]


def _emit_apart(rows: Rows, name: str, piece: KernelSchedule, places: dict[Tensor, int]) -> None:
    """Loops in a function of their own, which the kernel calls."""
    f = rows.f
    with f.module.function(name, I32, KERNEL_ARGS, internal=True, inline=False, noalias=False) as own:
        inner = Rows(own, places)
        inner.element_bytes, inner.unnamed, inner.found = rows.element_bytes, rows.unnamed, rows.found
        inner.scalars, inner.scratch = rows.scalars, rows.scratch
        _emit(inner, piece, {})
        own.ret(const(I32, 0))
    rows.scratch = dims.maximum(rows.scratch, inner.scratch)
    f.call(name, I32, f.args)


def _told(errors: Sequence[KernelError], rows: Rows) -> tuple[KernelError, ...]:
    """The errors with the tensors of which they tell elements. Sizes that they tell are passed too, so that they are told as numbers; not
    those that the kernel itself finds."""
    found = tuple(replace(e, read=rows.errors.get(number, ())) for number, e in enumerate(errors, 1))
    for number in rows.errors:
        for n in found[number - 1].sizes:
            if not isinstance(n, int) and not dims.free_symbols(n) & rows.found:
                rows.scalars.setdefault(n, len(rows.scalars))
    return found


def _work(schedule: KernelSchedule, lanes: int, target: Target) -> Size:
    if schedule.serial or _pieces(schedule) == 1:
        return 0
    total = cycles(schedule.whole, lanes, target)
    for r in schedule.recurrences:
        total = total + r.extent * cycles(zip(r.phases, r.stages, strict=True), lanes, target)
    return total


def _pieces(schedule: KernelSchedule) -> Size | None:
    return next((r.pieces for r in schedule.recurrences), None)


def _form(step: Scope | Product) -> str:
    if isinstance(step, Product):
        return "product"
    return "windows" if step.windows is not None else "turned" if can_transpose(step) else "rows"


def _emit(rows: Rows, schedule: KernelSchedule, panels: dict[Product, Tensor]) -> None:
    written = frozenset(s.access.tensor for stores in schedule.all_stages for s in stores)
    written |= {o.store.access.tensor for o in schedule.ordered}

    def emit(step: Scope | Product, block: OfBlock | None = None) -> None:
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

    most: Size = 0
    with rows.alone() if schedule.recurrences else nullcontext():
        for step in schedule.steps:
            with rows.phase(written):
                if isinstance(step, Blocked):
                    emit_blocked(rows, step, written, emit)
                else:
                    begun = rows.scratch
                    emit(step)
                    if isinstance(step, Product):  # what it took is free again
                        rows.scratch, most = begun, dims.maximum(most, rows.scratch)
    for r in schedule.recurrences:
        with rows.phase(written):
            emit_recurrence(rows, r, written, emit, not schedule.serial)
    for o in schedule.ordered:
        with rows.phase(written):
            emit_ordered(rows, o)
    for p in schedule.procedures:
        emit_procedure(rows, p)
    rows.scratch = dims.maximum(most, rows.scratch)


Operand = Tensor | Packed


def _operands(
    group: Group, schedule: KernelSchedule, target: Target
) -> tuple[tuple[Operand, ...], dict[Product, Tensor]]:
    """The operands with constants in their packed form, which comes in place of the tensor where nothing else reads it.

    The second result names the packed form of each product: a tensor that only marks its place among the operands.
    """
    operands: list[Operand] = list(group.inputs)
    panels: dict[Product, Tensor] = {}
    products = [s for s in schedule.all_steps if isinstance(s, Product) and s.packed is not None]
    for p in products:
        t = p.packed
        assert t is not None
        packed = prepack(p, group.constants[t], target)
        if t in operands and _reads(schedule, t) == 1:
            operands[operands.index(t)] = packed
        else:
            operands.append(packed)
        panels[p] = Tensor(f"panels{len(panels)}", t.dtype, t.shape)
    return tuple(operands), panels


def _reads(schedule: KernelSchedule, t: Tensor) -> int:
    """How many places of the graph read a tensor."""
    roots = [r for stores in schedule.all_stages for s in stores for r in s.roots]
    nodes = walk([*roots, *(r for o in schedule.ordered for r in o.roots)])
    loads: set[DagNode] = {n for n in nodes if isinstance(n, Load) and n.access.tensor is t}
    return sum(a in loads for n in nodes for a in n.inputs) + sum(
        s.value in loads for ss in schedule.all_stages for s in ss
    )


def _places(
    operands: tuple[Operand, ...], outputs: tuple[Tensor, ...], panels: dict[Product, Tensor]
) -> dict[Tensor, int]:
    places: dict[Tensor, int] = {}
    marks = list(panels.items())
    for k, operand in enumerate((*operands, *outputs)):
        if isinstance(operand, Tensor):
            places[operand] = k
        else:
            mark = next(m for p, m in marks if p.packed is operand.tensor and m not in places)
            places[mark] = k
    return places


def _element_bytes(schedule: KernelSchedule) -> int:
    """Lanes are those of 4-byte elements unless all that is computed is 8 bytes wide."""
    dtypes: set[DType] = set()
    for stores in schedule.all_stages:
        for s in stores:
            dtypes.add(s.access.tensor.dtype)
            dtypes |= {n.dtype for n in walk([s.value])}
    sizes = {d.itemsize for d in dtypes if d.kind != "bool"}
    return 8 if sizes == {8} else 4
