"""Schedules to programs.

In: a schedule, and the entry symbols that the variant assumes to be at least 1. Out: a `Program`. In order: dims of arguments and the
checks on them, memory, then the steps that the results or a size need. A check stands as early as its symbols have values. Values whose
elements are known from shapes alone are stored from registers: shape arithmetic never becomes a kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Cond, Dim, Size, bounds, free_symbols, fresh, ge, substitute, symbol
from anyshape.dims import eq as equal
from anyshape.equations.dependencies import symbols
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.callee import Callee
from anyshape.graph.origins import Names
from anyshape.graph.text import is_anonymous
from anyshape.graph.value import Value
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, TableStep
from anyshape.rules import Check
from anyshape.types import ListType, TensorType
from anyshape.vm.arena import ALIGNMENT
from anyshape.vm.arena_code import ArenaCode
from anyshape.vm.blocks import result_dtypes
from anyshape.vm.kernels import THREADS, KernelMaker
from anyshape.vm.lifetimes import ENTRY, Storage, lifetimes
from anyshape.vm.memory_text import memory_plan
from anyshape.vm.need import Need, analyse
from anyshape.vm.profile import Invocation
from anyshape.vm.program import ELEMENT_CODE, CallableKernel, CheckRecord, Op, Program, ResultType
from anyshape.vm.shape_code import ShapeCode

BEGIN = -1
"""The number of a step before the first."""


def generate(
    schedule: Schedule,
    kernels: KernelMaker,
    assumed: Collection[Dim] = (),
    functions: Mapping[Callee, int] | None = None,
    noted: bool = False,
) -> Program:
    """`functions`: the numbers of those that it may call. `noted`: with what each kernel does, for profiles.

    Raises UnsupportedError where nothing defines a symbol, and what lowering raises."""
    return Codegen(schedule, kernels, assumed, functions=functions or {}, notes={} if noted else None).run()


def byte_count(t: TensorType) -> Size:
    return t.count() * t.dtype.itemsize


def value_bytes(v: Value) -> Size:
    return byte_count(v.type)


def aligned(n: Size) -> Size:
    return (n + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


@dataclass(eq=False)
class Codegen:
    schedule: Schedule
    maker: KernelMaker
    assumed: Collection[Dim]
    code: ShapeCode = field(default_factory=ShapeCode)
    constants: list[NDArray[Any]] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    kept: list[NDArray[Any]] = field(default_factory=list)
    kernels: list[CallableKernel] = field(default_factory=list)
    checks: list[CheckRecord] = field(default_factory=list)
    storages: dict[Value, Storage] = field(default_factory=dict)
    pending: list[Check] = field(default_factory=list)
    sizes: set[Dim] = field(default_factory=set)
    names: Names | None = None
    """What messages call a symbol that nobody named; that of the whole function."""
    lists: dict[Value, int] = field(default_factory=dict)
    """Registers of parameters that are lists."""
    functions: Mapping[Callee, int] = field(default_factory=dict)
    """Numbers of those that may be called."""
    regions: int = 0
    """How many are in use; those of control flow come behind the arena's."""
    notes: dict[int, Invocation] | None = None

    def run(self) -> Program:
        self.begin()
        self.numbering = list(accumulate((len(result_dtypes(v.type)) for v in self.f.results), initial=0))
        self.entry()
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
        self.need: Need = analyse(self.schedule, self.maker)

    def program(self, results: tuple[ResultType, ...]) -> Program:
        """What was emitted."""
        return Program(
            self.f.name,
            np.array(self.code.words, np.int64),
            self.code.count,
            self.regions,
            tuple(self.constants),
            tuple(self.kernels),
            tuple(self.checks),
            results,
            tuple(p.name for p in self.f.params),
            memory_plan(self.schedule, self.memory, self.arena),
            self.notes or {},
        )

    def body(self, direct: Container[int] | None, first: int) -> None:
        """Memory, from region `first` on, and the steps. `direct`: the results with places of their own, None for all."""
        self.memory = lifetimes(self.schedule, self.need, value_bytes, aligned, direct)
        self.storages = self.memory.storages
        self.arena = ArenaCode(
            self.code, self.memory.groups, self.check_tenants, first, Op.REGION if direct is None else Op.EXTEND
        )
        self.regions = self.arena.regions
        self.holds = Holds(self, self.own_lists())
        self.holds.after(BEGIN)
        self.arena.prepare(ENTRY)
        for at, _ in enumerate(self.schedule.steps):
            self.step(at)
            self.holds.after(at)

    def own_lists(self) -> Iterable[Value]:
        """Parameters that are lists, which are this body's to release."""
        return self.lists

    # --- entry ---

    def entry(self) -> None:
        """Dims of arguments become symbols; then what must hold of them; then elements that symbols stand for."""
        owed: list[tuple[Value, int, int]] = []
        bound: list[tuple[Dim, Value, int]] = []
        for k, p in enumerate(self.f.params):
            for axis, n in enumerate(p.type.shape or ()):
                r = self.code.pure(Op.DIM, k, axis)
                if isinstance(n, Dim) and n.is_symbol and not self.code.is_defined(n):
                    self.code.define(n, r)
                    bound.append((n, p, axis))
                else:
                    owed.append((p, axis, r))
        if THREADS in self.need.symbols:
            self.code.define(THREADS, self.code.new(Op.THREADS))
        for s, p, axis in bound:
            self.entry_bounds(s, p, axis)  # first: all later conditions are simplified by what these assume
        for p, axis, r in owed:
            self.entry_size(p, axis, r)
        self.collect_checks()
        self.flush()
        for p in self.f.params:
            self.load_symbols(p)
        for k, p in enumerate(self.f.params):
            handle = self.list_argument(k, p) if isinstance(p.type, ListType) else None
            if handle is not None:
                self.lists[p] = handle

    def list_argument(self, k: int, p: Value) -> int | None:
        """The handle of a parameter that is a list, if it is needed."""
        if p not in self.need.values or not isinstance(p.type, ListType):
            return None
        return Reader(self, p.name, self.code.pure(Op.ARGUMENT, k)).read(p.type)

    def collect_checks(self) -> None:
        """What nodes demand, each once, to be checked when it can be."""
        seen: set[Cond] = set()
        for check in (*self.f.checks, *(c for node in self.f.nodes for c in node.checks)):
            if check.cond not in seen:
                seen.add(check.cond)
                self.pending.append(check)

    def entry_size(self, p: Value, axis: int, got: int) -> None:
        """The size of an argument that its type fixes."""
        assert p.type.shape is not None
        wanted = p.type.shape[axis]
        unbound = [str(s) for s in free_symbols(wanted) if not self.code.is_defined(s)]
        if unbound:
            raise UnsupportedError(
                f"input {p.name}: {p.type}: nothing binds {', '.join(sorted(unbound))}; "
                "give each symbol a dim of its own in some input"
            )
        size = _size_symbol(p, axis)
        self.code.define(size, got)
        parts: tuple[str | Dim | Cond, ...] = (f"input {p.name}: dim {axis} must be {wanted}", ", got ", size)
        if not isinstance(wanted, int):
            parts = (f"input {p.name}: dim {axis} must be {wanted} = ", wanted, ", got ", size)
        self.check(equal(size, wanted), parts, equation=f"{p.name}.shape[{axis}] == {wanted}")

    def entry_bounds(self, s: Dim, p: Value, axis: int) -> None:
        """What the type says of a symbol: a variant's assumption makes the call go elsewhere, anything else is an error."""
        low, high = bounds(s)
        r = self.code.register(s)
        if s in self.assumed:
            self.code.emit(Op.GUARD, self.code.pure(Op.GE, r, self.code.register(low or 0)))
        elif low is not None and low > 0:
            self.bound_check(Op.GE, r, low, s, p, axis)
        if high is not None:
            self.bound_check(Op.LE, r, high, s, p, axis)

    def bound_check(self, op: Op, r: int, edge: int, s: Dim, p: Value, axis: int) -> None:
        sign = "at least" if op is Op.GE else "at most"
        record = CheckRecord(
            (f"input {p.name}: dim {axis} ({s}) must be {sign} {edge}, got ", s), (s,), (r,), f"{s} {sign} {edge}"
        )
        self.checks.append(record)
        self.code.emit(Op.CHECK, self.code.pure(op, r, self.code.register(edge)), len(self.checks) - 1)

    # --- checks and symbols ---

    def check(
        self, cond: bool | Cond, parts: tuple[str | Dim | Cond, ...], op: str = "", source: str = "", equation: str = ""
    ) -> None:
        if cond is True:
            return
        symbols = tuple(dict.fromkeys(s for p in parts if not isinstance(p, str) for s in _sorted_symbols(p)))
        known = tuple(s for s in symbols if self.code.is_defined(s))
        if len(known) < len(symbols):
            parts = tuple(p if isinstance(p, str) or self.code.is_defined(p) else self.named(p) for p in parts)
        registers = tuple(self.code.register(s) for s in known)
        self.checks.append(CheckRecord(parts, known, registers, equation or str(cond), op, source))
        self.code.emit(Op.CHECK, self.code.register(cond), len(self.checks) - 1)

    def flush(self) -> None:
        """Emits the checks whose symbols all have values."""
        waiting = []
        for c in self.pending:
            if self.code.is_defined(c.cond):
                self.check(c.cond, (*c.parts, *self.equation_of(c.cond)), c.op, c.where, self.named(c.cond))
            else:
                waiting.append(c)
        self.pending = waiting

    def equation_of(self, cond: Cond) -> tuple[str | Dim | Cond, ...]:
        """The condition in words people know, and the sizes it is about: (x.shape[1] == 10 does not hold: x.shape[1] = 7)."""
        parts: list[str | Dim | Cond] = [f" ({self.named(cond)} does not hold: "]
        for k, s in enumerate(sorted(_sorted_symbols(cond), key=self.named)):
            parts += [f"{', ' if k else ''}{self.named(s)} = ", s]
        return (*parts, ")")

    def named(self, e: Dim | Cond) -> str:
        """The expression with sizes that have no name called by what they were read off."""
        assert self.names is not None
        known = {s: symbol(self.names[s], *bounds(s)) for s in free_symbols(e) if is_anonymous(s)}
        return str(substitute(e, known)) if known else str(e)

    def load_symbols(self, v: Value) -> None:
        """Elements of a value that just came to be, where a symbol that something needs stands for them."""
        loads = self.need.loads.get(v, ())
        for k, s in loads:
            self.code.define(s, self.code.new(Op.LOAD, self.address(v), k, ELEMENT_CODE[v.type.dtype]))
        if loads:
            self.flush()

    # --- memory ---

    def check_tenants(self, values: Sequence[Value]) -> None:
        """What is laid out has sizes."""
        for v in values:
            self.check_sizes(v, only_known=True)

    def address(self, v: Value) -> int:
        """The register of a value's address; parameters and constants are where they are."""
        v = self.need.origin(v)
        if v in self.lists:
            return self.lists[v]
        if v in self.storages:
            found = self.storages[v].address
            if found is None:
                raise AnyshapeError(f"the value {v} is needed before a step computes it")
            return found
        if v.constant is not None:
            return self.constant(v.constant)
        return self.code.pure(Op.ARGUMENT, self.f.params.index(v))

    def constant(self, array: NDArray[Any]) -> int:
        """A constant's address. One that a model file holds at an odd place is copied to an even one."""
        number = self.numbers.get(id(array))
        if number is None:
            number = self.numbers[id(array)] = len(self.constants)
            self.kept.append(array)
            self.constants.append(array if array.flags.aligned else array.copy())
        return self.code.pure(Op.CONSTANT, number)

    def allocate(self, v: Value) -> int:
        storage = self.storages[v]
        if storage.result is not None:
            result = self.f.results[storage.result]
            storage.address = self.output(storage.result, result)
        else:
            assert storage.place is not None
            storage.address = self.arena.address(storage.place)
        return storage.address

    def output(self, k: int, v: Value) -> int:
        self.check_sizes(v)
        return self.code.new(Op.OUTPUT, self.numbering[k], tuple(self.code.register(n) for n in v.type.shape or ()))

    # --- steps ---

    def step(self, at: int) -> None:
        if at not in self.need.steps:
            return
        step = self.schedule.steps[at]
        if isinstance(step, RegionStep):
            emit_regions(self, at, step)
            self.flush()
            for v in step.node.outputs:
                self.load_symbols(v)
            return
        if isinstance(step, TableStep):
            EMITTERS[step.node.op](self, at, step.node)
            self.flush()
            for v in self.need.outputs[at]:
                self.load_symbols(v)
            return
        made = self.need.outputs[at] if isinstance(step, KernelStep) else (step.output,)
        for v in made:
            self.check_sizes(v)
        if isinstance(step, KernelStep):
            for v in made:
                self.allocate(v)
            if at in self.need.stored:
                for v in made:
                    self.store(v)
            else:
                self.invoke(at, step)
        for v in made:
            self.load_symbols(v)

    def check_sizes(self, v: Value, only_known: bool = False) -> None:
        """A dim that is not surely a size is checked to be one, so that no memory is ever addressed with a negative one."""
        for axis, n in enumerate(v.type.shape or ()):
            if isinstance(n, Dim) and n not in self.sizes and (not only_known or self.code.is_defined(n)):
                self.sizes.add(n)
                where = v.node.op.full_name if v.node is not None else ""
                source = v.node.source if v.node is not None else ""
                self.check(ge(n, 0), (f"dim {axis} of the result would be negative: ", n), where, source)

    def store(self, v: Value) -> None:
        address = self.address(v)
        for k, e in enumerate(v.contents or ()):
            self.code.emit(Op.STORE, address, k, self.code.register(e), ELEMENT_CODE[v.type.dtype])

    def invoke(self, at: int, step: KernelStep) -> None:
        lowered = self.need.lowered[at]
        values = {step.tensors[v]: v for v in (*step.inputs, *self.need.outputs[at])}
        buffers = [self.constant(i) if isinstance(i, np.ndarray) else self.address(values[i]) for i in lowered.inputs]
        buffers += [self.address(values[t]) for t in lowered.outputs]
        scalars = tuple(self.code.register(s) for s in lowered.scalars)
        scratch = self.arena.address(self.memory.scratch[at]) if at in self.memory.scratch else self.code.register(0)
        if lowered.kernel not in self.kernels:
            self.kernels.append(lowered.kernel)
        kernel = self.kernels.index(lowered.kernel)
        if lowered.parts == 1:
            self.note(step, self.need.outputs[at])
            self.code.emit(Op.INVOKE, kernel, scratch, scalars, tuple(buffers))
            return
        each, parts = self.code.register(aligned(lowered.scratch)), self.code.register(lowered.parts)
        self.note(step, self.need.outputs[at])
        self.code.emit(Op.SHARE, kernel, scratch, each, parts, scalars, tuple(buffers))

    def note(self, step: KernelStep, outputs: tuple[Value, ...]) -> None:
        """What the next instruction does."""
        if self.notes is not None:
            mentioned = {s for t in step.tensors.values() for n in t.shape for s in free_symbols(n)}
            mentioned = mentioned.union(*(symbols(q) for q in step.equations))
            registers = {s: self.code.register(s) for s in mentioned if self.code.is_defined(s)}
            self.notes[len(self.code.words)] = Invocation(step, outputs, registers)

    def results(self) -> None:
        """Results that share memory with something else get a copy of it."""
        for k, v in enumerate(self.f.results):
            storage = self.storages.get(self.need.origin(v))
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


def _sorted_symbols(e: Dim | Cond) -> list[Dim]:
    return sorted(free_symbols(e), key=lambda s: s.uid)


def _size_symbol(p: Value, axis: int) -> Dim:
    """A symbol for the actual size of an argument's axis, used in messages."""
    return fresh(f"{p.name}_size{axis}_", low=0)


# these build on Codegen
from anyshape.vm.call_code import CALL_EMITTERS, generate_function  # noqa: E402
from anyshape.vm.list_arguments import Reader, Writer  # noqa: E402
from anyshape.vm.list_code import LIST_EMITTERS, Holds  # noqa: E402
from anyshape.vm.region_code import emit_regions  # noqa: E402

EMITTERS = {**LIST_EMITTERS, **CALL_EMITTERS}

__all__ = ["aligned", "byte_count", "generate", "generate_function"]
