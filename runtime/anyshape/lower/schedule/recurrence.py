"""Recurrences for the scheduler: the position of a step is a symbol, and what is computed at one position is an ordinary group.

In: stores of the equations of one cycle, in the order stated, at the position that a symbol stands for. Out: a `Recurrence`, of one of two
forms. *Rows of steps*: every element depends on earlier ones in its own row only, so that the loops over the rows are outside, and the
previous values stay in registers. *Steps of phases*: the loop over positions is outside, and holds matrix products and rows; loops over
variables of which the cycle computes each value independently, from operands of its own, are around it. Positions at which a condition
says that all values are others than those of the products have no products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Dim, Size, substitute
from anyshape.dtypes import I64
from anyshape.equations import Tensor
from anyshape.lower.analyse.classify import along_stores, cost
from anyshape.lower.analyse.collapse import Rebuild, collapse
from anyshape.lower.ir.dag import Access, Affine, Dag, DagNode, Load, LoopVar, Operation, Reduction, walk
from anyshape.lower.ir.stores import Store, below
from anyshape.lower.schedule.blocked import BlockOfRows, share_rows
from anyshape.lower.schedule.blocks_ahead import (
    BlockForm,
    StoresAhead,
    blocks_ahead,
    gathered,
    inside_of,
    is_around,
    rows_ahead,
)
from anyshape.lower.schedule.contraction import split_phases
from anyshape.lower.schedule.products import PhaseStep, Product, Unplanned


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of a recurrence, from the first one on or from the last one back; `symbol` stands for one of them."""

    symbol: Dim
    extent: Size
    backward: bool


@dataclass(frozen=True, eq=False, slots=True)
class CycleStores:
    """The stores of a recurrence in the order stated. `late` are loads of what is written at the same position: they follow the store."""

    positions: Positions
    stores: tuple[Store, ...]
    late: frozenset[Load]
    temporaries: tuple[Tensor, ...]
    """Tensors that are read at the same position only: they have no place for others."""
    ahead: StoresAhead | None = None


@dataclass(frozen=True, eq=False, slots=True)
class RowForm:
    """`carried`: loads of the previous position, each with the store that wrote it; `dropped` are tensors that nothing else reads.
    `several` has the same of `together` rows of the innermost variable, whose steps do not wait for each other."""

    stores: tuple[Store, ...]
    variables: tuple[LoopVar, ...]
    vector: LoopVar | None
    carried: tuple[tuple[Load, Store], ...]
    dropped: frozenset[Tensor]
    _: KW_ONLY
    together: int = 1
    several: RowForm | None = None


@dataclass(frozen=True, eq=False, slots=True)
class StepForm:
    """`around`: variables whose loops are around the one over the positions, and can be shared out. Positions at which `where` does not
    hold have the steps `otherwise`. `rows`: the steps are those of a block of rows that has all positions for itself. `ahead`: what they
    read that is computed for a block of positions."""

    steps: tuple[PhaseStep, ...]
    around: tuple[LoopVar, ...]
    _: KW_ONLY
    where: DagNode | None = None
    otherwise: tuple[PhaseStep, ...] = ()
    rows: BlockOfRows | None = None
    ahead: BlockForm | None = None

    @property
    def all_steps(self) -> tuple[PhaseStep, ...]:
        return (*(() if self.ahead is None else self.ahead.steps), *self.steps, *self.otherwise)

    @property
    def is_shared_out(self) -> bool:
        return bool(self.around) or self.rows is not None

    @property
    def stores(self) -> tuple[Store, ...]:
        return tuple(s for step in self.all_steps for s in step.stores)


@dataclass(frozen=True, eq=False, slots=True)
class Recurrence:
    """The schedule of a cycle."""

    positions: Positions
    form: RowForm | StepForm
    temporaries: tuple[Tensor, ...]

    @property
    def stores(self) -> tuple[Store, ...]:
        return self.form.stores

    @property
    def steps(self) -> tuple[PhaseStep, ...]:
        return self.form.all_steps if isinstance(self.form, StepForm) else ()

    @property
    def steps_of_position(self) -> tuple[PhaseStep, ...]:
        """The steps of one position, without those ahead of a block of positions."""
        return (*self.form.steps, *self.form.otherwise) if isinstance(self.form, StepForm) else ()

    @property
    def around(self) -> tuple[LoopVar, ...]:
        return self.form.around if isinstance(self.form, StepForm) else ()

    @property
    def rows(self) -> BlockOfRows | None:
        return self.form.rows if isinstance(self.form, StepForm) else None

    @property
    def ahead(self) -> BlockForm | None:
        return self.form.ahead if isinstance(self.form, StepForm) else None


def plan_recurrence(
    dag: Dag, cycle: CycleStores, outputs: tuple[Tensor, ...], constants: Mapping[Tensor, NDArray[Any]]
) -> Recurrence:
    around = _around(cycle)
    stages = _stages(dag, cycle, around)
    of_rows = _as_rows(cycle, stages, outputs)
    if of_rows is not None:
        return Recurrence(cycle.positions, _with_several(dag, of_rows), cycle.temporaries)
    where = _where(cycle, constants)
    rows = None if around else _rows_apart(cycle)
    if rows is not None:
        phases = _Phases.of(dag, _stages(dag, cycle, (rows,)), where, constants)
        lists = [phases.steps, phases.otherwise, *rows_ahead(dag, cycle.ahead, rows, constants)]
        shared = share_rows(dag, lists, rows)
        if shared is not None:
            steps, otherwise, *in_rows = shared.phases
            ahead = blocks_ahead(
                dag,
                cycle.ahead,
                cycle.positions.extent,
                (),
                constants,
                gathered(dag, cycle.ahead, [p for ps in in_rows for p in ps]),
            )
            form = StepForm(steps, (), where=where, otherwise=otherwise, rows=shared.rows, ahead=ahead)
            return Recurrence(cycle.positions, form, (*cycle.temporaries, *phases.temporaries))
    phases = _Phases.of(dag, stages, where, constants)
    if any(isinstance(p, Product) and not is_around(p, around) for p in phases.steps):
        around = ()
    steps, otherwise = (tuple(inside_of(p, around) for p in ps) for ps in (phases.steps, phases.otherwise))
    form = StepForm(
        steps,
        around,
        where=where,
        otherwise=otherwise,
        ahead=blocks_ahead(dag, cycle.ahead, cycle.positions.extent, around, constants),
    )
    return Recurrence(cycle.positions, form, (*cycle.temporaries, *phases.temporaries))


def _stages(dag: Dag, cycle: CycleStores, kept: tuple[LoopVar, ...]) -> list[list[Store]]:
    return [s for stage in _staged(cycle) for s in collapse(dag, [stage], frozenset(kept))]


@dataclass(frozen=True, eq=False, slots=True)
class _Phases:
    """What is computed at one position, and what where the condition does not hold; scratch between them."""

    steps: tuple[Unplanned, ...]
    otherwise: tuple[Unplanned, ...]
    temporaries: tuple[Tensor, ...]

    @staticmethod
    def of(
        dag: Dag, stages: list[list[Store]], where: DagNode | None, constants: Mapping[Tensor, NDArray[Any]]
    ) -> _Phases:
        otherwise: list[Unplanned] = []
        if where is not None:
            stages, otherwise = _split(stages, where)
        parts = split_phases(dag, stages, constants, bytes_=False)
        return _Phases(
            tuple(p for c in parts for p in c.items), tuple(otherwise), tuple(t for c in parts for t in c.temporaries)
        )


def _split(stages: list[list[Store]], where: DagNode) -> tuple[list[list[Store]], list[Unplanned]]:
    """The stores where the condition holds, and where it does not; what has no such choice is only for the former."""
    held: list[list[Store]] = []
    otherwise: list[Unplanned] = []
    for stage in stages:
        held.append([])
        for s in stage:
            choice = _choice(s, where)
            held[-1].append(s if choice is None else replace(s, value=choice[0]))
            if choice is not None:
                otherwise.append([replace(s, value=choice[1])])
    return held, otherwise


def _where(cycle: CycleStores, constants: Mapping[Tensor, NDArray[Any]]) -> DagNode | None:
    """The condition, of the position alone, under which every value that is kept is what a reduction is needed for. Where it does not hold,
    what is only read at its own position is read by nobody."""
    kept = [s for s in cycle.stores if s.access.tensor not in cycle.temporaries]
    first = kept[0].value if kept else None
    if not isinstance(first, Operation) or first.name != "select" or first.args[0].domain:
        return None
    where = first.args[0]
    choices = [_choice(s, where) for s in kept]
    alternatives = [c[1] for c in choices if c is not None]
    written = {s.access.tensor for s in cycle.stores}
    read = {n.access.tensor for n in walk([where, *alternatives]) if isinstance(n, Load)}
    sums = any(isinstance(n, Reduction) for n in walk([where, *alternatives]))
    return where if len(alternatives) == len(kept) and not sums and read.isdisjoint({*written, *constants}) else None


def _choice(s: Store, where: DagNode) -> tuple[DagNode, DagNode] | None:
    """What is stored where the condition holds, and where it does not."""
    v = s.value
    return (v.args[1], v.args[2]) if isinstance(v, Operation) and v.name == "select" and v.args[0] is where else None


def _around(cycle: CycleStores) -> tuple[LoopVar, ...]:
    """Variables of all stores, of which each value reads only what was written for it, and sums only what is its own."""
    summed = walk([n.body for n in below(cycle.stores) if isinstance(n, Reduction)])
    own = [n.access for n in summed if isinstance(n, Load)]
    return tuple(v for v in _apart(cycle) if all(v in x.domain for x in own)) if summed else ()


def _rows_apart(cycle: CycleStores) -> LoopVar | None:
    """The variable of all stores, of any extent, of which each value reads only what was written for it: a batch."""
    return next((v for v in _apart(cycle) if not isinstance(v.extent, int)), None)


def _apart(cycle: CycleStores) -> Iterator[LoopVar]:
    """Variables of all stores, of which each value reads only what was written for it."""
    nodes = below(cycle.stores)
    written: dict[Tensor, list[Access]] = {}
    for s in cycle.stores:
        written.setdefault(s.access.tensor, []).append(s.access)
    pairs = [
        (n.access, s)
        for n in nodes
        if isinstance(n, Load) and n.access.tensor in written
        for s in written[n.access.tensor]
    ]
    # a sum that does not depend on the variable may run over another of its name
    bound = {v for n in nodes if isinstance(n, Reduction) for v in n.variables}
    shared = frozenset.intersection(*(s.domain for s in cycle.stores)) - bound
    return (
        v for v in cycle.stores[0].variables if v in shared and all(_is_own(cycle.positions, x, s, v) for x, s in pairs)
    )


_FAR = 16
"""Positions, and elements of another dim, between what is written and what is read, at most, where anything is apart."""


def _is_own(along: Positions, load: Access, store: Access, v: LoopVar) -> bool:
    """Whether what is read was written for the same value of a variable: some positions away, and elsewhere along one dim that is another's
    at most."""
    step, moved = store.address.coefficient(v), load.address.offset - store.address.offset
    if load.address.lets or load.address.coefficient(v) != step:
        return False
    position = substitute(store.address.offset, {along.symbol: along.symbol + 1}) - store.address.offset
    offsets: set[Size] = {0}
    stride: Size = 1
    for n in reversed(load.tensor.shape):
        far = min(_FAR, n - 1) if isinstance(n, int) else _FAR
        offsets.update(stride * k for k in range(-far, far + 1) if stride != step)
        stride = stride * n
    return any(moved - position * k in offsets for k in range(-_FAR, _FAR + 1))


def _staged(cycle: CycleStores) -> list[list[Store]]:
    """Groups stores into stages: a store comes after those stated before it that it reads through memory at the same position."""
    level: dict[Store, int] = {}
    for k, s in enumerate(cycle.stores):
        read = {n.access.tensor for n in walk(s.roots) if isinstance(n, Load) and n in cycle.late}
        level[s] = max((level[o] + 1 for o in cycle.stores[:k] if o.access.tensor in read), default=0)
    return [[s for s in cycle.stores if level[s] == k] for k in range(max(level.values(), default=-1) + 1)]


def _as_rows(cycle: CycleStores, stages: list[list[Store]], outputs: tuple[Tensor, ...]) -> RowForm | None:
    """The form as rows of steps, if nothing is reduced, and reads of what the cycle writes are of the element's own row."""
    if len(stages) != 1:
        return None
    stores = stages[0]
    nodes = below(stores)
    written: dict[Tensor, list[Store]] = {}
    for s in stores:
        written.setdefault(s.access.tensor, []).append(s)
    variables = stores[0].variables
    if any(isinstance(n, Reduction) for n in nodes) or any(set(s.variables) != set(variables) for s in stores):
        return None
    loads = [(n, written[n.access.tensor]) for n in nodes if isinstance(n, Load) and n.access.tensor in written]
    if any(not _same_row(n.access, s.access) for n, own in loads for s in own):
        return None
    carried = {n: own[0] for n, own in loads if len(own) == 1 and _is_previous(cycle, n.access, own[0].access)}
    kept = {*outputs, *(n.access.tensor for n, _ in loads if n not in carried)}
    vector = None if _looks_up(stores, carried) else next((v for v in along_stores(stores) if v in variables), None)
    order = (*(v for v in variables if v is not vector), *([vector] if vector is not None else []))
    return RowForm(tuple(stores), order, vector, tuple(carried.items()), frozenset(t for t in written if t not in kept))


ROWS = 4
"""Rows that take their steps together: each step waits for the one before, an addition of floats for three to five cycles."""
MOST_CYCLES = 20
"""Most cycles of a step that is taken for several rows: beyond, there is enough else to do while it waits."""
LOOKING_UP = (8, 9, 7, 10, 6, 5)
"""Rows that take their steps together where these read at places that the step before decides, and wait for memory: the first of these
numbers that leaves the fewest rows over, which take their steps one by one."""
MOST_LOOKUP_CYCLES = 100
"""Most cycles of such a step: eight of them are code enough."""


def _looks_up(stores: Sequence[Store], carried: Mapping[Load, Store]) -> bool:
    """Whether a step reads at places that the step before decides: lanes would be read one by one, and each wait for all of them."""
    loads = (n for n in below(stores) if isinstance(n, Load))
    places = {i for n in loads for i, _ in n.access.address.lets}
    return any(n in carried for n in walk(places) if isinstance(n, Load))


def _with_several(dag: Dag, form: RowForm) -> RowForm:
    """The form with that of several rows, if lanes do not run along them."""
    if form.vector is not None or not form.variables or not form.carried:
        return form
    looks_up = _looks_up(form.stores, dict(form.carried))
    cycles = sum(cost(s.value, frozenset(form.variables)) for s in form.stores)
    if cycles > (MOST_LOOKUP_CYCLES if looks_up else MOST_CYCLES):
        return form
    numbers = LOOKING_UP if looks_up else (ROWS,)
    form = replace(form, variables=_longest_last(form.variables, min(numbers)))
    innermost = form.variables[-1].extent
    together = min(numbers, key=lambda k: innermost % k) if isinstance(innermost, int) else numbers[0]
    rows = [_RowCopies(dag, form.variables[-1], k) for k in range(together)]
    stores = [{s: row.store(s) for s in form.stores} for row in rows]
    carried = [(row.node(load), own[s]) for row, own in zip(rows, stores, strict=True) for load, s in form.carried]
    pairs = tuple((load, s) for load, s in carried if isinstance(load, Load))
    own = tuple(s for of_row in stores for s in of_row.values())
    return replace(form, several=replace(form, stores=own, carried=pairs, together=together))


def _longest_last(variables: tuple[LoopVar, ...], least: int) -> tuple[LoopVar, ...]:
    """The variables with the last one of them innermost that may have so many values."""
    long = [v for v in variables if not isinstance(v.extent, int) or v.extent >= least]
    return (*(v for v in variables if v is not long[-1]), long[-1]) if long else variables


class _RowCopies(Rebuild):
    """Copies of nodes for the row that is so many further."""

    def __init__(self, dag: Dag, variable: LoopVar, further: int) -> None:
        own = dag.var(variable, I64)
        super().__init__(dag, {own: dag.op("add", I64, own, dag.const(further, I64))} if further else None)
        self.variable, self.further = variable, further

    def affine(self, x: Affine) -> Affine:
        return super().affine(replace(x, offset=x.offset + x.coefficient(self.variable) * self.further))


def _same_row(load: Access, store: Access) -> bool:
    return not load.address.lets and not store.address.lets and load.address.terms == store.address.terms


def _is_previous(cycle: CycleStores, load: Access, store: Access) -> bool:
    at, back = cycle.positions.symbol, -1 if cycle.positions.backward else 1
    return bool(substitute(load.address.offset, {at: at + back}) == store.address.offset)
