"""The schedule of a kernel: phases in the order in which they run.

In: a `Group`. Out: a `KernelSchedule`. The steps are a list: inline, collapse, split into phases, plan. What a phase is to others is one
`match` each: as code in `emit/phases.py`, as text in `describe.py`, as cycles in `KernelSchedule.work`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Size, substitute
from anyshape.equations import Sorting, Tensor
from anyshape.kernel_model.contractions import QuantisationConstants
from anyshape.kernel_model.costs import SORT_CYCLES
from anyshape.lower.analyse.collapse import collapse
from anyshape.lower.analyse.periods import split_periods
from anyshape.lower.analyse.unbounded import is_unbounded
from anyshape.lower.analyse.windows import Folded, Windows, row_windows
from anyshape.lower.analyse.written_out import Spread, Tiled, written_out
from anyshape.lower.ir.dag import Dag, Reduction, walk
from anyshape.lower.ir.procedure import LoweredProcedure
from anyshape.lower.ir.stores import Ordered, Store, reductions_of
from anyshape.lower.kernel import Group, KernelError
from anyshape.lower.schedule.blocked import Blocked, block_phases
from anyshape.lower.schedule.byte_sums import MOST, with_byte_sums
from anyshape.lower.schedule.contraction import split_phases
from anyshape.lower.schedule.inline import inline_group
from anyshape.lower.schedule.interior import with_interior
from anyshape.lower.schedule.lanes_first import lanes_first, usual_iterations, write_out_lookups
from anyshape.lower.schedule.longer_rows import with_longer_rows
from anyshape.lower.schedule.products import InMemory, PhaseStep, Product
from anyshape.lower.schedule.recurrence import Recurrence, RowForm, StepForm, plan_recurrence
from anyshape.lower.schedule.row_groups import row_groups
from anyshape.lower.schedule.shared_steps import pieces_of, shared_products
from anyshape.lower.schedule.tree import MOST_STORES, Scope, Usual, components, plan
from anyshape.lower.schedule.word_dots import with_dots
from anyshape.lower.schedule.work import cycles, cycles_of_rows, points
from anyshape.lower.target import Target

Phase = PhaseStep | Blocked | Recurrence | Ordered | LoweredProcedure


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSchedule:
    """The schedule of a group: phases, the tensors that stay in scratch, whether part 0 runs them alone."""

    phases: tuple[Phase, ...]
    temporaries: tuple[Tensor, ...]
    serial: bool
    errors: tuple[KernelError, ...]
    unnamed: frozenset[Tensor] = frozenset()

    @property
    def steps(self) -> Iterator[PhaseStep]:
        """All steps, with those inside of other phases."""
        for p in self.phases:
            match p:
                case Scope() | Product():
                    yield p
                case Blocked(all_steps=steps) | Recurrence(steps=steps):
                    yield from steps

    @property
    def stores(self) -> Iterator[Store]:
        """Stores of all phases whose elements may come in any order."""
        return (s for p in self.phases if not isinstance(p, Ordered | LoweredProcedure) for s in p.stores)

    @property
    def polls(self) -> bool:
        """Whether one part may take long however many there are: it is alone, has work of all parts, or an element takes long."""
        sequential = any(isinstance(p, Recurrence | Ordered | LoweredProcedure) for p in self.phases)
        products = any(isinstance(s, Product) for s in self.steps)
        return self.serial or sequential or products or self.is_unbounded

    @property
    def passes_numbers(self) -> bool:
        """Whether numbers among the sizes are passed as if they were unknown, so that layers of several widths share the code: it is long,
        as for windows and tiles, or a network has it in many widths, as for products in batches of constants."""
        return any(
            (
                isinstance(p, Product)
                and (
                    p.windows is not None or not isinstance(p.a, InMemory) or (p.constant is not None and bool(p.batch))
                )
            )
            or (isinstance(p, Scope) and p.tiled is not None)
            for p in self.phases
        )

    @property
    def is_unbounded(self) -> bool:
        """Whether an element of a result may take any time, with memory for none of it."""
        return any(is_unbounded(n) for n in walk(r for s in self.stores for r in s.roots) if isinstance(n, Reduction))

    @property
    def is_plain(self) -> bool:
        """Whether all phases are independent loops without scratch."""
        return not self.temporaries and all(isinstance(p, Scope) for p in self.phases)

    def pieces(self, lanes: int, target: Target) -> Size | None:
        """The most parts that have work, if that is few."""
        recurrence = next((p for p in self.phases if isinstance(p, Recurrence)), None)
        match recurrence:
            case None:
                sort = next((p for p in self.phases if isinstance(p, Ordered)), None)
                return None if sort is None or self.serial else points(sort.store.variables)
            case Recurrence(form=RowForm(variables=(outermost, *_), vector=vector)) if outermost is not vector:
                return outermost.extent
        if recurrence.rows is None:
            return points(recurrence.around)
        shared = shared_products(recurrence, lanes, target)
        return pieces_of(recurrence.rows, any(p in shared for p in recurrence.steps_of_position))

    def work(self, lanes: int, target: Target) -> Size:
        """Rough cycles of all parts together, of blocks as if they were none; 0 if the first part does everything."""
        if self.serial or self.pieces(lanes, target) == 1:
            return 0
        steps: list[PhaseStep] = []
        repeated: Size = 0
        for p in self.phases:
            match p:
                case Scope() | Product():
                    steps.append(p)
                case Blocked():
                    steps += p.whole
                case Recurrence(form=RowForm() as form):
                    step = cycles_of_rows(form.stores, 1 if form.vector is None else lanes)
                    repeated = repeated + p.positions.extent * step
                case Recurrence():
                    of_rows = {} if p.rows is None else {p.rows.count: p.rows.all}
                    step = substitute(cycles(p.steps_of_position, lanes, target), of_rows)
                    repeated = repeated + p.positions.extent * step
                    if p.ahead is not None:
                        whole = cycles(p.ahead.whole, lanes, target)
                        repeated = repeated + substitute(whole, {p.ahead.count: p.positions.extent})
                case Ordered():  # a sort, as the kernel is not serial
                    repeated = repeated + points((*p.store.variables, *p.over)) * SORT_CYCLES
        return cycles(steps, lanes, target) + repeated

    def functions(self) -> list[KernelSchedule]:
        """Splits the schedule into pieces, each short enough for a function of its own, where its phases are independent."""
        if not self.is_plain or self.errors or self.serial or self.polls:
            return [self]
        pieces: list[list[Phase]] = [[]]
        room = MOST_STORES
        for p in self.phases:
            count = len(p.stores) if isinstance(p, Scope) else 0
            if pieces[-1] and count > room:
                pieces.append([])
                room = MOST_STORES
            pieces[-1].append(p)
            room -= count
        return [replace(self, phases=tuple(own)) for own in pieces]


def schedule_group(group: Group) -> KernelSchedule:
    inlined = inline_group(group)
    if inlined.procedures:
        return KernelSchedule(
            phases=inlined.procedures, temporaries=inlined.temporaries, serial=True, errors=inlined.errors
        )
    # one component after the other: that others have a variable alone keeps no pair from being one loop
    dag = inlined.dag
    dotted = [with_dots(dag, stage) for stage in inlined.stages]
    parts = [[collapse(dag, [split_periods(dag, part)])[0] for part in components(stage)] for stage in dotted]
    constants = frozenset(group.constants)
    stages = [[s for part in stage for s in with_longer_rows(dag, part, constants)] for stage in parts]
    first, whole = _phases(inlined.dag, stages, group)
    recurrences = tuple(plan_recurrence(inlined.dag, s, group.outputs, group.constants) for s in inlined.recurrences)
    serial = len(stages) > 1 or bool(whole) or _is_serial_after((*first, *recurrences), inlined.ordered)
    temporaries = (*inlined.temporaries, *whole, *(t for r in recurrences for t in r.temporaries))
    dropped = _dropped(recurrences, stages)
    return KernelSchedule(
        phases=(*first, *recurrences, *inlined.ordered),
        temporaries=tuple(t for t in temporaries if t not in dropped),
        serial=serial or _are_serial(recurrences, first),
        errors=inlined.errors,
        unnamed=inlined.unnamed,
    )


def _phases(dag: Dag, stages: list[list[Store]], group: Group) -> tuple[list[PhaseStep | Blocked], list[Tensor]]:
    """The phases of the stages, and the tensors that one of them keeps for another as a whole."""
    phases: list[PhaseStep | Blocked] = []
    whole: list[Tensor] = []
    for c in split_phases(dag, stages, group.constants):
        blocked = block_phases(dag, c.items, c.temporaries) if c.temporaries else None
        if blocked is not None:
            phases.append(blocked)
            continue
        phases += [p if isinstance(p, Product) else _planned(dag, p, group.constants) for p in c.items]
        whole += c.temporaries
    return phases, whole


def _planned(dag: Dag, stores: list[Store], constants: Mapping[Tensor, NDArray[Any]]) -> Scope:
    match written_out(dag, stores, constants):
        case Spread(spread, staged):
            scope = plan([*spread])
            if staged is not None:
                return replace(scope, windows=Windows(staged, ()))
            return replace(scope, spread=scope.vector is not None and len(scope.variables) > 1)
        case Tiled() as tiled:
            return replace(plan(stores), tiled=tiled)
    match row_windows(dag, stores):
        case Folded() as folded:
            return replace(plan(stores), folded=folded)
        case Windows() as windows:
            return replace(plan(stores), windows=windows)
    scope = _by_lookups(dag, stores)
    sums = with_byte_sums(dag, stores, QuantisationConstants.among(constants).scales)
    if sums is None or scope.usual is not None or any(dims.le(n, MOST) is False for n in sums.counts):
        return scope
    integers = _by_lookups(dag, [*sums.stores])
    most = tuple((n, MOST) for n in sums.counts if dims.le(n, MOST) is not True)
    return replace(scope, usual=Usual((), integers, most)) if most else integers


def _by_lookups(dag: Dag, stores: list[Store]) -> Scope:
    """Rows that may be loops inside of the loop of a vector, or rows at once, or have an inside."""
    plain = plan(write_out_lookups(dag, stores, {}))
    groups = row_groups(dag, stores, plain)
    if groups is not None:
        return replace(plain, groups=groups)
    scope = with_interior(dag, lanes_first(plain), plain)
    iterations = usual_iterations(stores)
    if iterations:
        usual = lanes_first(plan(write_out_lookups(dag, stores, iterations)))
        scope = replace(scope, usual=Usual(tuple((v.extent, n) for v, n in iterations.items()), usual))
    return scope


def _is_serial_after(before: Sequence[Phase], ordered: Sequence[Ordered]) -> bool:
    """Whether ordered stores are for part 0 alone: all but a single sort of rows without other phases."""
    return bool(ordered) and (bool(before) or len(ordered) > 1 or not isinstance(ordered[0].form, Sorting))


def _dropped(recurrences: Sequence[Recurrence], stages: list[list[Store]]) -> set[Tensor]:
    """Tensors that rows of recurrences hold in registers in place of memory; a start is read from memory."""
    dropped = {t for r in recurrences if isinstance(r.form, RowForm) for t in r.form.dropped}
    return dropped - {s.access.tensor for stage in stages for s in stage}


def _are_serial(recurrences: Sequence[Recurrence], before: Sequence[PhaseStep | Blocked]) -> bool:
    """Whether recurrences, and what is stored before them, are for one part alone."""
    alone = len(recurrences) > 1 or any(isinstance(r.form, StepForm) and not r.form.is_shared_out for r in recurrences)
    return alone or (bool(recurrences) and not all(_are_starts(p.stores, recurrences[0]) for p in before))


def _are_starts(stores: tuple[Store, ...], r: Recurrence) -> bool:
    """Whether all that is stored is where the recurrence begins, and little: every part may repeat it."""
    cycle = {s.access.tensor for s in r.stores}
    shared = isinstance(r.form, StepForm) and r.form.is_shared_out
    return shared and not reductions_of(stores) and all(s.access.tensor in cycle for s in stores)
