"""Program: one table of 64-bit words that says everything a call does, and the objects its words refer to by number.

Layout, fixed, so that a native loop can walk the same words: an instruction is `opcode, length, operands…`, `length` counting
its words from the opcode on; the next instruction follows, unless the instruction jumps to the word of another. Registers are signed
64-bit integers: dims, conditions (0 or 1) and addresses alike. What an instruction is, is said in its row of `Op` and nowhere else:
encoding, text, verifier and the list in docs/vm.md follow from it, and each executor has one handler per row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum, StrEnum, unique
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Cond, Dim, value_text
from anyshape.dtypes import DType
from anyshape.errors import VerifyError
from anyshape.rules.checks import located

if TYPE_CHECKING:
    from anyshape.vm.program.invocation import Invocation
    from anyshape.vm.program.memory_plan import MemoryPlan

DONE, DECLINED = 0, 1
DEEPEST = 1000
"""Calls within calls, at most: each takes a frame of the machine's stack, of some hundred bytes."""

InstructionOperand = int | tuple[int, ...]


class Mode(StrEnum):
    """Kind of an operand, by the sign behind its name."""

    WRITTEN = "="
    """A register that is written; always the first operand."""
    NEEDED = ""
    """A register that is read. If its number is lost, that is an OverflowedError."""
    SPREADING = "~"
    """A register that is read. If its number is lost, so is the one that is written."""
    OPTIONAL = "?"
    """A register that is read. The instruction decides what follows if its number is lost."""
    LIST = "*"
    """A count and that many registers that are needed; only lists follow."""
    NUMBER = ":"
    """The number of a thing, whose kind is named behind the sign."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An operand of an instruction. `of`: the kind of thing it is the number of."""

    name: str
    mode: Mode
    of: str


def _parameter(spelled: str) -> Parameter:
    name, sign, of = spelled.partition(":")
    plain = name.rstrip("=~?*")
    return Parameter(plain or of, Mode(sign or name[len(plain) :]), of or "register")


class Instruction(IntEnum):
    """A row: number, operands, effect, and text, in which operands are in braces; without one it is the name and what is read."""

    operands: str
    parameters: tuple[Parameter, ...]
    effect: str
    _text: str

    def __new__(cls, number: int, operands: str, effect: str, text: str = "") -> Instruction:
        row = int.__new__(cls, number)
        row._value_ = number
        row.operands, row.effect, row._text = operands, effect, text
        row.parameters = tuple(map(_parameter, operands.split()))
        return row

    @property
    def writes(self) -> bool:
        return bool(self.parameters) and self.parameters[0].mode is Mode.WRITTEN

    @property
    def text(self) -> str:
        to, read = "{d} = " * self.writes, [f"{{{p.name}}}" for p in self.parameters[self.writes :]]
        return self._text or f"{to}{self.name.lower()} {', '.join(read)}".rstrip()

    @property
    def handler(self) -> str:
        """The name of the instruction's handler in an executor."""
        return f"do_{self.name.lower()}"

    def named(self, operands: Sequence[InstructionOperand]) -> dict[str, Any]:
        return dict(zip((p.name for p in self.parameters), operands, strict=True))


# fmt: off
@unique
class Op(Instruction):
    """Numbers are part of the layout: never reuse one."""

    RETURN = 0, "", "ends the call as DONE"
    CONST = 1, "d= n:number", "the number", "{d} = {n}"
    ADD = 2, "d= a~ b~", "lost beyond 64 bits", "{d} = {a} + {b}"
    SUB = 3, "d= a~ b~", "lost beyond 64 bits", "{d} = {a} - {b}"
    MUL = 4, "d= a~ b~", "lost beyond 64 bits", "{d} = {a} * {b}"
    FLOORDIV = 5, "d= a~ b~", "floored, and 0 where b is 0; lost beyond 64 bits", "{d} = {a} // {b}"
    MOD = 6, "d= a~ b~", "the remainder of the floored division, and 0 where b is 0", "{d} = {a} % {b}"
    MIN = 7, "d= a~ b~", "the lesser"
    MAX = 8, "d= a~ b~", "the greater"
    EQ = 9, "d= a~ b~", "0 or 1", "{d} = {a} == {b}"
    NE = 10, "d= a~ b~", "0 or 1", "{d} = {a} != {b}"
    LT = 11, "d= a~ b~", "0 or 1", "{d} = {a} < {b}"
    LE = 12, "d= a~ b~", "0 or 1", "{d} = {a} <= {b}"
    GT = 13, "d= a~ b~", "0 or 1", "{d} = {a} > {b}"
    GE = 14, "d= a~ b~", "0 or 1", "{d} = {a} >= {b}"
    AND = 15, "d= a? b?", "0 or 1; a side that is 0 decides, whatever became of the other", "{d} = {a} and {b}"
    OR = 16, "d= a? b?", "0 or 1; a side that is not 0 decides, whatever became of the other", "{d} = {a} or {b}"
    NOT = 17, "d= a~", "1 where it is 0, else 0"
    SELECT = 18, "d= cond~ then? other?", "`then` where the condition is not 0, else `other`; lost where the selected one is"
    DIM = 19, "d= :argument :axis", "the size of an axis", "{d} = dim {argument}[{axis}]"
    ARGUMENT = 20, "d= :argument", "the address of its elements, or of a called function the handle of a list"
    CONSTANT = 21, "d= :constant", "the address of its elements"
    LOAD = 22, "d= address index:number of:type", "the element; lost beyond 64 bits", "{d} = load {of[0]} {address}[{index}]"
    STORE = 23, "address index:number value of:type", "OverflowedError where it does not fit", "store {of[0]} {address}[{index}] = {value}"
    CHECK = 24, "cond :check", "raises the error of the check record if the condition is 0", "check {cond}  # {check.equation}"
    GUARD = 25, "cond", "ends the call as DECLINED if the condition is 0: another variant of the program has to run it"
    REGION = 26, "d= :region size", "the address of the region, grown to at least so many bytes; old contents are lost"
    OUTPUT = 27, "d= :result dims*", "the address of a new array with these dims", "{d} = output {result.name}: {result.dtype}[{dims}]"
    VIEW = 28, "d= address offset", "the address so many bytes further"
    COPY = 29, "to address size", "copies bytes from an address to another"
    INVOKE = (30, ":kernel scratch scalars* buffers*", "runs the kernel in one part",
              "invoke {kernel.name}({scalars}; {buffers}; scratch {scratch})")
    JUMP = 31, "to:word", "goes on at that word"
    UNLESS = 32, "cond to:word", "goes on at that word if the condition is 0"
    EXTEND = 40, "d= :region size", "like region, but grows by at least half of itself, and keeps its contents"
    SWAP = 41, "one:region other:region", "swaps the memory of the regions"
    THREADS = 42, "d=", "the number of threads that a kernel of this call may use"
    SHARE = (43, ":kernel scratch each parts? slices? scalars* buffers*", "like invoke, in parts; their number is 1 where it is lost",
             "share {kernel.name}({scalars}; {buffers}; {parts} parts, {slices} slices, scratch {scratch} + {each} each)")
    STACK = (44, "d= :region size what:check", "like extend; an error for want of memory names what the record says",
             "{d} = stack {region}, {size}  # {what.equation}")
    LIST = 50, "d= lists:number", "a new list, held once; 1: of lists, 0: of blocks"
    BLOCK = 51, "d= size", "a new block of so many bytes, held once"
    RETAIN = 52, "handle", "the object is held once more"
    RELEASE = 53, "handle", "the object is held once less"
    OWN = 54, "d= handle", "the list, to be changed: the same if it is held once, else a copy that takes its place with this holder"
    LENGTH = 55, "d= handle", "the number of elements of the list"
    INSERT = 56, "handle position element", "puts an element, with the hold on it, into a list before a position"
    ERASE = 57, "handle position", "takes the element at a position out of a list, and releases it"
    ELEMENT = 58, "d= handle position", "the element of a list at a position, which only the list holds"
    ROWS = 59, "to to_step address step size count", "copies so many rows of so many bytes; the steps are from row to row"
    CALL = 60, "function words*", "calls the function of that number with words: of a tensor its address and dims, of a list its handle"
    GIVE = 61, "place:number words*", "writes words into the results of this function, from a place on"
    TAKEN = 62, "d= place:number", "a word of the results of the last call"
# fmt: on
_BY_NUMBER = {int(op): (op, tuple(p.mode is Mode.LIST for p in op.parameters)) for op in Op}
"""Instructions by number, and which of their operands are counted lists."""


def handlers(ops: Iterable[Instruction], *rooms: Mapping[str, Any]) -> dict[Instruction, Callable[..., Any]]:
    """Handlers by instruction, from namespaces. Raises TypeError for an instruction without or with two handlers, and for a handler
    without an instruction."""
    named_handlers = [(name, handler) for room in rooms for name, handler in room.items() if name.startswith("do_")]
    surplus = Counter(name for name, _ in named_handlers)
    surplus.subtract(op.handler for op in ops)
    if wrong := sorted(name for name, count in surplus.items() if count):
        raise TypeError(f"there is not one handler for one instruction: {', '.join(wrong)}")
    by_name = dict(named_handlers)
    return {op: by_name[op.handler] for op in ops}


ELEMENTS: dict[int, tuple[str, str, int]] = {
    0: ("i64", "q", 8), 1: ("i32", "i", 4), 2: ("bool", "?", 1), 3: ("i16", "h", 2), 4: ("i8", "b", 1),
    5: ("u8", "B", 1), 6: ("u16", "H", 2), 7: ("u32", "I", 4), 8: ("u64", "Q", 8),
}  # fmt: skip
"""Types of `load` and `store`: dtype, format of the struct module, bytes."""

ELEMENT_CODE: dict[str, int] = {dtype: code for code, (dtype, _, _) in ELEMENTS.items()}


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """Message of a `check`: `parts` put together, expressions among them with their values. The numbers of `symbols` are read from
    `registers`. `equation` is the condition as text."""

    parts: tuple[str | Dim | Cond, ...]
    symbols: tuple[Dim, ...]
    registers: tuple[int, ...]
    equation: str
    _: KW_ONLY
    op: str = ""
    source: str = ""

    def text(self, numbers: Sequence[int]) -> str:
        """The whole message, for the contents of `registers`."""
        values = dict(zip(self.symbols, map(int, numbers), strict=True))
        message = "".join(p if isinstance(p, str) else value_text(p, values) for p in self.parts)
        return located(self.op, self.source, message) if self.op else message


@dataclass(frozen=True, slots=True)
class ResultType:
    """A result as the caller gets it."""

    name: str
    dtype: DType


class CallableKernel(Protocol):
    """A kernel ready to run; takes ctypes pointers to scalars, buffers and scratch, part and number of parts."""

    name: str
    errors: tuple[str, ...]

    @property
    def entry(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Program:
    """`code` is the table; the other fields are what its numbers refer to."""

    name: str
    code: NDArray[np.int64]
    registers: int
    regions: int
    _: KW_ONLY
    constants: tuple[NDArray[Any], ...] = ()
    kernels: tuple[CallableKernel, ...] = ()
    checks: tuple[CheckRecord, ...] = ()
    results: tuple[ResultType, ...] = ()
    arguments: tuple[str, ...] = ()
    memory: MemoryPlan | None = None
    """Memory plan, for people; the table alone is executed."""
    notes: Mapping[int, Invocation] = field(default_factory=dict)
    """Work of kernels by the word of the instruction that runs them; only for profiles."""
    functions: tuple[Program, ...] = ()
    """Functions that the program and its functions call, by number."""
    passes: tuple[int, ...] = ()
    """Number of dims that come with each argument of a function; -1 for a list, which comes as its handle."""
    returns: int = 0
    """Number of words that a function returns."""
    roomy: tuple[int, ...] = ()
    """Regions of which typical calls need more than `arena.ROOMY`, however little the first call may need."""
    overwrites: tuple[tuple[int, int], ...] = ()
    """Numbers of results and of the arguments that each may be computed over, if a caller passes one array of the same shape for both."""

    def instructions(self) -> Iterator[tuple[int, Op, tuple[InstructionOperand, ...]]]:
        """(word, opcode, operands), a counted list as a tuple. Raises VerifyError where the table is damaged."""
        return decode(self.code.tolist())


def encode(op: Op, *operands: InstructionOperand) -> list[int]:
    """The words of one instruction."""
    words: list[int] = []
    for parameter, value in zip(op.parameters, operands, strict=True):
        if parameter.mode is Mode.LIST:
            assert isinstance(value, tuple)
            words += [len(value), *value]
        else:
            assert isinstance(value, int)
            words.append(value)
    return [int(op), len(words) + 2, *words]


def decode(words: list[int]) -> Iterator[tuple[int, Op, tuple[InstructionOperand, ...]]]:
    at = 0
    while at < len(words):
        try:
            (op, are_lists), end = _BY_NUMBER[words[at]], at + words[at + 1]
            operands: list[InstructionOperand] = []
            k = at + 2
            for is_list in are_lists:
                if is_list:
                    n = words[k]
                    operands.append(tuple(words[k + 1 : k + 1 + n]))
                    k += n + 1
                else:
                    operands.append(words[k])
                    k += 1
        except (KeyError, IndexError):
            raise VerifyError(f"the program has no valid instruction at word {at}") from None
        if k != end or end > len(words):
            raise VerifyError(f"the instruction {op.name} at word {at} has a wrong length")
        yield at, op, tuple(operands)
        at = end
