"""The loop while it is being emitted: the tables it works on, operands of the instruction at hand, ways out.

In: an open function of one argument, the state. Out: `Frame`, on which the handlers of `scalars` and `effects` are built.
"""

from __future__ import annotations

from collections.abc import Callable

from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.emitter import Block
from anyshape.lower.llvm.types import I1, I32, I64, PTR, Val, const
from anyshape.vm.native.layout import End, Word
from anyshape.vm.native.ticker import ClockWord

HEAD = 2
"""Words of an instruction before its operands: opcode and length."""


class Frame:
    """`careful`: whether this loop keeps account of registers lost to overflow."""

    def __init__(self, f: FunctionBuilder, careful: bool) -> None:
        self.f, self.careful = f, careful
        self.state = f.arg("state")
        self.registers, self.arguments, self.constants, self.kernels, self.regions, self.results, self.frame = (
            f.load(self.state, PTR, word)
            for word in (
                Word.REGISTERS, Word.ARGUMENTS, Word.CONSTANTS, Word.KERNELS, Word.REGIONS, Word.RESULTS, Word.FRAME
            )
        )  # fmt: skip
        self.lost_words = f.load(self.state, PTR, Word.LOST) if careful else None
        self.at = Val("%at", PTR)
        self.next: list[tuple[Val, Block]] = []
        self.dispatch = f.new_block()

    def operand(self, k: int) -> Val:
        """Operand word k as it stands in the table."""
        return self.f.load(self.at, I64, HEAD + k)

    def register(self, k: int) -> Val:
        """The value of the register that operand word k names."""
        return self.f.load(self.registers, I64, self.operand(k))

    def lost(self, k: int) -> Val:
        """Whether the register that operand word k names was lost to an overflow (i1)."""
        assert self.lost_words is not None
        return self.f.convert("trunc", self.f.load(self.lost_words, I64, self.operand(k)), I1)

    def write(self, value: Val, lost: Val | None = None) -> None:
        """The register that the first operand names = value."""
        d = self.operand(0)
        self.f.store(value, self.registers, d)
        if self.lost_words is not None:
            word = self.f.convert("zext", lost, I64) if lost is not None else const(I64, 0)
            self.f.store(word, self.lost_words, d)

    def liveness(self, *operands: int) -> None:
        """An effect needs these registers: the turn ends if one of them was lost."""
        if self.careful:
            for k in operands:
                self.leave_if(self.lost(k), lambda: self.leave(End.OVERFLOW))

    def need_list(self, first: Val, count: Val) -> None:
        """The same for a counted list of registers whose names begin at the address `first`."""
        if self.lost_words is not None:
            with self.f.for_range(0, count) as each:
                word = self.f.load(self.lost_words, I64, self.f.load(first, I64, each.index))
                self.leave_if(self.f.convert("trunc", word, I1), lambda: self.leave(End.OVERFLOW))

    def leave_if(self, cond: Val, body: Callable[[], None]) -> None:
        """`body` ends the turn."""
        with self.f.if_(cond):
            body()

    def leave(self, end: End) -> None:
        self.f.store(self.f.convert("ptrtoint", self.at, I64), self.state, Word.AT)
        self.f.ret(const(I64, end))

    def look_up(self) -> None:
        """After a tick of the clock: the turn ends if the call is to stop, or first gives the interpreter's lock back."""
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

    def overflowed(self) -> None:
        """From the plain loop into the careful one, which begins with this instruction: nothing is lost yet."""
        f = self.f
        f.store(f.convert("ptrtoint", self.at, I64), self.state, Word.AT)
        f.store(const(I64, 1), self.state, Word.CAREFUL)
        f.memset_zero(f.load(self.state, PTR, Word.LOST), f.shl(f.load(self.state, I64, Word.REGISTER_COUNT), 3))
        f.ret(f.call("anyshape_careful", I64, [self.state]))

    def go_on(self, words: int | None = None, to: Val | None = None) -> None:
        """To the next instruction: `words` further, at an address, or as far as the length word says."""
        if to is None:
            length = const(I64, words) if words is not None else self.f.load(self.at, I64, 1)
            to = self.f.gep(self.at, length, I64)
        self.next.append((to, self.f.block))
        self.f.jump(self.dispatch)
