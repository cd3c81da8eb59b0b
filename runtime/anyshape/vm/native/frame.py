"""Frame of the loop while it is being emitted: its tables, the operands of the instruction at hand, its exits.

In: an open function of one argument, the state. Out: `Frame`, on which the handlers of `scalars` and `effects` are built.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.instructions import BasicBlock
from anyshape.lower.llvm.types import I1, I32, I64, PTR, Val, const
from anyshape.vm.native.layout import End, Word
from anyshape.vm.native.ticker import ClockWord
from anyshape.vm.program.table import Instruction, Mode

HEAD = 2
"""Number of words of an instruction before its operands: opcode and length."""


class Frame:
    """Emitter of the loop. Beside the words of registers lie those that say whether a register was lost to an overflow."""

    def __init__(self, f: FunctionBuilder) -> None:
        self.f = f
        self.state = f.arg("state")
        self.registers, self.lost_words, self.arguments, self.constants, self.kernels, self.regions, self.results, self.frame = (
            f.load(self.state, PTR, word)
            for word in (
                Word.REGISTERS, Word.LOST, Word.ARGUMENTS, Word.CONSTANTS, Word.KERNELS, Word.REGIONS, Word.RESULTS, Word.FRAME
            )
        )  # fmt: skip
        self.at = Val("%at", PTR)
        self.next: list[tuple[Val, BasicBlock]] = []
        self.dispatch = f.new_block()

    def begin(self, op: Instruction) -> None:
        """Begins the handler of an instruction: the loop returns if a register that it needs was lost."""
        self.op = op
        for p in op.parameters:
            if p.mode is Mode.NEEDED:
                self.leave_if(self.lost(p.name), lambda: self.leave(End.OVERFLOW))
        for first, count in self.lists():
            with self.f.for_range(0, count) as each:
                word = self.f.load(self.lost_words, I64, self.f.load(first, I64, each.index))
                self.leave_if(self.f.convert("trunc", word, I1), lambda: self.leave(End.OVERFLOW))

    def operand(self, name: str) -> Val:
        """Loads the word of an operand as it stands in the table; of the first list its count."""
        return self.f.load(self.at, I64, HEAD + [p.name for p in self.op.parameters].index(name))

    def register(self, name: str) -> Val:
        """Loads the register that an operand names."""
        return self.f.load(self.registers, I64, self.operand(name))

    def address(self, name: str) -> Val:
        return self.f.convert("inttoptr", self.register(name), PTR)

    def lists(self) -> list[tuple[Val, Val]]:
        """Computes, for each list, the address of the numbers of its registers and how many there are."""
        f, lists = self.f, list[tuple[Val, Val]]()
        fixed = [p for p in self.op.parameters if p.mode is not Mode.LIST]
        for _ in self.op.parameters[len(fixed) :]:
            at = f.gep(*lists[-1], I64) if lists else f.gep(self.at, HEAD + len(fixed), I64)
            count = f.load(at, I64)
            lists.append((f.gep(at, 1, I64), count))
        return lists

    def copy_list(self, first: Val, count: Val, to: Val) -> None:
        """Copies the registers of a list to an address."""
        with self.f.for_range(0, count) as each:
            self.f.store(self.f.load(self.registers, I64, self.f.load(first, I64, each.index)), to, each.index)

    def lost(self, name: str) -> Val:
        """Tests whether the register that an operand names was lost to an overflow (i1)."""
        return self.f.convert("trunc", self.f.load(self.lost_words, I64, self.operand(name)), I1)

    def write(self, value: Val, lost: Val | None = None) -> None:
        """Writes the value into the register that the instruction writes. It is lost where `lost` says so (i1), and where an operand is
        lost whose loss spreads."""
        f, d = self.f, self.operand("d")
        reasons = [self.lost(p.name) for p in self.op.parameters if p.mode is Mode.SPREADING]
        if lost is not None:
            reasons.append(lost)
        gone = reduce(f.or_, reasons, const(I1, 0))
        f.store(f.convert("zext", gone, I64), self.lost_words, d)
        f.store(f.select(gone, const(I64, 0), value), self.registers, d)

    def leave_if(self, cond: Val, body: Callable[[], None]) -> None:
        """Emits `body`, which makes the loop return, for the case that the condition holds."""
        with self.f.if_(cond):
            body()

    def leave(self, end: End) -> None:
        self.f.store(self.f.convert("ptrtoint", self.at, I64), self.state, Word.AT)
        self.f.ret(const(I64, end))

    def look_up(self) -> None:
        """Asks, after a tick of the clock, whether the call is to stop; the loop returns if it is, and also to give the interpreter's lock
        back before it asks."""
        f = self.f
        now = f.atomic_load(f.load(self.state, PTR, Word.CLOCK), I64, ClockWord.TICKS, order="monotonic")
        ticked, after = f.new_block(), f.new_block()
        f.expect(f.compare("eq", now, f.load(self.state, I64, Word.SEEN)), after, ticked)
        f.start(ticked)
        self.leave_if(f.compare("ne", f.load(self.state, I64, Word.HOLD), 0), lambda: self.leave(End.BLOCKING))
        f.store(now, self.state, Word.SEEN)
        stop = f.call("anyshape_look", I32, [f.load(self.state, PTR, Word.ROOT)])
        self.leave_if(f.compare("ne", stop, 0), lambda: self.leave(End.STOPPED))
        f.jump(after)
        f.start(after)

    def following(self) -> Val:
        """Computes the address of the next instruction: by the operands of the row, or by the word of length where there are lists."""
        counted = any(p.mode is Mode.LIST for p in self.op.parameters)
        return self.f.gep(self.at, self.f.load(self.at, I64, 1) if counted else HEAD + len(self.op.parameters), I64)

    def go_on(self, to: Val | None = None) -> None:
        """Jumps to the next instruction, or to the one at an address."""
        self.next.append((to or self.following(), self.f.block))
        self.f.jump(self.dispatch)
