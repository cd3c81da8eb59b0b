"""Code of a whole call: the table of a program as machine code, one piece for each instruction, in the caller's memory.

In: a program, and its plan. Out: `run_N(dims, inputs, outputs, arena, arena_bytes, weights, pool, status) -> code`. Jumps of the table are
jumps of the code. A region whose bytes the plan knows has its place in the arena; one that a run makes larger moves behind all others, as
long as the arena has room. Kernels are shared over the caller's pool, if there is one. Nothing else is written than the arena, the outputs
and the status.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.dims import INT64_MAX
from anyshape.failure_report import AREA
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I8, I32, I64, PTR, Type, Val, const
from anyshape.vm.compiling.kernels import text_of
from anyshape.vm.export.entry_knowledge import EntryKnowledge, KnownInstruction
from anyshape.vm.export.failures import Failures, define_refusal, exact
from anyshape.vm.export.interface import Interface
from anyshape.vm.export.memory_code import BASE, BYTES, NEEDED, USED, byte_count
from anyshape.vm.export.plan_code import PLAN_ARGUMENTS, over_budget
from anyshape.vm.export.pool_code import SHARE, threads_of
from anyshape.vm.export.registers import SCALAR_OPS, Registers
from anyshape.vm.export.status_code import DECLINED, NUMBER, Code, Messages, template
from anyshape.vm.program.table import ELEMENTS, CheckRecord, Op, Program
from anyshape.vm.run.arena import ALIGNMENT
from anyshape.vm.run.interpreter import overflow_text

RUN_ARGUMENTS = [
    ("dims", PTR), ("inputs", PTR), ("outputs", PTR), ("arena", PTR), ("arena_bytes", I64), ("weights", PTR), ("pool", PTR),
    ("status", PTR),
]  # fmt: skip
OUTPUT_BYTES, OUTPUT_SHAPE, OUTPUT_STRIDE = 8, 16, 24
"""Places in the header's `anyshape_output`, in bytes: after the address of its memory the bytes there, and the address for its shape; its
size."""


def define_run(
    module: Module,
    messages: Messages,
    names: tuple[str, str, str | None],
    interface: Interface,
    known: EntryKnowledge,
    constants: Sequence[int],
    budget: int | None = None,
) -> None:
    """Defines the function of that name, which calls the plan of that name, and, if there is one, that for the most that a run demands.
    `constants`: where each is in the weights."""
    name, plan, most = names
    for k, kernel in enumerate(known.program.kernels):
        define_refusal(module, messages, f"{name}_refusal_{k}", kernel)

    def write(f: FunctionBuilder) -> None:
        _RunCode(f, messages, interface, known, constants).emit(name, plan, most, budget)

    module.define(name, I32, RUN_ARGUMENTS, write, inline=False)


class _RunCode:
    def __init__(
        self,
        f: FunctionBuilder,
        messages: Messages,
        interface: Interface,
        known: EntryKnowledge,
        constants: Sequence[int],
    ) -> None:
        self.f, self.interface, self.known, self.program, self.constants = f, interface, known, known.program, constants
        self.dims, self.inputs, self.outputs, self.memory, self.arena_bytes, self.weights, self.pool, self.status = (
            f.args
        )
        self.threads = threads_of(f, self.pool)
        self.failures = Failures(f, messages, self.status)
        self.registers = Registers(f, self.program.registers)
        lists = [o for step in known.steps if step.op in (Op.INVOKE, Op.SHARE) for o in step.operands[-2:]]
        most = max((len(o) for o in lists if isinstance(o, tuple)), default=0)
        self.frame = f.alloca(I64, AREA + most + 1, 8)
        self.scalars = f.gep(self.frame, AREA, I64)
        self.buffers = f.alloca(PTR, most + 1, 8)
        self.regions = f.alloca(I64, 2 * self.program.regions + 1, 8)
        self.arena = f.alloca(I64, 4, 8)
        targets = {o for step in known.steps for p, o in zip(step.op.parameters, step.operands) if p.of == "word"}
        self.blocks = {word: f.new_block() for word in targets if isinstance(word, int)}

    def emit(self, name: str, plan: str, most: str | None, budget: int | None) -> None:
        f = self.f
        self.name = name
        self.begin(plan, most, budget)
        for step in self.known.steps:
            block = self.blocks.get(step.word)
            if block is not None:
                if not f.block.terminated:
                    f.jump(block)
                f.start(block)
            elif f.block.terminated:
                f.start(f.new_block())  # nothing jumps here
            self.step(step)

    def begin(self, plan: str, most: str | None, budget: int | None) -> None:
        """Lays the arena out by the plan, or, where it is as large as a run can need, so that no region grows."""
        f, count = self.f, self.program.regions
        reserved = f.alloca(I64, count + 1, 8)
        shapes = f.alloca(I64, self.interface.output_words + 1, 8)
        arguments = [self.dims, self.threads, const(I1, 0), reserved, shapes, self.status]
        assert len(arguments) == len(PLAN_ARGUMENTS)
        code = f.call(plan, I32, arguments)
        with f.if_(f.compare("ne", code, 0)):
            f.ret(code)
        for k in range(AREA):
            f.store(const(I64, 0), self.frame, k)
        total = f.load(reserved, I64, count)
        if budget is not None:
            with f.if_(f.compare("gt", total, const(I64, budget), unsigned=True)):
                over_budget(self.failures, self.interface.name, total, budget)
        short = f.compare("gt", total, self.arena_bytes, unsigned=True)
        base = f.convert("ptrtoint", self.memory, I64)
        if most is not None:
            limited = f.alloca(I64, count + 1, 8)
            planned = f.compare("eq", f.call(most, I32, [*arguments[:3], limited, *arguments[4:]]), 0)
            fits = f.compare("le", f.load(limited, I64, count), self.arena_bytes, unsigned=True)
            reserved = f.select(
                f.and_(planned, f.and_(fits, f.compare("ge", f.load(limited, I64, count), 0))), limited, reserved
            )
        used = const(I64, 0)
        for region in range(count):
            size = f.select(short, const(I64, 0), f.load(reserved, I64, region))
            f.store(f.add(base, used), self.regions, 2 * region)
            f.store(size, self.regions, 2 * region + 1)
            used = f.add(used, size)
        room = f.select(f.compare("lt", self.arena_bytes, 0), const(I64, INT64_MAX), self.arena_bytes)
        words = {USED: used, BYTES: f.and_(room, const(I64, -ALIGNMENT)), BASE: base}
        for word, value in {**words, NEEDED: f.select(short, total, const(I64, 0))}.items():
            f.store(value, self.arena, word)

    def step(self, step: KnownInstruction) -> None:
        if step.op in SCALAR_OPS or step.op is Op.CONST:
            self.registers.run(step.op, step.operands)
            return
        needed = [*step.needed()]
        if needed:
            words = template(overflow_text(self.program, step.op.named(step.operands)))
            self.failures.end_if(self.registers.any_lost(needed), Code.OVERFLOW, words)
        _CODE[step.op](self, step)

    # --- reading registers ---

    def read(self, step: KnownInstruction, name: str) -> Val:
        return self.registers.read(step[name])

    def address(self, step: KnownInstruction, name: str) -> Val:
        return self.f.convert("inttoptr", self.read(step, name), PTR)

    def is_zero(self, step: KnownInstruction, name: str) -> Val:
        return self.f.compare("eq", self.read(step, name), 0)

    # --- instructions ---

    def do_return(self, step: KnownInstruction) -> None:
        self.f.ret(const(I32, Code.OK))

    def do_jump(self, step: KnownInstruction) -> None:
        self.f.jump(self.blocks[step["to"]])

    def do_unless(self, step: KnownInstruction) -> None:
        after = self.f.new_block()
        self.f.branch(self.is_zero(step, "cond"), self.blocks[step["to"]], after)
        self.f.start(after)

    def do_dim(self, step: KnownInstruction) -> None:
        place = self.interface.inputs[step["argument"]].first + step["axis"]
        self.registers.write(step["d"], self.f.load(self.dims, I64, place))

    def do_argument(self, step: KnownInstruction) -> None:
        address = self.f.load(self.inputs, PTR, step["argument"])
        self.registers.write(step["d"], self.f.convert("ptrtoint", address, I64))

    def do_constant(self, step: KnownInstruction) -> None:
        offset = self.constants[step["constant"]]
        address = self.f.add(self.f.convert("ptrtoint", self.weights, I64), offset)
        self.registers.write(step["d"], address)

    def do_threads(self, step: KnownInstruction) -> None:
        self.registers.write(step["d"], self.threads)

    def do_check(self, step: KnownInstruction) -> None:
        with self.f.if_(self.is_zero(step, "cond")):
            self.failures.check(self.registers, self.program.checks[step["check"]])

    def do_guard(self, step: KnownInstruction) -> None:
        with self.f.if_(self.is_zero(step, "cond")):
            self.f.ret(const(I32, DECLINED))

    def do_region(self, step: KnownInstruction) -> None:
        self.grow(step, keeps=False, what="")

    def do_extend(self, step: KnownInstruction) -> None:
        self.grow(step, keeps=True, what="")

    def do_stack(self, step: KnownInstruction) -> None:
        record: CheckRecord = self.program.checks[step["what"]]
        self.grow(step, keeps=True, what=f"{record.text(())}: ")

    def grow(self, step: KnownInstruction, keeps: bool, what: str) -> None:
        f = self.f
        region, size = f.gep(self.regions, 2 * step["region"], I64), self.read(step, "size")
        with f.if_(f.compare("gt", size, f.load(region, I64, 1))):
            room = f.call("region_grow", I1, [region, size, const(I1, int(keeps)), self.arena])
            with f.if_(f.not_(room)):
                self.no_room(what)
        self.registers.write(step["d"], f.load(region, I64))

    def no_room(self, what: str) -> None:
        """Ends the call for want of memory: the plan needs more than there is, or what a run makes is larger than what is left."""
        f = self.f
        needed = f.load(self.arena, I64, NEEDED)
        text = f"{template(what + self.interface.name)}: the arena has {NUMBER} bytes, and {NUMBER} are needed"
        pairs = [exact(n, f.compare("lt", n, 0)) for n in (self.arena_bytes, needed)]
        self.failures.end(Code.ARENA, text, pairs, needed=needed)

    def do_swap(self, step: KnownInstruction) -> None:
        f = self.f
        pairs = [f.gep(self.regions, 2 * step[name], I64) for name in ("one", "other")]
        words = [[f.load(p, I64, k) for k in (0, 1)] for p in pairs]
        for pair, (address, capacity) in zip(pairs, reversed(words), strict=True):
            f.store(address, pair, 0)
            f.store(capacity, pair, 1)

    def do_output(self, step: KnownInstruction) -> None:
        f, number = self.f, step["result"]
        tensor, dims = self.interface.outputs[number], step.operands[2]
        assert isinstance(dims, tuple)
        output = f.gep(self.outputs, number * OUTPUT_STRIDE, I8)
        sizes = [self.registers.read(k) for k in dims]
        shape = f.load(f.gep(output, OUTPUT_SHAPE, I8), PTR)
        with f.if_(f.compare("ne", f.convert("ptrtoint", shape, I64), 0)):
            for axis, n in enumerate(sizes):
                f.store(n, shape, axis)
        size, beyond = byte_count(f, sizes, tensor.dtype)
        words = overflow_text(self.program, step.op.named(step.operands))
        self.failures.end_if(beyond, Code.OVERFLOW, template(words))
        room = f.load(f.gep(output, OUTPUT_BYTES, I8), I64)
        with f.if_(f.compare("gt", size, room, unsigned=True)):
            spelled = f"{template(tensor.name)}: {tensor.dtype}[{', '.join(NUMBER for _ in dims)}]"
            text = f"output {spelled} takes {NUMBER} bytes, and its memory has {NUMBER}"
            pairs = [*map(exact, sizes), exact(size), exact(room, f.compare("lt", room, 0))]
            self.failures.end(Code.OUTPUT, text, pairs, needed=size, output=number)
        address = f.convert("ptrtoint", f.load(output, PTR), I64)
        null = f.and_(f.compare("eq", address, 0), f.compare("gt", size, 0))
        self.failures.end_if(null, Code.NULL, template(f"the memory of output {tensor.name} is NULL"))
        self.registers.write(step["d"], address)

    def do_view(self, step: KnownInstruction) -> None:
        self.registers.write(step["d"], self.f.add(self.read(step, "address"), self.read(step, "offset")))

    def do_copy(self, step: KnownInstruction) -> None:
        self.f.memmove(self.address(step, "to"), self.address(step, "address"), self.read(step, "size"))

    def do_rows(self, step: KnownInstruction) -> None:
        f = self.f
        to, to_step, source, stride, size = (self.read(step, n) for n in ("to", "to_step", "address", "step", "size"))
        with f.for_range(0, self.read(step, "count")) as each:
            there = f.convert("inttoptr", f.add(to, f.mul(each.index, to_step)), PTR)
            here = f.convert("inttoptr", f.add(source, f.mul(each.index, stride)), PTR)
            f.memmove(there, here, size)

    def do_load(self, step: KnownInstruction) -> None:
        f, (name, _, size) = self.f, ELEMENTS[step["of"]]
        value = f.load(self.address(step, "address"), Type(f"i{size * 8}"), step["index"], align=1)
        if name == "bool":
            self.registers.write(step["d"], f.convert("zext", f.compare("ne", value, 0), I64))
        elif size == 8:
            self.registers.write(step["d"], value, f.compare("lt", value, 0) if name == "u64" else None)
        else:
            self.registers.write(step["d"], f.convert("zext" if name.startswith("u") else "sext", value, I64))

    def do_store(self, step: KnownInstruction) -> None:
        f, (name, _, size) = self.f, ELEMENTS[step["of"]]
        to, index, value = self.address(step, "address"), step["index"], self.read(step, "value")
        if name == "bool":
            f.store(f.convert("zext", f.compare("ne", value, 0), I8), to, index, align=1)
            return
        element = value if size == 8 else f.convert("trunc", value, Type(f"i{size * 8}"))
        unfit = f.compare("lt", value, 0)
        if size < 8:
            unfit = f.compare("ne", f.convert("zext" if name.startswith("u") else "sext", element, I64), value)
        if name != "i64":
            text = f"{NUMBER} does not fit an element of type {name}"
            self.failures.end_if(unfit, Code.OVERFLOW, text, [exact(value)])
        f.store(element, to, index, align=1)

    def do_invoke(self, step: KnownInstruction) -> None:
        symbol = self.kernel(step)
        arguments = [self.scalars, self.buffers, self.address(step, "scratch"), const(I64, 0), const(I64, 1)]
        self.end_of_kernel(step, self.f.call(symbol, I32, arguments))

    def do_share(self, step: KnownInstruction) -> None:
        """A count of parts that was lost is taken for 1. Slices, between which a call could stop, are for callers that can stop it."""
        f, parts = self.f, step["parts"]
        symbol = self.kernel(step)
        count = f.select(self.registers.lost(parts), const(I64, 1), self.registers.read(parts))
        place = [self.scalars, self.buffers, self.address(step, "scratch"), self.read(step, "each"), count]
        self.end_of_kernel(step, f.call(SHARE, I32, [self.pool, Val(f"@{symbol}", PTR), *place]))

    def kernel(self, step: KnownInstruction) -> str:
        """Stores the scalars and the addresses that a kernel takes; its name."""
        f, kernel = self.f, self.program.kernels[step["kernel"]]
        scalars, buffers = step.operands[-2:]
        assert isinstance(scalars, tuple) and isinstance(buffers, tuple)
        for k, register in enumerate(scalars):
            f.store(self.registers.read(register), self.scalars, k)
        for k, register in enumerate(buffers):
            f.store(f.convert("inttoptr", self.registers.read(register), PTR), self.buffers, k)
        symbol = text_of(kernel).symbol
        f.module.declare(symbol, I32, [PTR, PTR, PTR, I64, I64])
        return symbol

    def end_of_kernel(self, step: KnownInstruction, result: Val) -> None:
        f = self.f
        with f.if_(f.compare("ne", result, 0)):
            f.ret(f.call(f"{self.name}_refusal_{step['kernel']}", I32, [self.status, self.scalars, result]))


_CODE = {op: vars(_RunCode)[op.handler] for op in Op if op.handler in vars(_RunCode)}
"""Method that emits an instruction, for those that are no scalar arithmetic; others are refused (`untranslated`)."""


def untranslated(program: Program) -> list[Op]:
    """Instructions of a program for which there is no code."""
    translated = {*_CODE, *SCALAR_OPS, Op.CONST}
    return sorted({op for _, op, _ in program.instructions()} - translated)
