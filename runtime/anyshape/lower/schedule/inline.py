"""Lowers equations to stores over one graph: map equations are inlined, movement becomes part of the accesses.

In: a `Group`. Out: `Inlined`: stores in an order that respects reads through memory, and the errors that checked
indices can raise. An intermediate stays in memory only where inlining would compute a reduction more than once, or
where several equations write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from anyshape import dims
from anyshape.dims import Size
from anyshape.dtypes import BOOL
from anyshape.equations import (
    Apply,
    Compaction,
    Const,
    Demand,
    Equation,
    Expr,
    Read,
    RecurrenceStep,
    Reduce,
    Run,
    Sorting,
    Tensor,
    Update,
    Var,
)
from anyshape.equations.dependencies import reads, units
from anyshape.equations.program import StepProgram
from anyshape.equations.traversal import walk as walk_expr
from anyshape.errors import UnsupportedError
from anyshape.kernel_model.position_blocks import read_by_steps
from anyshape.lower.ir.cycles import Cycle
from anyshape.lower.ir.dag import Access, Affine, Dag, DagNode, Load, LoopVar, Reduction, walk
from anyshape.lower.ir.index_forms import flatten
from anyshape.lower.ir.inline_values import Env, InlinedValues
from anyshape.lower.ir.padded import conjuncts
from anyshape.lower.ir.position_blocks import PositionBlock
from anyshape.lower.ir.procedure import LoweredProcedure, lower_program
from anyshape.lower.ir.stores import Demanded, DemandedPart, Ordered, Store
from anyshape.lower.kernel import Group, KernelError
from anyshape.lower.schedule.blocks_ahead import StoresAhead
from anyshape.lower.schedule.recurrence import CycleStores, Positions


@dataclass(kw_only=True)
class Inlined:
    """Stores by stage: those of a stage read, through memory, only what earlier stages wrote."""

    dag: Dag
    stages: list[list[Store]]
    temporaries: tuple[Tensor, ...]
    errors: tuple[KernelError, ...]
    ordered: tuple[Ordered, ...] = ()
    """Stores after the stages whose elements come one after the other."""
    recurrences: tuple[CycleStores, ...] = ()
    """Recurrences between the stages and the ordered stores."""
    procedures: tuple[LoweredProcedure, ...] = ()
    """Procedures of the group, which run in kernels of their own."""
    unnamed: frozenset[Tensor] = frozenset()
    """Scratch tensors that are no equation's."""


def inline_group(group: Group) -> Inlined:
    return _GroupInliner(group).run()


def _simple(q: Equation) -> bool:
    """Whether the index is distinct variables that cover the tensor, so that a read can be replaced by the value."""
    seen: set[Expr] = set()
    for i, n in zip(q.index, q.target.shape, strict=True):
        if isinstance(i, Var) and i.extent == n and i not in seen:
            seen.add(i)
        elif not (isinstance(i, Const) and i.value == 0 and n == 1):
            return False
    return True


def _by_target(equations: Iterable[Equation]) -> dict[Tensor, list[Equation]]:
    by_target: dict[Tensor, list[Equation]] = {}
    for q in equations:
        by_target.setdefault(q.target, []).append(q)
    return by_target


def _may_be_inlined(q: Equation, once: bool, indexed: bool) -> bool:
    """Whether the value can replace every read of its tensor: `once`, all read it in one form; `indexed`, some at an index from data."""
    if not _simple(q):
        return False
    if not once and any(isinstance(e, Reduce) for e in walk_expr(q.value)):
        return False  # it would be summed up anew for each
    # What reads nothing has no load that could carry the check of an index.
    return not indexed or any(isinstance(e, Read) for e in walk_expr(q.value))


class _GroupInliner(InlinedValues):
    """Decides what of a group is inlined; lowers the rest to stores."""

    def run(self) -> Inlined:
        programs = dict.fromkeys(q.form.program for q in self.group.equations if isinstance(q.form, Run))
        if programs:
            return self.procedures(tuple(programs))
        defined = _by_target(q for q in self.group.equations if q.form is None)
        cycles = [q for q in self.group.equations if isinstance(q.form, RecurrenceStep)]
        blocks = self.position_blocks()
        kept = [t for t in self.choose(defined, {q.target for q in (*cycles, *blocks)}) if t not in self.blocks]
        stores = [self.store(q) for t, qs in defined.items() if t in self.group.outputs or t in kept for q in qs]
        recurrences = tuple(self.recurrence(unit, blocks) for unit in units(cycles))
        kept += [s.access.tensor for r in recurrences for s in r.stores if s.access.tensor not in r.temporaries]
        ordered = [q for q in self.group.equations if q.form is not None and not isinstance(q.form, RecurrenceStep)]
        asked = [q.target for q in ordered if isinstance(q.form, Demand)]
        last = self.ordered_all(ordered)
        spilled = self.spilled or []
        unnamed = [s.access.tensor for s in spilled]
        stages = _staged([*stores, *spilled])
        own = tuple(t for t in (*dict.fromkeys(kept), *asked) if t not in self.group.outputs)
        return Inlined(
            dag=self.dag,
            stages=stages,
            temporaries=(*own, *unnamed),
            errors=tuple(self.errors),
            ordered=last,
            recurrences=recurrences,
            unnamed=frozenset(unnamed),
        )

    def position_blocks(self) -> list[Equation]:
        """The equations whose tensors a recurrence reads at one position in each step, which from here on are read in blocks."""
        axes = read_by_steps(self.group.equations)
        equations = [q for q in self.group.equations if q.target in axes and q.target not in self.group.outputs]
        first, most = dims.fresh("first"), dims.fresh("most")
        for q in equations:
            t, axis = q.target, axes[q.target]
            shape = tuple(most if k == axis else n for k, n in enumerate(t.shape))
            self.blocks[t] = PositionBlock(Tensor(t.name, t.dtype, shape), axis=axis, first=first, most=most)
        return equations

    def choose(self, defined: Mapping[Tensor, list[Equation]], stepped: Set[Tensor]) -> list[Tensor]:
        """Decides what is inlined; returns the tensors in memory that are no results. `stepped` are tensors of recurrences."""
        forms, indexed = self._read_forms(), self._indexed_by_data()
        kept: list[Tensor] = []
        for t, qs in defined.items():
            if any(e.tensor is t for q in qs for e in walk_expr(q.value) if isinstance(e, Read)):
                raise UnsupportedError(
                    f"{self.group.name}: {t.name} is read by its own equation, which is no recurrence"
                )
            once = len(forms.get(t, ())) <= 1
            if len(qs) == 1 and t not in stepped and _may_be_inlined(qs[0], once, t in indexed):
                self.inlined[t] = qs[0]
            elif t not in self.group.outputs:
                kept.append(t)
        return kept

    def procedures(self, programs: tuple[StepProgram, ...]) -> Inlined:
        """Programs, which are kernels of their own."""
        if any(not isinstance(q.form, Run) for q in self.group.equations):
            raise UnsupportedError(f"{self.group.name}: steps need a kernel of their own")
        lowered = tuple(self.procedure(p) for p in programs)
        kept = tuple(t for p in lowered for t in p.own if t.shape and t not in self.group.outputs)
        return Inlined(dag=self.dag, stages=[], temporaries=kept, errors=tuple(self.errors), procedures=lowered)

    def procedure(self, program: StepProgram) -> LoweredProcedure:
        stated = (q for q in self.group.equations if isinstance(q.form, Run) and q.form.program is program)
        with self.reading(next(stated)):
            return lower_program(program, self)

    def place(self, t: Tensor, index: Sequence[Expr], env: Env) -> Access:
        """The access of an element that is written."""
        at = [self.index(i, env, None) for i in index]
        return Access(t, flatten(t, at), (), self.checks(t, at, None, (t, index)))

    def recurrence(self, unit: list[Equation], blocks: Sequence[Equation]) -> CycleStores:
        """The stores of a cycle at one position, which a symbol stands for. Tensors that are only read at their own position have no
        others. `blocks`: equations of what is read of blocks of positions."""
        assert isinstance(unit[0].form, RecurrenceStep)
        targets = {q.target for q in unit}
        for q in self.group.equations:
            if q.form is None and targets & reads(q):
                raise UnsupportedError(f"{self.group.name}: {q.target.name} needs a kernel of its own")
        extent, backward = unit[0].form.along.extent, unit[0].form.backward
        self.cycle = cycle = Cycle(unit, dims.fresh("position"), self.group.outputs)
        self.memo = {}
        stores: list[Store] = []
        for q in cycle.stored:
            assert isinstance(q.form, RecurrenceStep)
            env: Env = {q.form.along: Affine((), cycle.position)}
            taken: list[LoopVar] = []
            for v in q.variables:
                if v not in env:
                    env[v] = self.bind(v, taken)
            with self.reading(q):
                value = self.value(q.value, env, None)
                index, spelled = [self.index(i, env, None) for i in q.index], list(q.index)
            target = cycle.momentary.get(q.target)
            if target is not None:
                del index[cycle.place(q.target)], spelled[cycle.place(q.target)]
            t = target or q.target
            with self.reading(q):
                access = Access(t, flatten(t, index), (), self.checks(t, index, None, (q.target, q.index), spelled))
            variables = tuple(w for v in q.variables for w, _ in env[v].terms)
            stores.append(Store(access, value, variables))
        self.cycle = None
        positions = Positions(cycle.position, extent, backward)
        read = {t for q in unit for t in reads(q)}
        ahead = self.ahead([q for q in blocks if q.target in read])
        return CycleStores(positions, tuple(stores), frozenset(cycle.late), tuple(cycle.momentary.values()), ahead)

    def ahead(self, equations: Sequence[Equation]) -> StoresAhead | None:
        """The stores of blocks of positions."""
        if not equations:
            return None
        blocks = [self.blocks[q.target] for q in equations]
        count, number, total = (dims.fresh(name) for name in ("count", "number", "total"))
        position = self.dag.variable(count)
        return StoresAhead(
            variable=position,
            count=count,
            number=number,
            total=total,
            blocks=blocks,
            stores=tuple(self.of_positions(q, Affine(((position, 1),))) for q in equations),
            of_one=tuple(self.of_positions(q, Affine((), number)) for q in equations),
        )

    def of_positions(self, q: Equation, position: Affine) -> Store:
        """The store of positions in a block."""
        block, env, taken = self.blocks[q.target], Env(), list[LoopVar]()
        for v in q.variables:
            at = v is q.index[block.axis]
            env[v] = position + Affine((), block.first) if at else self.bind(v, taken)
        with self.reading(q):
            value = self.value(q.value, env, None)
            index = [self.index(i, env, None) for i in q.index]
        block.written[:] = index
        variables = tuple(w for v in q.variables for w, _ in env[v].terms)
        return Store(Access(block.tensor, block.element(index)), value, variables)

    def ordered_all(self, equations: list[Equation]) -> tuple[Ordered, ...]:
        """Lowers stores whose elements come one after the other: they follow all others, and read none of each other's targets."""
        if not equations:
            return ()
        targets = {q.target for q in equations}
        assigned = {q.target for q in equations if not isinstance(q.form, Update)}
        for q in self.group.equations:
            if (targets if q.form is None else assigned) & reads(q):
                raise UnsupportedError(f"{self.group.name}: {q.target.name} needs a kernel of its own")
        self.spilled, self.memo = [], {}
        return tuple(self.ordered(q) for q in equations)

    def ordered(self, q: Equation) -> Ordered:
        with self.reading(q):
            return self._ordered(q)

    def _ordered(self, q: Equation) -> Ordered:
        env: Env = {}
        taken: list[LoopVar] = []
        for v in (*q.variables, *q.over):
            env[v] = self.bind(v, taken)
        self.loops = {w: k for k, w in enumerate(taken)}
        position = None
        if isinstance(q.form, (Compaction, Sorting)):
            position = self.dag.variable(q.form.along.extent)
            env[q.form.along] = Affine(((position, 1),))
        keep = None if q.where is None else self.value(q.where, env, None)
        value = self.value(q.value, env, keep)
        of_index = keep if isinstance(q.form, Update) else None
        index = [self.index(i, env, of_index) for i in q.index]
        access = Access(q.target, flatten(q.target, index), (), self.checks(q.target, index, None, (q.target, q.index)))
        demanded = None
        if isinstance(q.form, Demand):
            demanded = self._demanded(value, q.form.message)
            value = self.dag.const(True, BOOL)
        variables, over = (tuple(w for v in vs for w, _ in env[v].terms) for vs in (q.variables, q.over))
        assert q.form is not None
        return Ordered(q.form, Store(access, value, variables), over, position=position, where=keep, demanded=demanded)

    def _demanded(self, holds: DagNode, message: tuple[str | Size, ...]) -> Demanded:
        """Splits a demand into parts. One on every element is a reduction; its body says for which element the demand fails."""
        reduced = {s.access: s.value for s in self.spilled or ()}
        parts = []
        for part in conjuncts(holds):
            match reduced.get(part.access, part) if isinstance(part, Load) else part:
                case Reduction("all", variables, body):
                    parts.append(DemandedPart(part, variables, body))
                case _:
                    parts.append(DemandedPart(part, (), part))
        return Demanded(self.refused(message), tuple(parts))

    def _read_forms(self) -> dict[Tensor, set[tuple[object, ...]]]:
        """The different indices each tensor is read at; a variable counts by its extent, not its name."""
        forms: dict[Tensor, set[tuple[object, ...]]] = {}
        for q in self.group.equations:
            for e in (n for part in q.expressions for n in walk_expr(part)):
                if isinstance(e, Read):
                    long = [i for i, n in zip(e.index, e.tensor.shape, strict=True) if n != 1]
                    plain = all(isinstance(i, Var) for i in long) and len(set(long)) == len(long)
                    forms.setdefault(e.tensor, set()).add(("plain",) if plain else e.index)
        return forms

    def _indexed_by_data(self) -> set[Tensor]:
        """Tensors with a read whose index is checked when the kernel runs."""
        tensors: set[Tensor] = set()
        for q in self.group.equations:
            for e in (n for part in q.expressions for n in walk_expr(part)):
                if isinstance(e, Read) and e.outside is None and any(map(_is_checked, e.index)):
                    tensors.add(e.tensor)
        return tensors

    def store(self, q: Equation) -> Store:
        with self.reading(q):
            return self._store(q)

    def _store(self, q: Equation) -> Store:
        env: Env = {}
        taken: list[LoopVar] = []
        for v in q.variables:
            env[v] = self.bind(v, taken)
        value = self.value(q.value, env, None)
        variables = tuple(env[v].terms[0][0] for v in q.variables if env[v].terms)
        index = [self.index(i, env, None) for i in q.index]
        checks = self.checks(q.target, index, None, (q.target, q.index))
        return Store(Access(q.target, flatten(q.target, index), (), checks), value, variables)


def _is_checked(index: Expr) -> bool:
    return any(isinstance(e, Read) or (isinstance(e, Apply) and e.op == "within") for e in walk_expr(index))


def _staged(stores: list[Store]) -> list[list[Store]]:
    """Groups stores into stages: a store to a tensor that another one loads comes first."""
    written = {s.access.tensor for s in stores}
    reads: dict[Store, set[Tensor]] = {}
    for s in stores:
        loads = [n.access.tensor for n in walk(s.roots) if isinstance(n, Load)]
        reads[s] = {t for t in loads if t in written}
    stages: list[list[Store]] = []
    left = list(stores)
    while left:
        blocked = {s.access.tensor for s in left}
        ready = [s for s in left if not reads[s] & blocked]
        if not ready:
            raise UnsupportedError("the equations of a group depend on each other in a cycle")
        stages.append(ready)
        left = [s for s in left if s not in ready]
    return stages
