"""Code that chooses a level of the processor at the first call, for an object that has the code of several.

In: an open module, and the levels, the lowest first. Out: `chosen_level() -> level`, -1 on a processor that has none, and for callers
`NAME_level` and `NAME_choose`, as `header.py` declares them. A choice is one word of the object, stored atomically: the first call stores
it, and every later one reads it. It holds for all models of an object.

LLVM has no instruction of its own for `cpuid`, and reads inline assembly only where it has an assembler, which is that of the machine that
exports; so the two functions that ask the processor are bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I32, I64, PTR, VOID, Val, const, null
from anyshape.vm.export.failures import Failures, exact
from anyshape.vm.export.processor_features import OSXSAVE, ProcessorAnswer, needed_bits
from anyshape.vm.export.status_code import NUMBER, Code, Messages, own_status
from anyshape.vm.export.targets import ExportTarget

CHOSEN, ANSWERS, LEVEL_OF = "chosen_level", "processor_answers", "level_of"
_WORD = "anyshape_level"
_OFFSET = 2
"""What is added to a level in the word, where 0 means that none was chosen yet, and 1 that the processor has none."""
_CPUID = bytes.fromhex(
    "53"  # push rbx
    "49 89 d0"  # mov r8, rdx
    "89 f8"  # mov eax, edi
    "89 f1"  # mov ecx, esi
    "0f a2"  # cpuid
    "41 89 00"  # mov [r8], eax
    "41 89 58 04"  # mov [r8 + 4], ebx
    "41 89 48 08"  # mov [r8 + 8], ecx
    "41 89 50 0c"  # mov [r8 + 12], edx
    "5b"  # pop rbx
    "c3"  # ret
)
"""`(leaf, subleaf, row of four i32)`"""
_XGETBV = bytes.fromhex(
    "89 f9"  # mov ecx, edi
    "0f 01 d0"  # xgetbv
    "c3"  # ret
)
"""`(number of the register) -> its low half`"""
_OF_STRUCTURED = (ProcessorAnswer.STRUCTURED, ProcessorAnswer.STRUCTURED_ECX, ProcessorAnswer.STRUCTURED_EDX)
_EAX, _EBX, _ECX, _EDX = 0, 1, 2, 3


@dataclass(frozen=True)
class LevelChoice:
    module: Module
    messages: Messages
    name: str
    levels: Sequence[ExportTarget]

    def define(self) -> None:
        self.module.word(_WORD)
        define_answers(self.module)
        define_level_of(self.module, self.levels)
        self.module.define("processor_level", I64, [], _processor_level, inline=False)
        self.module.define(CHOSEN, I64, [], _chosen, inline=False)
        self.module.define(f"{self.name}_level", PTR, [], self._level, internal=False)
        self.module.define(f"{self.name}_choose", I32, [("level", I32), ("status", PTR)], self._choose, internal=False)

    def demand(self, failures: Failures) -> None:
        """Ends a function on a processor that has none of the levels."""
        lacking = failures.f.compare("lt", failures.f.call(CHOSEN, I64, []), 0)
        failures.end_if(
            lacking, Code.PROCESSOR, f"{self._lacks(self.levels[0])}, the lowest level that there is code for"
        )

    def _lacks(self, level: ExportTarget) -> str:
        return f"{self.name}: this processor, or its operating system, lacks instructions of {level.name}"

    def _level(self, f: FunctionBuilder) -> None:
        """Returns the name of the level; NULL where there is none."""
        chosen, name = f.call(CHOSEN, I64, []), null()
        for k, level in enumerate(self.levels):
            name = f.select(f.compare("eq", chosen, k), self.messages.text(level.name), name)
        f.ret(name)

    def _choose(self, f: FunctionBuilder) -> None:
        status = own_status(f)
        failures, number = Failures(f, self.messages, status), f.convert("sext", f.arg("level"), I64)
        listed = ", ".join(f"{k} ({level.name})" for k, level in enumerate(self.levels))
        beyond = f.or_(f.compare("lt", number, 0), f.compare("ge", number, len(self.levels)))
        failures.end_if(
            beyond, Code.PROCESSOR, f"{self.name}: there is no level {NUMBER}; there are {listed}", [exact(number)]
        )
        highest = f.call("processor_level", I64, [])
        for k, level in enumerate(self.levels):
            lacking = f.and_(f.compare("eq", number, k), f.compare("lt", highest, k))
            failures.end_if(lacking, Code.PROCESSOR, self._lacks(level))
        f.atomic_store(f.add(number, _OFFSET), _word())
        self.messages.begin(f, status, Code.OK)
        f.ret(const(I32, Code.OK))


def _word() -> Val:
    return Val(f"@{_WORD}", PTR)


def define_answers(module: Module, internal: bool = True) -> None:
    """Defines `processor_answers(row)`, which writes a word for each of `ProcessorAnswer`."""
    module.machine_code("processor_cpuid", VOID, [I32, I32, PTR], _CPUID)
    module.machine_code("processor_xgetbv", I32, [I32], _XGETBV)
    module.define(ANSWERS, VOID, [("answers", PTR)], _answers, internal=internal, inline=False)


def _answers(f: FunctionBuilder) -> None:
    (answers,) = f.args
    row = f.alloca(I32, 4, 8)

    def cpuid(leaf: int, *registers: int, subleaf: int = 0) -> list[Val]:
        signed = leaf - (1 << 32) if leaf >> 31 else leaf
        f.call("processor_cpuid", VOID, [const(I32, signed), const(I32, subleaf), row])
        return [f.convert("zext", f.load(row, I32, r), I64) for r in registers]

    for answer in ProcessorAnswer:
        f.store(const(I64, 0), answers, answer)
    (highest,), (highest_extended,), (basic,) = cpuid(0, _EAX), cpuid(0x80000000, _EAX), cpuid(1, _ECX)
    f.store(basic, answers, ProcessorAnswer.BASIC)
    with f.if_(f.compare("ge", highest, 7)):  # a processor answers a leaf that it has not by another one
        highest_subleaf, *words = cpuid(7, _EAX, _EBX, _ECX, _EDX)
        for word, answer in zip(words, _OF_STRUCTURED, strict=True):
            f.store(word, answers, answer)
        with f.if_(f.compare("ge", highest_subleaf, 1)):
            (second,) = cpuid(7, _EAX, subleaf=1)
            f.store(second, answers, ProcessorAnswer.SECOND_EAX)
    with f.if_(f.compare("ge", highest_extended, 0x80000001)):
        (extended,) = cpuid(0x80000001, _ECX)
        f.store(extended, answers, ProcessorAnswer.EXTENDED)
    with f.if_(f.compare("ne", f.and_(basic, const(I64, OSXSAVE)), 0)):
        state = f.call("processor_xgetbv", I32, [const(I32, 0)])
        f.store(f.convert("zext", state, I64), answers, ProcessorAnswer.STATE)
    f.ret()


def define_level_of(module: Module, levels: Sequence[ExportTarget], internal: bool = True) -> None:
    """Defines `level_of(answers)`: the highest level of which all bits are set; -1 if there is none."""

    def write(f: FunctionBuilder) -> None:
        (answers,) = f.args
        for k, level in reversed([*enumerate(levels)]):
            holds = const(I1, 1)
            for answer, bits in needed_bits(level.processor).items():
                present = f.and_(f.load(answers, I64, answer), const(I64, bits))
                holds = f.and_(holds, f.compare("eq", present, bits))
            with f.if_(holds):
                f.ret(const(I64, k))
        f.ret(const(I64, -1))

    module.define(LEVEL_OF, I64, [("answers", PTR)], write, internal=internal, inline=False)


def _processor_level(f: FunctionBuilder) -> None:
    answers = f.alloca(I64, len(ProcessorAnswer), 8)
    f.call(ANSWERS, VOID, [answers])
    f.ret(f.call(LEVEL_OF, I64, [answers]))


def _chosen(f: FunctionBuilder) -> None:
    """Returns the level in the word; of threads that call first at once, the first one to store decides."""
    stored = f.atomic_load(_word(), I64)
    with f.if_(f.compare("ne", stored, 0)):
        f.ret(f.sub(stored, _OFFSET))
    f.compare_exchange(_word(), 0, f.add(f.call("processor_level", I64, []), _OFFSET), I64)
    f.ret(f.sub(f.atomic_load(_word(), I64), _OFFSET))
