"""Liveness of a schedule: which steps have to run, by a backward walk from the results and the checks.

In: a schedule. Out: the steps needed, what each computes and reads, their kernels, and which elements of which values symbols stand for.
An operand of which only the elements' expressions matter (the shape of a reshape) is not read, so what computes it may need no code at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from anyshape.dims import Dim, Size, bounds, definitions, free_symbols, fresh
from anyshape.equations import Demand, Equation
from anyshape.equations.dependencies import needed, reads
from anyshape.equations.interpret import interpret
from anyshape.equations.unknown import UnknownElement
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.callee import calls_in_sight
from anyshape.graph.value import Element, Node, Value
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, ScheduleStep, TableStep, ViewStep
from anyshape.vm.compiling.kernels import THREADS, KernelMaker, LoweredStep
from anyshape.vm.program.table import ELEMENT_CODE

MOST_ASSERTED = 1 << 20
"""The most elements of a constant on which an assert is evaluated while compiling, which takes milliseconds, and not in each call."""


@dataclass(eq=False, kw_only=True)
class Liveness:
    """Results of the analysis. By number of a step: `outputs` that it has to compute, values that it `reads`, its `lowered` kernel, or
    that its outputs are `stored` from registers. `loads`: (element, symbol) pairs to load once a value is computed. `defined_at`: the
    step that defines a symbol, -1 for the entry."""

    steps: set[int] = field(default_factory=set)
    outputs: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    reads: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    lowered: dict[int, LoweredStep] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    loads: dict[Value, list[tuple[int, Dim]]] = field(default_factory=dict)
    symbols: set[Dim] = field(default_factory=set)
    defined_at: dict[Dim, int] = field(default_factory=dict)
    viewed: dict[Value, Value] = field(default_factory=dict)
    values: set[Value] = field(default_factory=set)
    """Values that have to be in memory."""
    outside: set[Dim] = field(default_factory=set)
    """Symbols of a region that its surroundings define."""
    bodies: dict[int, tuple[Liveness, ...]] = field(default_factory=dict)
    """Liveness of regions, by number of their step."""
    apart: dict[int, dict[Value, Size]] = field(default_factory=dict)
    """Values of which a kernel reads a copy in its scratch, and the offset of the copy, by number of a step through a list."""
    rooms: dict[int, tuple[Dim, Size]] = field(default_factory=dict)
    """Symbol of the largest scratch and the scratch of one element, by number of a step through a list whose scratch depends on the
    element."""

    def origin(self, v: Value) -> Value:
        """The value of whose memory v is a view, or v itself."""
        while v in self.viewed:
            v = self.viewed[v]
        return v


def analyse(schedule: Schedule, maker: KernelMaker) -> Liveness:
    """Analyses a schedule. Raises UnsupportedError for a symbol that no entry dim and no element of a value defines."""
    return _LivenessAnalysis(schedule, maker).run()


class _LivenessAnalysis:
    """The analysis of one schedule. `own`: the parameters of a region whose elements may be loaded; None for a program. `tested`: the
    first result is only a condition."""

    def __init__(
        self, schedule: Schedule, maker: KernelMaker, own: Sequence[Value] | None = None, tested: bool = False
    ) -> None:
        self.schedule, self.maker, self.liveness, self.own, self.tested = schedule, maker, Liveness(), own, tested
        self.values = self.liveness.values
        self.element_of: dict[Dim, tuple[Value, int]] = {}
        self.unbacked: dict[Dim, Value] = {}
        """results of control flow that first have a dim"""
        self.around: set[Dim] = set() if own is None else _outer_symbols(schedule.function.params, own)
        """symbols of a region that its surroundings or its iteration define, whatever counts them again inside"""
        self.sized: set[int] = set()
        """steps on lists of which a dim is needed"""
        for step in schedule.steps:
            if isinstance(step, ViewStep):
                self.liveness.viewed[step.output] = step.input

    def run(self) -> Liveness:
        f = self.schedule.function
        self.find_definitions()
        for check in (*f.checks, *(c for node in f.nodes for c in node.checks)):
            self.want_symbols((check.cond,))
        for k, v in enumerate(f.results):
            if k > 0 or not self.tested or not self.want_elements(v):
                self.want(v)
        for at in range(len(self.schedule.steps) - 1, -1, -1):
            self.step(at)
        return self.liveness

    def find_definitions(self) -> None:
        f, defined = self.schedule.function, self.liveness.defined_at
        if self.own is None:
            defined.update(dict.fromkeys(definitions((p, n) for p in f.params for n in p.type.shape or ()), -1))
        if self.own is None:
            defined[THREADS] = -1
        for p in f.params if self.own is None else self.own:
            self.elements(p, -1)
        for at, step in enumerate(self.schedule.steps):
            if isinstance(step, RegionStep | TableStep):
                for s, (result, _) in step.node.bound.unbacked.items():
                    if defined.setdefault(s, at) == at:
                        self.unbacked[s] = step.node.outputs[result]
            for v in results_of(step):
                self.elements(v, at)

    def elements(self, v: Value, at: int) -> None:
        for k, e in enumerate(v.contents or ()):
            if (
                isinstance(e, Dim)
                and e.is_symbol
                and e not in self.liveness.defined_at
                and (at < 0 or e not in self.around)
                and v.type.dtype in ELEMENT_CODE
            ):
                self.liveness.defined_at[e] = at
                self.element_of[e] = (v, k)

    def want(self, v: Value) -> None:
        if v not in self.values:
            self.values.add(v)
            self.want_symbols(n for n in v.type.shape or () if isinstance(n, Dim))

    def want_symbols(self, expressions: Iterable[Element]) -> None:
        for e in expressions:
            for s in free_symbols(e):
                if s not in self.liveness.symbols:
                    self.liveness.symbols.add(s)
                    self.define(s)

    def define(self, s: Dim) -> None:
        if s in self.element_of:
            v, k = self.element_of[s]
            self.liveness.loads.setdefault(v, []).append((k, s))
            self.want(v)
        elif s in self.unbacked:
            value = self.unbacked[s]
            assert value.node is not None
            if value.node.regions:
                self.want(value)
            else:
                self.sized.add(self.liveness.defined_at[s])
        elif s not in self.liveness.defined_at and self.own is not None:
            self.liveness.outside.add(s)
        elif s not in self.liveness.defined_at:
            where = ", ".join(f"{p.name}: {p.type}" for p in self.schedule.function.params if s in p.type.symbols())
            mentioned = f" ({where} only mentions it; give it a dim of its own in some input)" if where else ""
            raise UnsupportedError(
                f"nothing defines the dim {s}: neither an input's shape nor an element of a tensor{mentioned}"
            )

    def step(self, at: int) -> None:
        step, liveness = self.schedule.steps[at], self.liveness
        if isinstance(step, ViewStep):
            if step.output in self.values:
                liveness.steps.add(at)
                liveness.reads[at] = (step.input,)
                self.want(step.input)
            return
        if _demands(step) and any(v in self.values for node in step.nodes for v in node.outputs):
            for v in step.results:  # nobody reads whether an assert holds, but it is to be checked
                self.want(v)
        outputs = tuple(v for v in results_of(step) if v in self.values)
        if isinstance(step, TableStep):
            if outputs or at in self.sized:
                self.list_step(at, step, outputs)
            return
        if not outputs:
            return
        if isinstance(step, RegionStep):
            self.region_step(at, step)
            return
        liveness.steps.add(at)
        liveness.outputs[at] = outputs
        if all(self.is_known(v, at) for v in outputs):
            liveness.stored.add(at)
            liveness.reads[at] = ()
            for v in outputs:
                self.want_symbols(v.contents or ())
            return
        needed = narrowed(step, outputs)
        lowered = liveness.lowered[at] = self.maker.lower(needed)
        self.want_symbols((*lowered.scalars, lowered.scratch, lowered.parts, lowered.slices))
        passed = [v for v in step.inputs if any(i is step.tensors[v] for i in lowered.inputs)]
        liveness.reads[at] = tuple(passed)
        for v in passed:
            self.want(v)

    def region_step(self, at: int, step: RegionStep) -> None:
        """Adds a step with regions and all that those need of the surroundings; all results of regions are computed."""
        node, liveness = step.node, self.liveness
        control = node.op.control
        assert control is not None
        captured, first = control.captured(node), control.captures_from(node)
        read = dict.fromkeys(v for v in node.inputs[:first] if v is not None)
        bodies = []
        for body in step.bodies:
            own = body.function.params[: len(body.function.params) - len(captured)]
            inner = _LivenessAnalysis(body, self.maker, own[1:], control.repeats).run()
            bodies.append(inner)
            self.want_symbols(s for s in inner.outside if not (control.repeats and s in node.bound.iteration))
            params = body.function.params[len(own) :]
            read.update((v, None) for p, v in zip(params, captured, strict=True) if p in inner.values)
        self.want_symbols(first_sizes(node).values())
        for v in node.operand_inputs().values():
            if v is not None and not self.want_elements(v):
                read[v] = None
        liveness.steps.add(at)
        liveness.outputs[at], liveness.reads[at], liveness.bodies[at] = node.outputs, tuple(read), tuple(bodies)
        for v in read:
            self.want(v)

    def list_step(self, at: int, step: TableStep, outputs: tuple[Value, ...]) -> None:
        """Adds a step on lists or a call: it reads lists, elements that are put into them, arguments, and a position or a function that is
        not known. `outputs`: the values needed in memory."""
        node, liveness = step.node, self.liveness
        if step.kernel is not None:
            self.walk_step(at, step, step.kernel, outputs)
            return
        data = node.inputs[: len(node.data_inputs) - calls_in_sight(node)]
        read = [v for v in data if v is not None]
        read += [v for v in node.operand_inputs().values() if v is not None and not self.want_elements(v)]
        liveness.steps.add(at)
        liveness.outputs[at], liveness.reads[at] = outputs, tuple(dict.fromkeys(read))
        for v in liveness.reads[at]:
            self.want(v)
        for v in node.outputs:
            self.want_symbols(n for n in v.type.shape or () if isinstance(n, Dim))

    def walk_step(self, at: int, step: TableStep, kernel: KernelStep, outputs: tuple[Value, ...]) -> None:
        """Adds a step through a list: it reads the list, and what else its kernel reads if results are needed and not only their sizes."""
        node, liveness, walk = step.node, self.liveness, step.node.bound.walk
        elements: list[Element] = [*(c.cond for c in walk.checks), *(e.item for e in walk.elements.sums)]
        read = [v for v in (node.sequence,) if v is not None]
        if outputs:
            outputs = (*outputs, *(v for v in kernel.outputs if v not in node.outputs))
            lowered = replace(self.maker.lower(narrowed(kernel, outputs)), parts=1, slices=1)
            elements += [*lowered.scalars, lowered.scratch]
            if free_symbols(lowered.scratch) & walk.inside:
                room = fresh("room", 0)
                liveness.rooms[at], liveness.defined_at[room] = (room, lowered.scratch), at
                lowered = replace(lowered, scratch=room)
            passed = [v for v in kernel.inputs if any(i is kernel.tensors[v] for i in lowered.inputs)]
            liveness.apart[at], scratch = copied(step, kernel, passed, lowered)
            liveness.lowered[at] = replace(lowered, scratch=scratch)
            read += passed
        liveness.steps.add(at)
        liveness.outputs[at] = outputs
        liveness.reads[at] = tuple(v for v in dict.fromkeys(read) if v is not walk.value and v not in step.carried)
        for v in liveness.reads[at]:
            self.want(v)
        self.want_symbols({s for e in elements for s in free_symbols(e)} - walk.inside)
        for v in node.outputs:
            self.want_symbols(n for n in v.type.shape or () if isinstance(n, Dim))

    def want_elements(self, v: Value) -> bool:
        """Adds the symbols of known elements; whether the elements are known."""
        self.want_symbols(v.contents or ())
        return v.contents is not None

    def is_known(self, v: Value, at: int) -> bool:
        """Tests whether every element follows from sizes that are defined before the step. Elements that follow from data are left to the
        kernel, whose integers wrap where those of shapes must not."""
        if v.contents is None or v.type.dtype not in ELEMENT_CODE:
            return False
        symbols = {s for e in v.contents for s in free_symbols(e)}
        return all(self.liveness.defined_at.get(s, at) < at and bounds(s)[0] is not None for s in symbols)


def _outer_symbols(params: Sequence[Value], own: Sequence[Value]) -> set[Dim]:
    """The symbols that the shapes of a region's parameters mention, and the elements of those that are not its own."""
    elements = (e for p in params if p not in own for e in p.contents or ())
    return {s for p in params for s in p.type.symbols()}.union(*map(free_symbols, elements))


def copied(
    step: TableStep, kernel: KernelStep, passed: Sequence[Value], lowered: LoweredStep
) -> tuple[dict[Value, Size], Size]:
    """Places copies, in the scratch, of results so far that the kernel may not read where it writes the new ones; their offsets, and the
    bytes of the whole scratch."""
    apart: dict[Value, Size] = {}
    size = lowered.scratch
    for v in passed:
        if v in step.carried and (kernel.tensors[step.carried[v]], kernel.tensors[v]) not in lowered.reusable:
            apart[v] = (size + 63) // 64 * 64
            size = apart[v] + v.type.count() * v.type.dtype.itemsize
    return apart, size


def first_sizes(node: Node) -> Mapping[Dim, Size]:
    """Dims of stacks of a loop that has no iteration."""
    sizes: Mapping[Dim, Size] = node.bound.firsts if node.op.control is not None and node.op.control.repeats else {}
    return sizes


def results_of(step: ScheduleStep) -> tuple[Value, ...]:
    """All values that a step computes, also those that only its own equations read: their elements may be sizes."""
    if isinstance(step, ViewStep):
        return (step.output,)
    if isinstance(step, RegionStep | TableStep):
        return step.node.outputs
    return step.results


def narrowed(step: KernelStep, outputs: tuple[Value, ...]) -> KernelStep:
    """The step with these outputs, and without equations that only other outputs need."""
    if outputs == step.outputs:
        return step
    kept = needed(step.equations, (step.tensors[v] for v in outputs))
    read = {t for q in kept for t in reads(q)}
    inputs = tuple(v for v in step.inputs if step.tensors[v] in read)
    return replace(step, equations=tuple(kept), inputs=inputs, outputs=outputs)


def _demands(step: ScheduleStep) -> TypeGuard[KernelStep]:
    """Tests whether a step checks an assert that reads values which the compile does not know."""
    return isinstance(step, KernelStep) and any(
        isinstance(q.form, Demand) and not _holds(step, q) for q in step.equations
    )


def _holds(step: KernelStep, assertion: Equation) -> bool:
    """Tests whether an assert reads nothing but constants, not too large, and holds of these at every size."""
    constants = {
        t: v.constant for v, t in step.tensors.items() if v.constant is not None and v.constant.size <= MOST_ASSERTED
    }
    kept = needed(step.equations, [assertion.target])
    read = {t for q in kept for t in reads(q)} - {q.target for q in kept}
    if not read <= constants.keys() or any(free_symbols(n) for t in read for n in t.shape):
        return False
    with suppress(AnyshapeError, KeyError):  # a size that only the run knows
        interpret(kept, {t: constants[t] for t in read})
        return True
    with suppress(AnyshapeError, UnknownElement):
        interpret(kept, {t: constants[t].astype(object) for t in read}, symbolic=True)
        return True
    return False
