"""Emission of instructions: checks, symbols, constants, and addresses of values, for all code in the table.

In: registers and conditions. Out: instructions, and records of checks. `codegen` builds programs on this module, `list_code` and
`call_code` the code of their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from anyshape.dims import Cond, Dim, Size, bounds, free_symbols, ge, substitute, symbol
from anyshape.errors import AnyshapeError
from anyshape.graph.callee import Callee
from anyshape.graph.function import Function
from anyshape.graph.origins import Names
from anyshape.graph.text import is_anonymous
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import Schedule
from anyshape.rules import Check
from anyshape.types import TensorType
from anyshape.vm.compiling.arena_code import ArenaCode
from anyshape.vm.compiling.kernels import KernelMaker
from anyshape.vm.compiling.lifetimes import Storage
from anyshape.vm.compiling.liveness import Liveness
from anyshape.vm.compiling.shape_code import ShapeCode
from anyshape.vm.program.invocation import Invocation
from anyshape.vm.program.table import ELEMENT_CODE, CallableKernel, CheckRecord, Op
from anyshape.vm.run.arena import ALIGNMENT

if TYPE_CHECKING:
    from anyshape.vm.compiling.list_code import Holds
    from anyshape.vm.program.memory_plan import Inside


def byte_count(t: TensorType) -> Size:
    return t.count() * t.dtype.itemsize


def value_bytes(v: Value) -> Size:
    return byte_count(v.type)


def aligned(n: Size) -> Size:
    return (n + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


@dataclass(eq=False)
class Emission:
    schedule: Schedule
    maker: KernelMaker
    assumed: Collection[Dim]
    _: KW_ONLY
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
    """Names, in messages, of symbols that have none; they belong to the whole function."""
    lists: dict[Value, int] = field(default_factory=dict)
    """Registers of parameters that are lists."""
    functions: Mapping[Callee, int] = field(default_factory=dict)
    """Numbers of the functions that may be called."""
    regions: int = 0
    """Number of regions in use; those of control flow come behind the arena's."""
    notes: dict[int, Invocation] | None = None
    f: Function = field(init=False)
    liveness: Liveness = field(init=False)
    arena: ArenaCode = field(init=False)
    holds: Holds = field(init=False)
    inside: list[Inside] = field(default_factory=list, init=False)
    """Memory plans of the bodies of branches and loops."""
    numbering: list[int] = field(init=False)
    """Number of the first array of each result."""

    def spoken_of(self, p: Value) -> str:
        """What messages call a parameter."""
        return f"input {p.name}"

    # --- checks and symbols ---

    def check(
        self, cond: bool | Cond, parts: tuple[str | Dim | Cond, ...], op: str = "", source: str = "", equation: str = ""
    ) -> None:
        if cond is True:
            return
        symbols = tuple(dict.fromkeys(s for p in parts if not isinstance(p, str) for s in sorted_symbols(p)))
        known = tuple(s for s in symbols if self.code.is_defined(s))
        if len(known) < len(symbols):
            parts = tuple(p if isinstance(p, str) or self.code.is_defined(p) else self.named(p) for p in parts)
        registers = tuple(self.code.register(s) for s in known)
        if not equation:
            equation = str(cond) if self.names is None or not isinstance(cond, Cond) else self.named(cond)
        self.checks.append(CheckRecord(parts, known, registers, equation, op=op, source=source))
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
        """Spells a condition with names of inputs, and the sizes in it: (x.shape[1] == 10 does not hold: x.shape[1] = 7)."""
        parts: list[str | Dim | Cond] = [f" ({self.named(cond)} does not hold: "]
        for k, s in enumerate(sorted(sorted_symbols(cond), key=self.named)):
            parts += [f"{', ' if k else ''}{self.named(s)} = ", s]
        return (*parts, ")")

    def explanation(self, cond: bool | Cond) -> tuple[str | Dim | Cond, ...]:
        """Spells a condition likewise, where symbols have names and the condition is not decided."""
        return self.equation_of(cond) if self.names is not None and isinstance(cond, Cond) else ()

    def named(self, e: Dim | Cond) -> str:
        """Spells an expression; a size without a name is called by the dim it was read from."""
        known = self.spellings(e)
        return str(substitute(e, known)) if known else str(e)

    def spelled(self, e: Size) -> Size:
        """Puts names into a size, for people."""
        return substitute(e, self.spellings(e))

    def spellings(self, e: Size | Cond) -> dict[Dim, Size]:
        assert self.names is not None
        return {s: symbol(self.names[s], *bounds(s)) for s in free_symbols(e) if is_anonymous(s)}

    def load_symbols(self, values: Iterable[Value]) -> None:
        """Emits loads of the elements of values that were just computed, where needed symbols stand for them; then the checks of them, in
        the order of their nodes: which of the values comes first decides nothing."""
        loads = [(v, k, s) for v in values for k, s in self.liveness.loads.get(v, ())]
        for v, k, s in loads:
            self.code.define(s, self.code.new(Op.LOAD, self.address(v), k, ELEMENT_CODE[v.type.dtype]))
        if loads:
            self.flush()

    # --- memory ---

    def check_tenants(self, values: Sequence[Value]) -> None:
        """Emits checks that the dims of values that are laid out are sizes."""
        for v in values:
            self.check_sizes(v, only_known=True)

    def address(self, v: Value) -> int:
        """The register of a value's address; parameters and constants are not copied."""
        v = self.liveness.origin(v)
        if v in self.lists:
            return self.lists[v]
        if v in self.storages:
            address = self.storages[v].address
            if address is None:
                raise AnyshapeError(f"the value {v} is needed before a step computes it")
            return address
        if v.constant is not None:
            return self.constant(v.constant)
        return self.code.pure(Op.ARGUMENT, self.f.params.index(v))

    def constant(self, array: NDArray[Any]) -> int:
        """The register of a constant's address. A constant that is not aligned in its file is copied."""
        number = self.numbers.get(id(array))
        if number is None:
            number = self.numbers[id(array)] = len(self.constants)
            self.kept.append(array)
            self.constants.append(array if array.flags.aligned else array.copy())
        return self.code.pure(Op.CONSTANT, number)

    def allocate(self, v: Value) -> int:
        """Emits the memory of a value, unless it was emitted before; the register of its address."""
        storage = self.storages[v]
        if storage.address is not None:
            return storage.address
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

    def check_sizes(self, v: Value, only_known: bool = False) -> None:
        """Emits checks that dims are not negative, for those that may be: no memory is ever addressed with a negative one."""
        for axis, n in enumerate(v.type.shape or ()):
            if isinstance(n, Dim) and n not in self.sizes and (not only_known or self.code.is_defined(n)):
                self.sizes.add(n)
                where = v.node.op.full_name if v.node is not None else ""
                source = v.node.source if v.node is not None else ""
                cond = ge(n, 0)
                self.check(
                    cond, (f"dim {axis} of the result would be negative: ", n, *self.explanation(cond)), where, source
                )

    def store(self, v: Value) -> None:
        address = self.address(v)
        for k, e in enumerate(v.contents or ()):
            self.code.emit(Op.STORE, address, k, self.code.register(e), ELEMENT_CODE[v.type.dtype])


def sorted_symbols(e: Dim | Cond) -> list[Dim]:
    return sorted(free_symbols(e), key=lambda s: s.uid)


Emitter = Callable[[Emission, int, Node], None]
"""Emitter of the code of a node at a step."""
