"""Registers of a program as variables of one function, and scalar instructions on them.

In: an open function. Out: code of scalar instructions in it, by the handlers that the native loop has. LLVM makes values of the variables
(`linking`); a register that no path writes is 0, as in the virtual machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from anyshape.dims import Cond, Dim, Size
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I1, I64, Val, const
from anyshape.vm.compiling.shape_code import ShapeCode
from anyshape.vm.native import scalar_code
from anyshape.vm.program.table import InstructionOperand, Mode, Op, decode

SCALAR_OPS = frozenset(op for op in Op if Op.ADD <= op <= Op.SELECT)
"""Arithmetic, comparisons and choice"""


class Registers:
    """The registers of one function. Beside each stands whether its number was lost to an overflow (i1)."""

    def __init__(self, f: FunctionBuilder, count: int) -> None:
        self.f, self._code = f, scalar_code()
        self._variables = [(f.alloca(I64, 1, 8), f.alloca(I1, 1, 1)) for _ in range(count)]
        for number, lost in self._variables:
            f.store(const(I64, 0), number)
            f.store(const(I1, 0), lost)

    def add(self) -> int:
        """A new register, which has no number yet."""
        self._variables.append((self.f.alloca(I64, 1, 8), self.f.alloca(I1, 1, 1)))
        return len(self._variables) - 1

    @property
    def count(self) -> int:
        return len(self._variables)

    def read(self, k: int) -> Val:
        return self.f.load(self._variables[k][0], I64)

    def lost(self, k: int) -> Val:
        return self.f.load(self._variables[k][1], I1)

    def any_lost(self, registers: Iterable[int]) -> Val:
        return reduce(self.f.or_, map(self.lost, registers), const(I1, 0))

    def write(self, k: int, value: Val, lost: Val | None = None) -> None:
        """Writes a register; one that is lost holds 0."""
        gone = const(I1, 0) if lost is None else lost
        self.f.store(gone, self._variables[k][1])
        self.f.store(value if lost is None else self.f.select(gone, const(I64, 0), value), self._variables[k][0])

    def run(self, op: Op, operands: Sequence[InstructionOperand]) -> None:
        """Emits a scalar instruction."""
        if op is Op.CONST:
            number = operands[1]
            assert isinstance(operands[0], int) and isinstance(number, int)
            self.write(operands[0], const(I64, number))
        else:
            self._code[op](_InstructionFrame(self.f, self, op, op.named(operands)))

    def sizes(self, symbols: dict[Dim, int], expressions: Sequence[Size | Cond | bool]) -> list[int]:
        """Emits expressions of symbols, of which each is in a register; the registers of their values."""
        code = ShapeCode()
        code.count = self.count
        for s, k in symbols.items():
            code.define(s, k)
        results = [code.register(e) for e in expressions]
        for _ in range(code.count - self.count):
            self.add()
        for _, op, operands in decode(code.words):
            self.run(op, operands)
        return results


@dataclass(frozen=True, slots=True)
class _InstructionFrame:
    """A scalar instruction, as its handler sees it."""

    f: FunctionBuilder
    registers: Registers
    op: Op
    operands: dict[str, int]

    def register(self, name: str) -> Val:
        return self.registers.read(self.operands[name])

    def lost(self, name: str) -> Val:
        return self.registers.lost(self.operands[name])

    def write(self, value: Val, lost: Val | None = None) -> None:
        spreading = [self.operands[p.name] for p in self.op.parameters if p.mode is Mode.SPREADING]
        gone = self.registers.any_lost(spreading)
        self.registers.write(self.operands["d"], value, gone if lost is None else self.f.or_(gone, lost))
