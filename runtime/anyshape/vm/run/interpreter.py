"""The interpreter of programs: walks the table word by word. Traceable and obvious; what every faster executor must agree with.

In: a program, arguments (arrays that fit its parameters), a context. Out: the results, or None where a guard declined.

Overflow is lazy: the register of a number that leaves 64 bits is *lost*, and so is what follows from it, but not past a `select`, `and` or
`or` that the other side decides. An OverflowedError is raised by the instruction that needs a lost register for anything else.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import INT64_MAX, INT64_MIN
from anyshape.errors import AnyshapeError, OverflowedError, ShapeError, UnsupportedError, VerifyError
from anyshape.failure_report import AREA, refusal, take
from anyshape.rules.checks import located
from anyshape.vm.program.address import address_of
from anyshape.vm.program.table import (
    DECLINED,
    DEEPEST,
    DONE,
    ELEMENTS,
    FORMATS,
    LISTS,
    Op,
    Operand,
    Program,
    invocation,
)
from anyshape.vm.run.arena import Context
from anyshape.vm.run.heap import Heap
from anyshape.vm.run.results import new_result

Array = NDArray[Any]
Trace = Callable[[int, Op, tuple[Operand, ...], list[int]], None]

_BINARY: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: operator.add, Op.SUB: operator.sub, Op.MUL: operator.mul,
    Op.FLOORDIV: lambda a, b: a // b if b else 0, Op.MOD: lambda a, b: a % b if b else 0,
    Op.MIN: min, Op.MAX: max, Op.EQ: operator.eq, Op.NE: operator.ne, Op.LT: operator.lt, Op.LE: operator.le,
    Op.GT: operator.gt, Op.GE: operator.ge,
    Op.AND: lambda a, b: bool(a) and bool(b), Op.OR: lambda a, b: bool(a) or bool(b),
}  # fmt: skip
_SCALAR = {*_BINARY, Op.NOT, Op.SELECT}


def run(
    program: Program, arguments: Sequence[Array], context: Context, trace: Trace | None = None
) -> list[Array] | None:
    """Raises ShapeError for a failed check or kernel, OverflowedError where a size beyond 64 bits is needed."""
    heap, tables = Heap(), dict[int, _Table]()
    frames = [_Run(program, [_Passed(address_of(a), a.shape) for a in arguments], context, trace, heap, tables)]
    while True:
        end = frames[-1].go()
        if isinstance(end, _Call):
            if len(frames) > DEEPEST:
                raise UnsupportedError(too_deep_text(program.functions[end.number]))
            frames.append(frames[-1].callee(end, program.functions[end.number]))
        elif end == DECLINED:
            return None
        elif len(frames) == 1:
            heap.finish(program.name)
            return [a for a in frames[0].results if a is not None]
        else:
            gone = frames.pop()
            frames[-1].taken = gone.gives


_LOOKING = frozenset((Op.INVOKE, Op.SHARE, Op.JUMP, Op.CALL))
"""Where it looks whether the call is to stop."""


@dataclass(frozen=True, slots=True)
class _Passed:
    """An argument: where its elements are (or the handle of a list), and its dims."""

    address: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call to be made: of the function with this number, with these words."""

    number: int
    words: tuple[int, ...]


_Table = tuple[dict[int, tuple[Op, tuple[Operand, ...]]], dict[int, int]]


class _Run:
    """A frame. `go` runs until it returns or calls."""

    def __init__(
        self,
        program: Program,
        arguments: Sequence[_Passed],
        context: Context,
        trace: Trace | None,
        heap: Heap,
        tables: dict[int, _Table],
    ) -> None:
        self.program, self.arguments, self.context, self.trace = program, arguments, context, trace
        self.r = [0] * program.registers
        self.lost: set[int] = set()
        self.results: list[Array | None] = [None] * len(program.results)
        self.heap, self.tables = heap, tables
        self.bounds = context.bounds
        self.gives = [0] * program.returns
        self.taken: list[int] = []
        self.at = 0
        if id(program) not in tables:
            table = {at: (op, operands) for at, op, operands in program.instructions()}
            tables[id(program)] = (table, dict(pairwise(sorted(table))))

    def callee(self, call: _Call, program: Program) -> _Run:
        """The frame of a call from here."""
        arguments, at = [], 0
        for rank in program.passes:
            n = max(rank, 0)
            arguments.append(_Passed(call.words[at], call.words[at + 1 : at + 1 + n]))
            at += 1 + n
        context = self.context.callee(call.number, program.regions)
        context.bounds = self.bounds
        return _Run(program, arguments, context, self.trace, self.heap, self.tables)

    def go(self) -> int | _Call:
        table, following = self.tables[id(self.program)]
        at = self.at
        while True:
            if at not in table:
                raise VerifyError(f"the program goes on at word {at}, where no instruction begins")
            op, operands = table[at]
            if self.trace is not None:
                self.trace(at, op, operands, self.r)
            if op in _LOOKING and self.bounds is not None:
                self.bounds.look()
            if self.lost and op not in _SCALAR:
                self.liveness(op, operands)
            if op is Op.RETURN:
                return DONE
            if op is Op.CALL:
                self.at = following[at]
                return _Call(self.r[_n(operands[0])], tuple(self.r[k] for k in _several(operands[1])))
            if op is Op.GUARD and not self.r[_n(operands[0])]:
                return DECLINED
            target = self.step(op, operands)
            at = target if target is not None else following.get(at, -1)

    def step(self, op: Op, o: tuple[Operand, ...]) -> int | None:
        """One instruction; the word it jumps to, if it jumps."""
        if op in _SCALAR:
            self.scalar(op, *map(_n, o))
            return None
        call = invocation(op, o)
        if call is not None:
            self.invoke(*call)
            return None
        if op is Op.OUTPUT:
            dims = [self.r[k] for k in _several(o[2])]
            result = self.program.results[_n(o[1])]
            a = self.results[_n(o[1])] = new_result(dims, result.dtype.numpy, result.name)
            self.r[_n(o[0])] = address_of(a)
            return None
        if op is Op.GIVE:
            for k, r in enumerate(_several(o[1])):
                self.gives[_n(o[0]) + k] = self.r[r]
            return None
        if op in LISTS:
            self.lists(op, *map(_n, o))
            return None
        return self.plain(op, *map(_n, o))

    def liveness(self, op: Op, operands: tuple[Operand, ...]) -> None:
        """An effect reads its registers: none of them may be lost. What it writes is there again."""
        for k, (letter, operand) in enumerate(zip(FORMATS[op], operands)):
            if op is Op.SHARE and k in (3, 4):
                continue  # the numbers of parts and of slices: one will do
            if letter in "s*" and not self.lost.isdisjoint(operand if isinstance(operand, tuple) else (operand,)):
                raise OverflowedError(overflow_text(self.program, op, operands))
            if letter == "d":
                self.lost.discard(_n(operand))

    def scalar(self, op: Op, d: int, *o: int) -> None:
        r, lost = self.r, self.lost
        if op is Op.SELECT:
            chosen = o[1] if r[o[0]] else o[2]
            self.set(d, r[chosen], o[0] in lost or chosen in lost)
        elif op is Op.NOT:
            self.set(d, int(not r[o[0]]), o[0] in lost)
        elif op in (Op.AND, Op.OR) and any(k not in lost and bool(r[k]) is (op is Op.OR) for k in o):
            self.set(d, int(op is Op.OR))
        else:
            self.set(d, int(_BINARY[op](r[o[0]], r[o[1]])), not lost.isdisjoint(o))

    def set(self, d: int, value: int, lost: bool = False) -> None:
        """A register = a number, unless that is lost or beyond 64 bits."""
        if lost or not INT64_MIN <= value <= INT64_MAX:
            self.lost.add(d)
            value = 0
        else:
            self.lost.discard(d)
        self.r[d] = value

    def plain(self, op: Op, *o: int) -> int | None:
        r = self.r
        if op is Op.CONST:
            r[o[0]] = o[1]
        elif op is Op.THREADS:
            r[o[0]] = 1
        elif op is Op.DIM:
            r[o[0]] = self.arguments[o[1]].shape[o[2]]
        elif op is Op.ARGUMENT:
            r[o[0]] = self.arguments[o[1]].address
        elif op is Op.TAKEN:
            r[o[0]] = self.taken[o[1]]
        elif op is Op.CONSTANT:
            r[o[0]] = address_of(self.program.constants[o[1]])
        elif op is Op.REGION:
            r[o[0]] = self.context.region(o[1], r[o[2]])
        elif op is Op.EXTEND:
            r[o[0]] = self.context.extend(o[1], r[o[2]])
        elif op is Op.STACK:
            with growing(self.program, o[3]):
                r[o[0]] = self.context.extend(o[1], r[o[2]])
        elif op is Op.SWAP:
            self.context.swap(o[0], o[1])
        elif op is Op.VIEW:
            r[o[0]] = r[o[1]] + r[o[2]]
        elif op is Op.CHECK:
            if not r[o[0]]:
                raise failed_check(self.program, o[1], [r[k] for k in self.program.checks[o[1]].registers])
        elif op is Op.JUMP:
            return o[0]
        elif op is Op.UNLESS:
            return None if r[o[0]] else o[1]
        else:
            self.memory(op, *o)
        return None

    def memory(self, op: Op, *o: int) -> None:
        r = self.r
        if op is Op.LOAD:
            self.set(o[0], load(r[o[1]], o[2], o[3]))
        elif op is Op.STORE:
            store(r[o[0]], o[1], r[o[2]], o[3])
        elif op is Op.COPY:
            ctypes.memmove(r[o[0]], r[o[1]], r[o[2]])

        elif op is Op.ROWS:
            to, to_step, source, step, size, count = (r[k] for k in o)
            for k in range(count):
                ctypes.memmove(to + k * to_step, source + k * step, size)

    def lists(self, op: Op, *o: int) -> None:
        r, heap = self.r, self.heap
        if op is Op.LIST:
            r[o[0]] = heap.new_list()
        elif op is Op.BLOCK:
            r[o[0]] = heap.block(r[o[1]])
        elif op is Op.RETAIN:
            heap.retain(r[o[0]])
        elif op is Op.RELEASE:
            heap.release(r[o[0]])
        elif op is Op.OWN:
            r[o[0]] = heap.own(r[o[1]])
        elif op is Op.LENGTH:
            r[o[0]] = len(heap.elements(r[o[1]]))
        elif op is Op.INSERT:
            heap.elements(r[o[0]]).insert(r[o[1]], r[o[2]])
        elif op is Op.ERASE:
            heap.release(heap.elements(r[o[0]]).pop(r[o[1]]))
        else:
            r[o[0]] = heap.elements(r[o[1]])[r[o[2]]]

    def invoke(self, number: int, scratch: int, scalars: tuple[int, ...], buffers: tuple[int, ...]) -> None:
        numbers = (ctypes.c_int64 * (AREA + max(len(scalars), 1)))(*[0] * AREA, *(self.r[k] for k in scalars))
        addresses = (ctypes.c_int64 * max(len(buffers), 1))(*(self.r[k] for k in buffers))
        status = self.program.kernels[number].entry(
            ctypes.c_void_p(ctypes.addressof(numbers) + 8 * AREA),
            ctypes.cast(addresses, ctypes.c_void_p),
            ctypes.c_void_p(self.r[scratch]),
            ctypes.c_int64(0),
            ctypes.c_int64(1),
        )
        if status:
            raise failed_kernel(self.program, number, status, [self.r[k] for k in scalars], take(numbers))


def _n(operand: Operand) -> int:
    assert isinstance(operand, int)
    return operand


def _several(operand: Operand) -> tuple[int, ...]:
    assert isinstance(operand, tuple)
    return operand


def load(address: int, index: int, code: int) -> int:
    _, spelled, size = ELEMENTS[code]
    return int(struct.unpack(spelled, ctypes.string_at(address + index * size, size))[0])


def store(address: int, index: int, value: int, code: int) -> None:
    _, spelled, size = ELEMENTS[code]
    try:
        data = struct.pack(spelled, value)
    except struct.error:
        raise OverflowedError(unfit_text(value, code)) from None
    ctypes.memmove(address + index * size, data, size)


def failed_check(program: Program, number: int, values: Sequence[int]) -> AnyshapeError:
    return ShapeError(program.checks[number].text(values))


@contextmanager
def growing(program: Program, number: int) -> Iterator[None]:
    """Says of what a loop stacks or carries, whose name is the text of a check, that there is no memory for it."""
    try:
        yield
    except AnyshapeError as e:
        raise AnyshapeError(f"{program.checks[number].text(())}: {e}") from None


def failed_kernel(
    program: Program, number: int, status: int, scalars: Sequence[int], told: Sequence[int]
) -> AnyshapeError:
    """`scalars`: what the kernel was called with; `told`: the words ahead of them."""
    kernel = program.kernels[number]
    if 0 < status <= len(kernel.errors):
        return ShapeError(refusal(kernel.errors[status - 1], scalars, told))
    return AnyshapeError(f"kernel {kernel.name} ended with the unknown status {status}")


def unfit_text(value: int, code: int) -> str:
    return f"{value} does not fit an element of type {ELEMENTS[code][0]}"


def too_deep_text(function: Program) -> str:
    return f"{function.name}: calls are nested more than {DEEPEST} deep"


def overflow_text(program: Program, op: Op, operands: Sequence[Operand]) -> str:
    """What a number beyond 64 bits was needed for."""
    beyond = "does not fit a signed 64-bit integer"
    if op is Op.CHECK:
        record = program.checks[_n(operands[1])]
        message = f"a size {beyond} ({record.equation})"
        return located(record.op, record.source, message) if record.op else message
    if op is Op.OUTPUT:
        return f"{program.name}: a size of the result {program.results[_n(operands[1])].name} {beyond}"
    if op in (Op.INVOKE, Op.SHARE):
        return f"{program.kernels[_n(operands[0])].name}: a size of what it computes {beyond}"
    return f"{program.name}: a size computed from the shapes of the inputs {beyond}"
