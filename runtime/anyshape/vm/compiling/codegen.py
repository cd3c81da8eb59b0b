"""Code generation from schedules to programs.

In: a schedule, and the entry symbols that the variant assumes to be at least 1. Out: a `Program`. In order: dims of arguments and the
checks on them, memory, then the steps that the results or a size need. A check stands as early as its symbols have values. Values whose
elements are known from shapes alone are stored from registers: shape arithmetic never becomes a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import free_symbols
from anyshape.equations.dependencies import symbols
from anyshape.errors import OverflowedError, UnsupportedError
from anyshape.graph.origins import Names
from anyshape.graph.value import Value
from anyshape.passes.steps import KernelStep, RegionStep, TableStep
from anyshape.types import ListType
from anyshape.vm.compiling.arena_code import ArenaCode
from anyshape.vm.compiling.call_code import CALL_EMITTERS
from anyshape.vm.compiling.emission import Emission, Emitter, aligned, byte_count, value_bytes
from anyshape.vm.compiling.entry_code import emit_entry, read_list
from anyshape.vm.compiling.lifetimes import ENTRY, lifetimes
from anyshape.vm.compiling.list_arguments import Writer
from anyshape.vm.compiling.list_code import LIST_EMITTERS, Holds
from anyshape.vm.compiling.liveness import Liveness, analyse
from anyshape.vm.compiling.memory_plan import memory_plan
from anyshape.vm.compiling.overwriting import overwrites
from anyshape.vm.program.blocks import result_dtypes
from anyshape.vm.program.invocation import Invocation, MemoryInUse
from anyshape.vm.program.memory_plan import MemoryPlan
from anyshape.vm.program.table import Op, Program, ResultType

EMITTERS: dict[object, Emitter] = {**LIST_EMITTERS, **CALL_EMITTERS}
BEGIN = -1
"""The number of a step before the first."""


def _table(words: Sequence[int]) -> NDArray[np.int64]:
    """The words as one array. Raises OverflowedError for one that is none: a size of the model that is absurd, in bytes."""
    try:
        return np.array(words, np.int64)
    except OverflowError:
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        wrong = next(w for w in words if not least <= w <= most)
        raise OverflowedError(f"a size of the model is {wrong}, which does not fit 64 bits") from None


@dataclass(frozen=True)
class StepCode:
    """Emitters of the steps that are made of `Codegen` again: branches and loops, and calls that go through a list."""

    regions: Callable[[Codegen, int, RegionStep], None]
    walk: Callable[[Codegen, int, TableStep], None]


@dataclass(eq=False)
class Codegen(Emission):
    """The code of one function or body."""

    step_code: StepCode = field(kw_only=True)
    around: MemoryInUse | None = field(default=None, kw_only=True)
    """Memory that the surroundings of a body use meanwhile, for profiles."""

    def run(self) -> Program:
        self.begin()
        self.numbering = list(accumulate((len(result_dtypes(v.type)) for v in self.f.results), initial=0))
        emit_entry(self, self.list_argument)
        self.body(None, 0)
        self.results()
        self.code.emit(Op.RETURN)
        return self.program(
            tuple(
                ResultType(n, dtype)
                for n, v in zip(self.f.result_names, self.f.results, strict=True)
                for dtype in result_dtypes(v.type)
            )
        )

    def begin(self) -> None:
        self.f = self.schedule.function
        self.names = Names(self.f)
        self.liveness: Liveness = analyse(self.schedule, self.maker)

    def program(self, results: tuple[ResultType, ...]) -> Program:
        """Makes the program of what was emitted."""
        return Program(
            self.f.name,
            _table(self.code.words),
            self.code.count,
            self.regions,
            constants=tuple(self.constants),
            kernels=tuple(self.kernels),
            checks=tuple(self.checks),
            results=results,
            arguments=tuple(p.name for p in self.f.params),
            memory=self.plan(),
            notes=self.notes or {},
            roomy=self.arena.roomy,
            overwrites=overwrites(self.schedule, self.liveness, self.storages),
        )

    def plan(self) -> MemoryPlan:
        """Makes the memory plan of this function and of the bodies inside."""
        return memory_plan(self.schedule, self.memory, self.arena, self.inside, self.spelled)

    def body(self, direct: Container[int] | None, first: int) -> None:
        """Emits memory, from region `first` on, and the steps. `direct`: the results with places of their own, None for all."""
        self.memory = lifetimes(self.schedule, self.liveness, value_bytes, aligned, direct)
        self.storages = self.memory.storages
        self.arena = ArenaCode(
            self.code, self.memory.groups, self.check_tenants, first, Op.REGION if direct is None else Op.EXTEND
        )
        self.regions = self.arena.regions
        self.holds = Holds(self, self.own_lists())
        self.holds.after(BEGIN)
        self.arena.prepare(ENTRY)
        if direct is None:
            self.make_results()
        for at, _ in enumerate(self.schedule.steps):
            self.step(at)
            self.holds.after(at)

    def make_results(self) -> None:
        """Emits, before the first kernel, the results whose sizes follow from the arguments: for each result that is made later, a call
        takes the interpreter's lock once more."""
        for k, v in enumerate(self.f.results):
            storage = self.storages.get(v)
            if storage is not None and storage.result == k and all(map(self.code.is_defined, v.type.shape or ())):
                self.allocate(v)

    def list_argument(self, k: int, p: Value) -> int | None:
        """Emits the reading of a parameter that is a list; the register of its handle, or None if no step needs it."""
        return read_list(self, k, p)

    def own_lists(self) -> Iterable[Value]:
        """The parameters that are lists and that this body has to release."""
        return self.lists

    # --- steps ---

    def step(self, at: int) -> None:
        if at not in self.liveness.steps:
            return
        step = self.schedule.steps[at]
        if isinstance(step, RegionStep):
            self.step_code.regions(self, at, step)
            self.flush()
            outputs = step.node.outputs
        elif isinstance(step, TableStep):
            if step.kernel is not None:
                self.step_code.walk(self, at, step)
            else:
                EMITTERS[step.node.op](self, at, step.node)
            self.flush()
            outputs = self.liveness.outputs[at]
        else:
            outputs = self.liveness.outputs[at] if isinstance(step, KernelStep) else (step.output,)
            for v in outputs:
                self.check_sizes(v)
            if isinstance(step, KernelStep):
                self.compute(at, step)
        self.load_symbols(outputs)

    def compute(self, at: int, step: KernelStep) -> None:
        """Emits a kernel step: values that registers hold are stored, for others a kernel is called."""
        outputs = self.liveness.outputs[at]
        for v in outputs:
            self.allocate(v)
        if at in self.liveness.stored:
            for v in outputs:
                self.store(v)
        else:
            self.invoke(at, step)

    def invoke(self, at: int, step: KernelStep) -> None:
        lowered = self.liveness.lowered[at]
        values = {step.tensors[v]: v for v in (*step.inputs, *self.liveness.outputs[at])}
        buffers = [self.constant(i) if isinstance(i, np.ndarray) else self.address(values[i]) for i in lowered.inputs]
        buffers += [self.address(values[t]) for t in lowered.outputs]
        scalars = tuple(self.code.register(s) for s in lowered.scalars)
        scratch = self.arena.address(self.memory.scratch[at]) if at in self.memory.scratch else self.code.register(0)
        if lowered.kernel not in self.kernels:
            self.kernels.append(lowered.kernel)
        kernel = self.kernels.index(lowered.kernel)
        if lowered.parts == 1 and lowered.slices == 1 and not lowered.shares:
            self.note(at, step, self.liveness.outputs[at])
            self.code.emit(Op.INVOKE, kernel, scratch, scalars, tuple(buffers))
            return
        each, parts = self.code.register(aligned(lowered.scratch)), self.code.register(lowered.parts)
        slices = self.code.register(lowered.slices)
        self.note(at, step, self.liveness.outputs[at])
        self.code.emit(Op.SHARE, kernel, scratch, each, parts, slices, scalars, tuple(buffers))

    def note(self, at: int, step: KernelStep, outputs: tuple[Value, ...]) -> None:
        """Notes, for profiles, the work of the next instruction."""
        if self.notes is not None:
            mentioned = {s for t in step.tensors.values() for n in t.shape for s in free_symbols(n)}
            mentioned = mentioned.union(*(symbols(q) for q in step.equations))
            registers = {s: self.code.register(s) for s in mentioned if self.code.is_defined(s)}
            self.notes[len(self.code.words)] = Invocation(step, outputs, registers, self.in_use(at))

    def in_use(self, at: int) -> MemoryInUse | None:
        """The memory that is in use at a step, for profiles."""
        if self.notes is None:
            return None
        tenants = [t for group in self.memory.groups.values() for t in group.tenants if t.start <= at <= t.end]
        sizes = {s for t in tenants for s in free_symbols(t.bytes)}
        registers = {s: self.code.register(s) for s in sizes if self.code.is_defined(s)}
        return MemoryInUse(tuple(t.bytes for t in tenants), registers, self.around)

    def results(self) -> None:
        """Emits the end of a program: a result that shares memory with another value is a copy."""
        for k, v in enumerate(self.f.results):
            storage = self.storages.get(self.liveness.origin(v))
            if isinstance(v.type, ListType):
                Writer(self.code, v.type, self.address(v)).write(self.numbering[k])
            elif storage is None or storage.result != k:
                to = self.output(k, v)
                self.code.emit(Op.COPY, to, self.address(v), self.code.register(byte_count(v.type)))
        self.holds.after(len(self.schedule.steps))
        self.refuse_pending()

    def refuse_pending(self) -> None:
        if self.pending:
            c = self.pending[0]
            raise UnsupportedError(f"nothing defines a dim that a check of {c.op} needs: {c.cond}")
