"""What of a schedule has to run: a backward walk from the results and the checks.

In: a schedule. Out: the steps needed, what each makes and reads, their kernels, and which elements of which values symbols stand for.
An operand of which only the elements' expressions matter (the shape of a reshape) is not read, so what computes it may need no code at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from anyshape.dims import Dim, free_symbols
from anyshape.equations.dependencies import needed, reads
from anyshape.errors import UnsupportedError
from anyshape.graph.value import Element, Value
from anyshape.passes.steps import KernelStep, Schedule, Step, ViewStep
from anyshape.vm.kernels import KernelMaker, LoweredStep
from anyshape.vm.program import ELEMENT_CODE


@dataclass(eq=False)
class Need:
    """By number of a step: `outputs` it has to make, values it `reads`, its `lowered` kernel, or that it is `stored` from registers.
    `loads`: (element, symbol) pairs to load once a value is there. `defined_at`: the step that defines a symbol, -1 for the entry."""

    steps: set[int] = field(default_factory=set)
    outputs: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    reads: dict[int, tuple[Value, ...]] = field(default_factory=dict)
    lowered: dict[int, LoweredStep] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    loads: dict[Value, list[tuple[int, Dim]]] = field(default_factory=dict)
    symbols: set[Dim] = field(default_factory=set)
    defined_at: dict[Dim, int] = field(default_factory=dict)
    viewed: dict[Value, Value] = field(default_factory=dict)

    def origin(self, v: Value) -> Value:
        """The value whose memory v is seen in."""
        while v in self.viewed:
            v = self.viewed[v]
        return v


def analyse(schedule: Schedule, maker: KernelMaker) -> Need:
    """Raises UnsupportedError for a symbol that no entry dim and no element of a value defines."""
    return _Analysis(schedule, maker).run()


class _Analysis:
    def __init__(self, schedule: Schedule, maker: KernelMaker) -> None:
        self.schedule, self.maker, self.need = schedule, maker, Need()
        self.values: set[Value] = set()
        self.element_of: dict[Dim, tuple[Value, int]] = {}
        for step in schedule.steps:
            if isinstance(step, ViewStep):
                self.need.viewed[step.output] = step.input

    def run(self) -> Need:
        f = self.schedule.function
        self.find_definitions()
        for check in (*f.checks, *(c for node in f.nodes for c in node.checks)):
            self.want_symbols((check.cond,))
        for v in f.results:
            self.want(v)
        for at in range(len(self.schedule.steps) - 1, -1, -1):
            self.step(at)
        return self.need

    def find_definitions(self) -> None:
        f, defined = self.schedule.function, self.need.defined_at
        for p in f.params:
            for n in p.type.shape or ():
                if isinstance(n, Dim) and n.is_symbol:
                    defined.setdefault(n, -1)
        for p in f.params:
            self.elements(p, -1)
        for at, step in enumerate(self.schedule.steps):
            for v in results_of(step):
                self.elements(v, at)

    def elements(self, v: Value, at: int) -> None:
        for k, e in enumerate(v.contents or ()):
            if isinstance(e, Dim) and e.is_symbol and e not in self.need.defined_at and v.type.dtype in ELEMENT_CODE:
                self.need.defined_at[e] = at
                self.element_of[e] = (v, k)

    def want(self, v: Value) -> None:
        if v not in self.values:
            self.values.add(v)
            self.want_symbols(n for n in v.type.shape or () if isinstance(n, Dim))

    def want_symbols(self, expressions: Iterable[Element]) -> None:
        for e in expressions:
            for s in free_symbols(e):
                if s not in self.need.symbols:
                    self.need.symbols.add(s)
                    self.define(s)

    def define(self, s: Dim) -> None:
        if s in self.element_of:
            v, k = self.element_of[s]
            self.need.loads.setdefault(v, []).append((k, s))
            self.want(v)
        elif s not in self.need.defined_at:
            raise UnsupportedError(f"nothing defines the dim {s}: neither an input's shape nor an element of a tensor")

    def step(self, at: int) -> None:
        step, need = self.schedule.steps[at], self.need
        if isinstance(step, ViewStep):
            if step.output in self.values:
                need.steps.add(at)
                need.reads[at] = (step.input,)
                self.want(step.input)
            return
        outputs = tuple(v for v in results_of(step) if v in self.values)
        if not outputs:
            return
        need.steps.add(at)
        need.outputs[at] = outputs
        if all(self.is_known(v, at) for v in outputs):
            need.stored.add(at)
            need.reads[at] = ()
            for v in outputs:
                self.want_symbols(v.contents or ())
            return
        needed = narrowed(step, outputs)
        lowered = need.lowered[at] = self.maker.lower(needed)
        self.want_symbols((*lowered.scalars, lowered.scratch))
        passed = [v for v in step.inputs if any(i is step.tensors[v] for i in lowered.inputs)]
        need.reads[at] = tuple(passed)
        for v in passed:
            self.want(v)

    def is_known(self, v: Value, at: int) -> bool:
        """Whether every element follows from symbols that are defined before the step."""
        if v.contents is None or v.type.dtype not in ELEMENT_CODE:
            return False
        symbols = {s for e in v.contents for s in free_symbols(e)}
        return all(self.need.defined_at.get(s, at) < at for s in symbols)


def results_of(step: Step) -> tuple[Value, ...]:
    """Everything a step computes, also what only its own equations read: an element of that may be a size."""
    if isinstance(step, ViewStep):
        return (step.output,)
    return step.results


def narrowed(step: KernelStep, outputs: tuple[Value, ...]) -> KernelStep:
    """The step with these outputs, and without what only others need."""
    if outputs == step.outputs:
        return step
    kept = needed(step.equations, (step.tensors[v] for v in outputs))
    read = {t for q in kept for t in reads(q)}
    inputs = tuple(v for v in step.inputs if step.tensors[v] in read)
    return replace(step, equations=tuple(kept), inputs=inputs, outputs=outputs)
