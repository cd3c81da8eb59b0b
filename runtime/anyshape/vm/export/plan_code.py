"""Code that answers before anything runs: which variant of a program takes these sizes, what memory it needs, whether it refuses them.

In: a program, and what is known of it. Out: `plan_N(dims, threads, demand, reserved, shapes, status) -> code`.
It writes the bytes that each region has to have to `reserved`, and behind them their sum, with all bits set where that does not fit 63
bits; the dims of results to `shapes`, -1 where only a run tells them. With `demand` it refuses what checks on sizes refuse. `DECLINED`:
another variant takes these sizes. By `limits` it plans for the most that a run demands, not only for what dims decide.
"""

from __future__ import annotations

from anyshape.dims import INT64_MAX
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.overflow import with_overflow
from anyshape.lower.llvm.types import I1, I32, I64, PTR, Val, const
from anyshape.vm.export.entry_knowledge import EntryKnowledge, KnownInstruction
from anyshape.vm.export.failures import Failures, exact
from anyshape.vm.export.interface import Interface
from anyshape.vm.export.memory_code import aligned, byte_count
from anyshape.vm.export.registers import Registers
from anyshape.vm.export.size_limits import SizeLimits
from anyshape.vm.export.status_code import DECLINED, NUMBER, Code, Messages, template
from anyshape.vm.program.table import Op
from anyshape.vm.run.interpreter import overflow_text

PLAN_ARGUMENTS = [
    ("dims", PTR), ("threads", I64), ("demand", I1), ("reserved", PTR), ("shapes", PTR), ("status", PTR)
]  # fmt: skip


def define_plan(
    module: Module,
    messages: Messages,
    name: str,
    interface: Interface,
    known: EntryKnowledge,
    budget: int | None = None,
    limits: SizeLimits | None = None,
) -> None:
    """Defines the function of that name. `budget`: the most bytes of the arena that it does not refuse."""

    def write(f: FunctionBuilder) -> None:
        _PlanCode(f, messages, interface, known, limits).emit(budget)

    module.define(name, I32, PLAN_ARGUMENTS, write, inline=False)


class _PlanCode:
    def __init__(
        self,
        f: FunctionBuilder,
        messages: Messages,
        interface: Interface,
        known: EntryKnowledge,
        limits: SizeLimits | None,
    ) -> None:
        self.f, self.interface, self.known, self.program, self.limits = f, interface, known, known.program, limits
        self.dims, self.threads, self.demand, self.reserved, self.shapes, status = f.args
        self.failures = Failures(f, messages, status)
        self.registers = Registers(f, self.program.registers)

    def emit(self, budget: int | None) -> None:
        f = self.f
        for k in range(self.interface.output_words):
            f.store(const(I64, -1), self.shapes, k)
        scalars = {step.word for step in self.known.scalars()}
        for step in self.known.steps:
            if step.word in scalars:
                self.scalar(step)
            elif step.op is Op.GUARD and self.known.is_known(step):
                refused = f.or_(
                    f.compare("eq", self.registers.read(step["cond"]), 0), self.registers.lost(step["cond"])
                )
                with f.if_(refused):
                    f.ret(const(I32, DECLINED))
            elif step.op is Op.CHECK and step.always and self.known.is_known(step):
                self.check(step)
            else:
                self.fits(step)
                if step.op is Op.OUTPUT:
                    self.shape(step)
        self.memory(budget)
        f.ret(const(I32, Code.OK))

    def scalar(self, step: KnownInstruction) -> None:
        if step.op is Op.DIM:
            place = self.interface.inputs[step["argument"]].first + step["axis"]
            self.registers.write(step["d"], self.f.load(self.dims, I64, place))
        elif step.op is Op.THREADS:
            self.registers.write(step["d"], self.threads)
        else:
            self.registers.run(step.op, step.operands)

    def check(self, step: KnownInstruction) -> None:
        f, registers = self.f, self.registers
        lost, holds = registers.lost(step["cond"]), f.compare("ne", registers.read(step["cond"]), 0)
        with f.if_(f.and_(self.demand, f.or_(lost, f.not_(holds)))):
            self.overflow_if(step, lost)
            self.failures.check(registers, self.program.checks[step["check"]])

    def fits(self, step: KnownInstruction) -> None:
        """Refuses sizes at which an instruction that always runs would end the call, since a number that it needs is beyond 64 bits."""
        needed = [k for k in step.needed() if k in self.known.known]
        if step.always and needed:
            self.overflow_if(step, self.f.and_(self.demand, self.registers.any_lost(needed)))

    def overflow_if(self, step: KnownInstruction, cond: Val) -> None:
        words = template(overflow_text(self.program, step.op.named(step.operands)))
        self.failures.end_if(cond, Code.OVERFLOW, words)

    def shape(self, step: KnownInstruction) -> None:
        dims = step.operands[2]
        assert isinstance(dims, tuple)
        tensor = self.interface.outputs[step["result"]]
        if step.always and self.known.is_known(step):
            _, beyond = byte_count(self.f, [self.registers.read(k) for k in dims], tensor.dtype)
            self.overflow_if(step, self.f.and_(self.demand, beyond))
        for axis, k in enumerate(dims):
            if k in self.known.known:
                self.f.store(self.registers.read(k), self.shapes, tensor.first + axis)

    def demanded(self) -> dict[int, list[int]]:
        """The registers of the bytes that each region has to have."""
        limits = None if self.limits is None else self.limits.regions()
        if self.limits is None or limits is None:
            return self.known.regions()
        registers = self.registers.sizes(self.limits.symbols, [*limits.values()])
        return {region: [k] for region, k in zip(limits, registers, strict=True)}

    def memory(self, budget: int | None) -> None:
        """Writes the bytes of regions, each up to a multiple of the alignment, and their sum."""
        f = self.f
        total, beyond = const(I64, 0), const(I1, 0)
        for region, sizes in self.demanded().items():
            most = const(I64, 0)
            for k in sizes:
                most = f.smax(most, f.select(self.registers.lost(k), const(I64, INT64_MAX), self.registers.read(k)))
            padded, over = aligned(f, most)
            size = f.select(over, const(I64, INT64_MAX), padded)
            f.store(size, self.reserved, region)
            total, more = with_overflow(f, "sadd", total, size)
            beyond = f.or_(beyond, f.or_(over, more))
        f.store(f.select(beyond, const(I64, -1), total), self.reserved, self.program.regions)
        words = f"{template(self.interface.name)}: the size of its memory does not fit a signed 64-bit integer"
        self.failures.end_if(f.and_(self.demand, beyond), Code.OVERFLOW, words)
        if budget is not None:
            with f.if_(f.and_(self.demand, f.compare("gt", total, budget))):
                over_budget(self.failures, self.interface.name, total, budget)


def over_budget(failures: Failures, name: str, total: Val, budget: int) -> None:
    """Ends a function because the arena would be larger than the budget."""
    text = f"{template(name)}: these sizes need {NUMBER} bytes of memory, and the budget is {budget}"
    failures.end(Code.ARENA, text, [exact(total, failures.f.compare("lt", total, 0))], needed=total)
