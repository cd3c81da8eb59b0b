"""A program: one table of 64-bit words that says everything a call does, and the objects its words refer to by number.

Layout, fixed, so that a native loop can walk the same words: an instruction is `opcode, length, operands…`, `length` counting
its words from the opcode on; the next instruction follows, unless the instruction jumps to the word of another. Operands by
letter of FORMATS: `d` a register that is written, `s` one that is read, `n` a plain number, `*` a count and that many
registers that are read. Registers are signed 64-bit integers: dims, conditions (0 or 1) and addresses alike.

    const d n            d = n
    add sub mul d s s    a number that leaves 64 bits is lost; an instruction that needs it is an OverflowedError (see `interpreter`)
    floordiv mod d s s   floored, and 0 where the divisor is 0
    min max d s s        eq ne lt le gt ge d s s: 0 or 1        and or d s s        not d s
    select d s s s       d = first != 0 ? second : third
    dim d n n            d = size of axis (second) of argument (first)
    argument d n         d = address of the argument's elements
    constant d n         d = address of a constant
    load d s n n         d = element (first number) at an address; second number: its type, a key of ELEMENTS
    store s n s n        element (first number) at an address = register; second number: its type
    check s n            a 0 raises what check record n says
    guard s              a 0 ends the call as DECLINED: another variant of the program has to run it
    region d n s         d = address of region n, grown to at least so many bytes; old contents are lost
    extend d n s         like region, but grows by at least half of itself, and keeps its contents
    swap n n             two regions change places
    output d n *         d = address of result n, newly made with these dims
    view d s s           d = address + bytes
    copy s s s           bytes (third) from an address (second) to one (first)
    invoke n s * *       kernel n with an address of scratch, scalars, and addresses of inputs and outputs
    threads d            d = how many threads a kernel of this call may use
    share n s s s * *    like invoke, in parts: scratch, bytes of scratch per part, number of parts, then the lists
    jump n               goes on at word n
    unless s n           goes on at word n if the register is 0
    return               ends the call as DONE

Lists are objects that are counted, and so is each element: a block of memory, or a list. Who holds one more says `retain`, who needs it no
longer `release`; what nobody holds any more is gone, with what it held. Blocks begin with a head, `vm.blocks` says of what.

    list d n             d = a new list, held once; n: 1 if its elements are lists, 0 if they are blocks
    block d s            d = a new block of so many bytes, held once
    retain s             the object is held once more
    release s            it is held once less
    own d s              d = the list, to be changed: the same if it is held once, else a copy that takes its place with this holder
    length d s           d = how many elements a list has
    insert s s s         puts an element (third), with the hold on it, into a list (first) before a position (second)
    erase s s            takes the element at a position out of a list, and releases it
    element d s s        d = the element of a list at a position, which only the list holds
    rows s s s s s s     copies rows: to, bytes from row to row there; from, the same there; bytes of a row, how many

A function is a program that others call. Each call has registers and regions of its own.

    call s *             calls the function of that number (register) with words: of a tensor its address and dims, of a list its handle
    give n *             puts words from a place on into what this function gives
    taken d n            d = word n of what the last call gave
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Cond, Dim, told
from anyshape.dtypes import DType
from anyshape.errors import VerifyError
from anyshape.rules.checks import located

if TYPE_CHECKING:
    from anyshape.vm.report.memory_text import MemoryPlan
    from anyshape.vm.report.profile import Invocation

DONE, DECLINED = 0, 1
DEEPEST = 1000
"""Calls within calls, at most: each takes a frame of the machine's stack, of some hundred bytes."""


class Op(IntEnum):
    """Numbers are part of the layout: never reuse one."""

    RETURN = 0
    CONST = 1
    ADD = 2
    SUB = 3
    MUL = 4
    FLOORDIV = 5
    MOD = 6
    MIN = 7
    MAX = 8
    EQ = 9
    NE = 10
    LT = 11
    LE = 12
    GT = 13
    GE = 14
    AND = 15
    OR = 16
    NOT = 17
    SELECT = 18
    DIM = 19
    ARGUMENT = 20
    CONSTANT = 21
    LOAD = 22
    STORE = 23
    CHECK = 24
    GUARD = 25
    REGION = 26
    OUTPUT = 27
    VIEW = 28
    COPY = 29
    INVOKE = 30
    JUMP = 31
    UNLESS = 32
    EXTEND = 40
    SWAP = 41
    THREADS = 42
    SHARE = 43
    STACK = 44
    LIST = 50
    BLOCK = 51
    RETAIN = 52
    RELEASE = 53
    OWN = 54
    LENGTH = 55
    INSERT = 56
    ERASE = 57
    ELEMENT = 58
    ROWS = 59
    CALL = 60
    GIVE = 61
    TAKEN = 62


FORMATS: dict[Op, str] = {
    Op.RETURN: "",
    Op.CONST: "dn",
    **{Op(k): "dss" for k in range(Op.ADD, Op.OR + 1)},
    Op.NOT: "ds",
    Op.SELECT: "dsss",
    Op.DIM: "dnn",
    Op.ARGUMENT: "dn",
    Op.CONSTANT: "dn",
    Op.LOAD: "dsnn",
    Op.STORE: "snsn",
    Op.CHECK: "sn",
    Op.GUARD: "s",
    Op.REGION: "dns",
    Op.OUTPUT: "dn*",
    Op.VIEW: "dss",
    Op.COPY: "sss",
    Op.INVOKE: "ns**",
    Op.JUMP: "n",
    Op.UNLESS: "sn",
    Op.EXTEND: "dns",
    Op.STACK: "dnsn",
    Op.SWAP: "nn",
    Op.THREADS: "d",
    Op.SHARE: "nssss**",
    Op.LIST: "dn",
    Op.BLOCK: "ds",
    Op.RETAIN: "s",
    Op.RELEASE: "s",
    Op.OWN: "ds",
    Op.LENGTH: "ds",
    Op.INSERT: "sss",
    Op.ERASE: "ss",
    Op.ELEMENT: "dss",
    Op.ROWS: "ssssss",
    Op.CALL: "s*",
    Op.GIVE: "n*",
    Op.TAKEN: "dn",
}

LISTS = frozenset(Op(k) for k in range(Op.LIST, Op.ROWS))
"""Instructions on lists."""

ELEMENTS: dict[int, tuple[str, str, int]] = {
    0: ("i64", "q", 8), 1: ("i32", "i", 4), 2: ("bool", "?", 1), 3: ("i16", "h", 2), 4: ("i8", "b", 1),
    5: ("u8", "B", 1), 6: ("u16", "H", 2), 7: ("u32", "I", 4), 8: ("u64", "Q", 8),
}  # fmt: skip
"""Types of `load` and `store`: dtype, format of the struct module, bytes."""

ELEMENT_CODE: dict[str, int] = {dtype: code for code, (dtype, _, _) in ELEMENTS.items()}

Operand = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """What a `check` raises: `parts` put together, expressions among them with their values. The numbers behind `symbols` are read
    from `registers`. `equation` is the condition as text."""

    parts: tuple[str | Dim | Cond, ...]
    symbols: tuple[Dim, ...]
    registers: tuple[int, ...]
    equation: str
    op: str = ""
    source: str = ""

    def text(self, numbers: Sequence[int]) -> str:
        """The whole message, for the contents of `registers`."""
        values = dict(zip(self.symbols, map(int, numbers), strict=True))
        message = "".join(p if isinstance(p, str) else told(p, values) for p in self.parts)
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
    constants: tuple[NDArray[Any], ...]
    kernels: tuple[CallableKernel, ...]
    checks: tuple[CheckRecord, ...]
    results: tuple[ResultType, ...]
    arguments: tuple[str, ...]
    memory: MemoryPlan | None = None
    """For people; nothing is executed by it."""
    notes: Mapping[int, Invocation] = field(default_factory=dict)
    """By word of an instruction that runs a kernel, what that does: only for profiles."""
    functions: tuple[Program, ...] = ()
    """What it and they call, by number."""
    passes: tuple[int, ...] = ()
    """Of a function: how many dims come with each argument; -1 for a list, which comes as its handle."""
    returns: int = 0
    """Of a function: how many words it gives."""
    roomy: tuple[int, ...] = ()
    """Regions that typical calls need more than `arena.ROOMY` of, however little the first call may need."""

    def instructions(self) -> Iterator[tuple[int, Op, tuple[Operand, ...]]]:
        """(word, opcode, operands), a counted list as a tuple. Raises VerifyError where the table is damaged."""
        return decode(self.code.tolist())


def invocation(op: Op, operands: tuple[Operand, ...]) -> tuple[int, int, tuple[int, ...], tuple[int, ...]] | None:
    """(kernel, scratch, scalars, buffers) of an instruction that runs a kernel, shared or not; None of any other."""
    if op not in (Op.INVOKE, Op.SHARE):
        return None
    kernel, scratch, scalars, buffers = operands[0], operands[1], operands[-2], operands[-1]
    assert isinstance(kernel, int) and isinstance(scratch, int)
    assert isinstance(scalars, tuple) and isinstance(buffers, tuple)
    return kernel, scratch, scalars, buffers


def encode(op: Op, *operands: Operand) -> list[int]:
    """The words of one instruction."""
    words: list[int] = []
    for letter, value in zip(FORMATS[op], operands, strict=True):
        if letter == "*":
            assert isinstance(value, tuple)
            words += [len(value), *value]
        else:
            assert isinstance(value, int)
            words.append(value)
    return [int(op), len(words) + 2, *words]


def decode(words: list[int]) -> Iterator[tuple[int, Op, tuple[Operand, ...]]]:
    at = 0
    while at < len(words):
        try:
            op, end = Op(words[at]), at + words[at + 1]
            operands: list[Operand] = []
            k = at + 2
            for letter in FORMATS[op]:
                if letter == "*":
                    n = words[k]
                    operands.append(tuple(words[k + 1 : k + 1 + n]))
                    k += n + 1
                else:
                    operands.append(words[k])
                    k += 1
        except (ValueError, IndexError):
            raise VerifyError(f"the program has no valid instruction at word {at}") from None
        if k != end or end > len(words):
            raise VerifyError(f"the instruction {op.name} at word {at} has a wrong length")
        yield at, op, tuple(operands)
        at = end
