"""Code of the functions that C callers see: they put dims in order, refuse what no program takes, and call a variant that takes the sizes.

In: the interface, and the variants of a program that are defined, for each level of processors. Out: `NAME_arena_bytes`, `NAME_check`,
`NAME_output_shape`, `NAME_run` and those for a pool of threads and for tensors, as `header.py` declares them. What all share: `demand`
refuses an axis that is negative and an input of more bytes than 63 bits count; `plan` and `enter` try the variants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I32, I64, PTR, Type, Val, const, null
from anyshape.vm.export.failures import Failures, exact
from anyshape.vm.export.interface import Interface, InterfaceTensor
from anyshape.vm.export.level_code import CHOSEN, LevelChoice
from anyshape.vm.export.memory_code import byte_count
from anyshape.vm.export.pool_code import lacks_function, limited
from anyshape.vm.export.registers import Registers
from anyshape.vm.export.status_code import BYTES, DECLINED, NUMBER, Code, Messages, own_status, template
from anyshape.vm.export.targets import ExportTarget
from anyshape.vm.export.tensor_code import emit_rows, has_codes, input_rows, store_shapes
from anyshape.vm.export.weights import DIGEST, Weights
from anyshape.vm.run.arena import ALIGNMENT

_PLANNED = [("dims", PTR), ("threads", I64), ("demand", I1), ("total", PTR), ("shapes", PTR), ("status", PTR)]


@dataclass(frozen=True, slots=True)
class Variant:
    """The functions of one program (`plan_code`, `run_code`), and how many regions it has. `most`: the plan for the most that a run
    demands; None where that has no limit."""

    plan: str
    run: str
    regions: int
    most: str | None


@dataclass(frozen=True, slots=True)
class LevelVariants:
    """The variants for one processor; a call runs the first that takes its sizes."""

    target: ExportTarget
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Entries:
    """`levels`: the lowest first. `asks`: whether the code asks the processor, and chooses one at the first call."""

    module: Module
    messages: Messages
    interface: Interface
    levels: Sequence[LevelVariants]
    weights: Weights
    _: KW_ONLY
    pointer_bytes: int
    is_limited: bool
    """Whether there is a function for the most that runs may need."""
    asks: bool

    def define(self) -> None:
        if self.choice is not None:
            self.choice.define()
        self.module.define("demand", I32, [("dims", PTR), ("status", PTR)], self._demand, inline=False)
        self._define_plan("plan", lambda v: v.plan)
        name, dims = self.interface.name, [(f"dim{k}", I64) for k, _ in enumerate(self.interface.dims)]
        status = [("status", PTR)]
        self._public(f"{name}_arena_bytes", I64, dims, lambda f: self._arena_bytes(f, const(I64, 1)))
        shared = [("threads", I64), *dims]
        self._public(
            f"{name}_arena_bytes_shared", I64, shared, lambda f: self._arena_bytes(f, limited(f, f.arg("threads")))
        )
        if self.is_limited:
            self._define_plan("plan_most", lambda v: v.most)
            self._public(
                f"{name}_arena_bytes_most",
                I64,
                shared,
                lambda f: self._arena_bytes(f, limited(f, f.arg("threads")), "plan_most"),
            )
        self._public(f"{name}_check", I32, [*dims, *status], self._check)
        self._public(f"{name}_output_shape", I32, [("output", I32), *dims, ("shape", PTR), *status], self._output_shape)
        weights = [("weights", PTR)] if self.weights.is_file else []
        memory = [("arena", PTR), ("arena_bytes", I64), *weights]
        run = [*memory, ("inputs", PTR), ("outputs", PTR), *dims, *status]
        rows = [("dims", PTR), ("inputs", PTR), ("outputs", PTR), *status]
        entered = [("pool", PTR), ("arena", PTR), ("arena_bytes", I64), ("weights", PTR), *rows]
        self.module.define("enter", I32, entered, self._enter, inline=False)
        if has_codes(self.interface):
            tensors = [("pool", PTR), *memory, ("inputs", PTR), ("outputs", PTR), *status]
            self._public(f"{name}_run_tensors", I32, tensors, self._run_tensors)
            planned = [("threads", I64), ("inputs", PTR), ("outputs", PTR), ("arena_bytes", PTR), *status]
            self._public(f"{name}_plan_tensors", I32, planned, self._plan_tensors)
        shared_name = f"{name}_run_shared"
        self._public(shared_name, I32, [("pool", PTR), *run], self._run)
        self._public(f"{name}_run", I32, run, lambda f: f.ret(f.call(shared_name, I32, [null(), *f.args])))

    def _public(
        self, name: str, result: Type, arguments: Sequence[tuple[str, Type]], write: Callable[[FunctionBuilder], None]
    ) -> None:
        self.module.define(name, result, arguments, write, internal=False)

    @property
    def choice(self) -> LevelChoice | None:
        """What chooses a level, if the code asks."""
        if not self.asks:
            return None
        return LevelChoice(self.module, self.messages, self.interface.name, [level.target for level in self.levels])

    # --- what all share ---

    def _dims(self, f: FunctionBuilder, failures: Failures) -> Val:
        """The row of the dims of all inputs, from the caller's."""
        row = f.alloca(I64, self.interface.input_words + 1, 8)
        registers = Registers(f, len(self.interface.dims))
        for k, _ in enumerate(self.interface.dims):
            registers.write(k, f.arg(f"dim{k}"))
        symbols = {d.symbol: k for k, d in enumerate(self.interface.dims)}
        for t in self.interface.inputs:
            for axis, (n, k) in enumerate(zip(t.shape, registers.sizes(symbols, t.shape), strict=True)):
                words = template(
                    f"input {t.name}: dim {axis} ({self._spelled(n)}) does not fit a signed 64-bit integer"
                )
                failures.end_if(registers.lost(k), Code.OVERFLOW, words)
                f.store(registers.read(k), row, t.first + axis)
        return row

    def _spelled(self, n: object) -> str:
        labels = {str(d.symbol): d.label for d in self.interface.dims}
        return labels.get(str(n), str(n))

    def _demand(self, f: FunctionBuilder) -> None:
        dims, status = f.args
        failures = Failures(f, self.messages, status)
        if self.choice is not None:
            self.choice.demand(failures)
        for t in self.interface.inputs:
            sizes = [f.load(dims, I64, t.first + axis) for axis in range(t.rank)]
            for axis, (n, size) in enumerate(zip(t.shape, sizes, strict=True)):
                if not isinstance(n, int):
                    text = (
                        template(f"input {t.name}: dim {axis} ({self._spelled(n)}) must be at least 0, got ") + NUMBER
                    )
                    failures.end_if(f.compare("lt", size, 0), Code.SHAPE, text, [exact(size)])
            _, beyond = byte_count(f, sizes, t.dtype)
            words = template(f"input {t.name}: its size in bytes does not fit a signed 64-bit integer")
            failures.end_if(beyond, Code.OVERFLOW, words)
        f.ret(const(I32, Code.OK))

    def _define_plan(self, name: str, of: Callable[[Variant], str | None]) -> None:
        """Defines a plan by that of each variant; of several levels over a function for each."""
        names = [f"level_{name}_{k}" for k, _ in enumerate(self.levels)] if len(self.levels) > 1 else [name]
        for own, level in zip(names, self.levels, strict=True):
            self.module.define(own, I32, _PLANNED, partial(self._plan, level.variants, of), inline=False)
        if len(self.levels) > 1:
            self.module.define(name, I32, _PLANNED, partial(self._plan_largest, names), inline=False)

    def _plan(self, variants: Sequence[Variant], of: Callable[[Variant], str | None], f: FunctionBuilder) -> None:
        """Plans by the first variant that takes the sizes; all bits of the total are set where it has no such plan."""
        dims, threads, demand, total, shapes, status = f.args
        reserved = f.alloca(I64, max(v.regions for v in variants) + 1, 8)
        for v in variants:
            plan = of(v)
            code = f.call(plan or v.plan, I32, [dims, threads, demand, reserved, shapes, status])
            with f.if_(f.compare("ne", code, DECLINED)):
                f.store(const(I64, -1) if plan is None else f.load(reserved, I64, v.regions), total)
                f.ret(code)
        self._undecided(f, status)

    def _plan_largest(self, names: Sequence[str], f: FunctionBuilder) -> None:
        """Plans for each level: what one refuses is refused, and the memory is the most that one needs, whichever will run."""
        dims, threads, demand, total, shapes, status = f.args
        own, most = f.alloca(I64, 1, 8), const(I64, 0)
        for name in names:
            code = f.call(name, I32, [dims, threads, demand, own, shapes, status])
            with f.if_(f.compare("ne", code, 0)):
                f.ret(code)
            needed = f.load(own, I64)
            most = f.select(f.compare("gt", needed, most, unsigned=True), needed, most)
        f.store(most, total)
        f.ret(const(I32, Code.OK))

    def _undecided(self, f: FunctionBuilder, status: Val) -> None:
        Failures(f, self.messages, status).end(
            Code.DEFECT, f"{self.interface.name}: no variant of the program takes these sizes"
        )

    def _planned(
        self,
        f: FunctionBuilder,
        status: Val,
        dims: Val,
        demand: bool,
        shapes: Val,
        threads: Val | None = None,
        plan: str = "plan",
    ) -> tuple[Val, Val]:
        """Refuses wrong dims, and plans; the address of the total, and the code."""
        total = f.alloca(I64, 1, 8)
        f.store(const(I64, -1), total)
        refused = f.call("demand", I32, [dims, status])
        with f.if_else(f.compare("ne", refused, 0)) as branch:
            with branch.then():
                branch.give(refused)
            with branch.otherwise():
                of = const(I64, 1) if threads is None else threads
                branch.give(f.call(plan, I32, [dims, of, const(I1, int(demand)), total, shapes, status]))
        return total, branch.results[0]

    def _shapes(self, f: FunctionBuilder) -> Val:
        return f.alloca(I64, self.interface.output_words + 1, 8)

    # --- functions of the header ---

    def _arena_bytes(self, f: FunctionBuilder, threads: Val, plan: str = "plan") -> None:
        status = f.alloca(I64, BYTES // 8, 8)
        unfit = f.new_block()
        dims = self._dims(f, _Saturating(f, self.messages, status))
        total, code = self._planned(f, status, dims, False, self._shapes(f), threads, plan)
        known = f.new_block()
        f.branch(f.compare("eq", code, 0), known, unfit)
        f.start(known)
        f.ret(f.load(total, I64))
        f.start(unfit)
        f.ret(const(I64, -1))

    def _check(self, f: FunctionBuilder) -> None:
        status = own_status(f)
        dims = self._dims(f, Failures(f, self.messages, status))
        _, code = self._planned(f, status, dims, True, self._shapes(f))
        self._finish(f, status, code)

    def _finish(self, f: FunctionBuilder, status: Val, code: Val) -> None:
        with f.if_(f.compare("eq", code, 0)):
            self.messages.begin(f, status, Code.OK)
        f.ret(code)

    def _output_shape(self, f: FunctionBuilder) -> None:
        status, output, shape = own_status(f), f.arg("output"), f.arg("shape")
        failures = Failures(f, self.messages, status)
        dims, shapes = self._dims(f, failures), self._shapes(f)
        count = len(self.interface.outputs)
        text = f"there is no output {NUMBER}; the model has {count}"
        beyond = f.compare("ge", output, const(I32, count), unsigned=True)
        failures.end_if(beyond, Code.SHAPE, text, [exact(f.convert("sext", output, I64))])
        _, code = self._planned(f, status, dims, True, shapes)
        with f.if_(f.compare("ne", code, 0)):
            f.ret(code)
        other = f.new_block()
        blocks = [(k, f.new_block()) for k in range(count)]
        f.switch(output, other, blocks)
        for (_, block), t in zip(blocks, self.interface.outputs, strict=True):
            f.start(block)
            if t.rank:
                failures.end_if(f.compare("eq", f.convert("ptrtoint", shape, I64), 0), Code.NULL, "shape is NULL")
            for axis in range(t.rank):
                f.store(f.load(shapes, I64, t.first + axis), shape, axis)
            f.jump(other)
        f.start(other)
        self._finish(f, status, const(I32, Code.OK))

    def _run(self, f: FunctionBuilder) -> None:
        status = own_status(f)
        failures = Failures(f, self.messages, status)
        dims = self._dims(f, failures)
        inputs, outputs = f.arg("inputs"), f.arg("outputs")
        for what, row, tensors in (
            ("inputs", inputs, self.interface.inputs),
            ("outputs", outputs, self.interface.outputs),
        ):
            if tensors:
                failures.end_if(_is_null(f, row), Code.NULL, f"{what} is NULL")
        f.ret(f.call("enter", I32, [*self._memory(f), dims, inputs, outputs, status]))

    def _run_tensors(self, f: FunctionBuilder) -> None:
        status = own_status(f)
        rows = emit_rows(f, Failures(f, self.messages, status), self.interface, self.pointer_bytes)
        f.ret(f.call("enter", I32, [*self._memory(f), *rows, status]))

    def _plan_tensors(self, f: FunctionBuilder) -> None:
        """Writes the shapes of outputs, -1 for a dim that only a run tells, and the bytes of the arena."""
        status = own_status(f)
        failures = Failures(f, self.messages, status)
        dims, _ = input_rows(f, failures, self.interface, self.pointer_bytes)
        shapes = self._shapes(f)
        total, code = self._planned(f, status, dims, True, shapes, limited(f, f.arg("threads")))
        with f.if_(f.compare("ne", code, 0)):
            f.ret(code)
        failures.end_if(_is_null(f, f.arg("arena_bytes")), Code.NULL, "arena_bytes is NULL")
        f.store(f.load(total, I64), f.arg("arena_bytes"))
        store_shapes(f, failures, self.interface, shapes, self.pointer_bytes)
        self._finish(f, status, const(I32, Code.OK))

    def _memory(self, f: FunctionBuilder) -> list[Val]:
        weights = f.arg("weights") if self.weights.is_file else null()
        return [f.arg("pool"), f.arg("arena"), f.arg("arena_bytes"), weights]

    def _enter(self, f: FunctionBuilder) -> None:
        """Runs the first variant of the level that takes the sizes."""
        pool, arena, arena_bytes, weights, dims, inputs, outputs, status = f.args
        failures = Failures(f, self.messages, status)
        refused = f.call("demand", I32, [dims, status])
        with f.if_(f.compare("ne", refused, 0)):
            f.ret(refused)
        for k, t in enumerate(self.interface.inputs):
            self._demand_input(f, failures, t, f.load(inputs, PTR, k), dims)
        failures.end_if(lacks_function(f, pool), Code.NULL, "parallel_for of the pool is NULL")
        address = f.convert("ptrtoint", arena, I64)
        skew = f.compare("ne", f.and_(address, const(I64, ALIGNMENT - 1)), 0)
        failures.end_if(skew, Code.ARENA, f"the arena must begin at a multiple of {ALIGNMENT} bytes")
        room = f.select(f.compare("eq", address, 0), const(I64, 0), arena_bytes)
        stored = self._weights(f, failures, weights)
        arguments = [dims, inputs, outputs, arena, room, stored, pool, status]
        lowest, *higher = self.levels
        if higher:
            first, blocks = f.new_block(), [(k, f.new_block()) for k, _ in enumerate(higher, 1)]
            f.switch(f.call(CHOSEN, I64, []), first, blocks)
            for (_, block), level in zip(blocks, higher, strict=True):
                f.start(block)
                self._run_level(f, level, arguments)
            f.start(first)
        self._run_level(f, lowest, arguments)

    def _run_level(self, f: FunctionBuilder, level: LevelVariants, arguments: Sequence[Val]) -> None:
        *_, status = arguments
        for v in level.variants:
            code = f.call(v.run, I32, arguments)
            with f.if_(f.compare("ne", code, DECLINED)):
                self._finish(f, status, code)
        self._undecided(f, status)

    def _demand_input(
        self, f: FunctionBuilder, failures: Failures, t: InterfaceTensor, address: Val, dims: Val
    ) -> None:
        size, _ = byte_count(f, [f.load(dims, I64, t.first + axis) for axis in range(t.rank)], t.dtype)
        null = f.and_(_is_null(f, address), f.compare("gt", size, 0))
        failures.end_if(null, Code.NULL, template(f"input {t.name} is NULL"))

    def _weights(self, f: FunctionBuilder, failures: Failures, weights: Val) -> Val:
        """The address of the weights; those of a file, which the caller passes, begin with a digest."""
        if not self.weights.is_file:
            return self.module.data("weights", self.weights.content(), ALIGNMENT)
        failures.end_if(_is_null(f, weights), Code.NULL, "weights is NULL")
        skew = f.compare("ne", f.and_(f.convert("ptrtoint", weights, I64), const(I64, ALIGNMENT - 1)), 0)
        failures.end_if(skew, Code.WEIGHTS, f"the weights must begin at a multiple of {ALIGNMENT} bytes")
        differs = const(I1, 0)
        for k in range(0, DIGEST, 8):
            expected = int.from_bytes(self.weights.digest[k : k + 8], "little", signed=True)
            differs = f.or_(differs, f.compare("ne", f.load(weights, I64, k // 8), expected))
        failures.end_if(
            differs, Code.WEIGHTS, template(f"the weights are not those of this model, {self.interface.name}")
        )
        return weights


class _Saturating(Failures):
    """Ends of a function that returns bytes: more than there can be."""

    def end(self, *_: object, **__: object) -> None:
        self.f.ret(const(I64, -1))


def _is_null(f: FunctionBuilder, address: Val) -> Val:
    return f.compare("eq", f.convert("ptrtoint", address, I64), 0)
