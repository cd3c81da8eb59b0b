"""Interpreter of programs: walks the table word by word. It is traceable and obvious, and every faster executor must agree with it.

In: a program, arguments (arrays that fit its parameters), a context. Out: the results, or None where a guard declined.

Overflow is lazy: the register of a number that leaves 64 bits is *lost*, and so is what follows from it, but not past a `select`, `and` or
`or` that the other side decides. An OverflowedError is raised by the instruction that needs a lost register for anything else.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from anyshape.vm.program.table import DECLINED, DEEPEST, DONE, ELEMENTS, InstructionOperand, Mode, Op, Program
from anyshape.vm.run.arena import CallMemory
from anyshape.vm.run.heap import Heap
from anyshape.vm.run.memory_budget import MemoryBudget, memory_budget
from anyshape.vm.run.results import new_result

Array = NDArray[Any]
Trace = Callable[[Program, int, Op, tuple[InstructionOperand, ...], list[int | None]], None]
"""Takes the program, the word, the instruction and its operands before it runs, and the registers."""


def run(
    program: Program, arguments: Sequence[Array], context: CallMemory, trace: Trace | None = None
) -> list[Array] | None:
    """Runs a program. Raises ShapeError for a failed check or kernel, OverflowedError where a size beyond 64 bits is needed."""
    budget = memory_budget()
    whole = _Whole(Heap(budget), {}, trace, budget)
    frames = [_CallFrame(program, [_PassedArgument(address_of(a), a.shape) for a in arguments], context, whole)]
    while True:
        end = frames[-1].go()
        if isinstance(end, _PendingCall):
            if len(frames) > DEEPEST:
                raise UnsupportedError(too_deep_text(program.functions[end.number]))
            frames.append(frames[-1].callee(end, program.functions[end.number]))
        elif end == DECLINED:
            return None
        elif len(frames) == 1:
            whole.heap.finish(program.name)
            return [a for a in frames[0].results if a is not None]
        else:
            gone = frames.pop()
            frames[-1].taken = gone.gives


@dataclass(frozen=True, slots=True)
class _PassedArgument:
    """An argument: address of its elements, or handle of a list, and its dims."""

    address: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _PendingCall:
    """A call to be made: of the function with this number, with these words."""

    number: int
    words: tuple[int, ...]


_Table = tuple[dict[int, tuple[Op, tuple[InstructionOperand, ...]]], dict[int, int]]


@dataclass(frozen=True, slots=True)
class _Whole:
    """State that all frames of a call share; `tables` are decoded programs by their identity."""

    heap: Heap
    tables: dict[int, _Table]
    trace: Trace | None
    budget: MemoryBudget | None


class _CallFrame:
    """A frame. `go` runs until it returns or calls."""

    def __init__(
        self, program: Program, arguments: Sequence[_PassedArgument], context: CallMemory, whole: _Whole
    ) -> None:
        self.program, self.arguments, self.context, self.whole = program, arguments, context, whole
        self.r: list[int | None] = [0] * program.registers
        """Registers; None where the number is lost."""
        self.results: list[Array | None] = [None] * len(program.results)
        self.heap, self.trace, tables = whole.heap, whole.trace, whole.tables
        self.budget = whole.budget
        self.bounds = context.bounds
        self.gives = [0] * program.returns
        self.taken: list[int] = []
        self.at = 0
        """The word of the instruction that comes next."""
        self.end: int | _PendingCall | None = None
        if id(program) not in tables:
            table = {at: (op, operands) for at, op, operands in program.instructions()}
            tables[id(program)] = (table, dict(pairwise(sorted(table))))

    def callee(self, call: _PendingCall, program: Program) -> _CallFrame:
        """Makes the frame of a call from here."""
        arguments, at = [], 0
        for rank in program.passes:
            n = max(rank, 0)
            arguments.append(_PassedArgument(call.words[at], call.words[at + 1 : at + 1 + n]))
            at += 1 + n
        context = self.context.callee(call.number, program.regions)
        context.bounds = self.bounds
        return _CallFrame(program, arguments, context, self.whole)

    def go(self) -> int | _PendingCall:
        table, following = self.whole.tables[id(self.program)]
        self.end = None
        while self.end is None:
            if self.at not in table:
                raise VerifyError(f"the program goes on at word {self.at}, where no instruction begins")
            op, operands = table[self.at]
            if self.trace is not None:
                self.trace(self.program, self.at, op, operands, self.r)
            self.at = following.get(self.at, -1)
            self.step(op, operands)
        return self.end

    def step(self, op: Op, operands: tuple[InstructionOperand, ...]) -> None:
        """Runs one instruction by its row: reads the operands of its handler, and writes the handler's result."""
        values: list[Any] = []
        spreads = False
        for p, o in zip(op.parameters, operands):
            value = o if p.mode is Mode.NUMBER else self.read(o) if isinstance(o, tuple) else self.r[o]
            lost = None in value if isinstance(value, tuple) else value is None
            if lost and p.mode in (Mode.NEEDED, Mode.LIST):
                raise OverflowedError(overflow_text(self.program, op.named(operands)))
            spreads |= lost and p.mode is Mode.SPREADING
            values.append(value)
        number = None if spreads else getattr(self, op.handler)(*values[op.writes :])
        if op.writes:
            assert isinstance(operands[0], int)
            self.r[operands[0]] = int(number) if number is not None and INT64_MIN <= number <= INT64_MAX else None

    def read(self, registers: tuple[int, ...]) -> Any:
        return tuple(self.r[k] for k in registers)

    def look(self) -> None:
        """Raises if the call is to stop."""
        if self.bounds is not None:
            self.bounds.look()

    do_add, do_sub, do_mul = map(staticmethod, (operator.add, operator.sub, operator.mul))
    do_eq, do_ne, do_lt = map(staticmethod, (operator.eq, operator.ne, operator.lt))
    do_le, do_gt, do_ge = map(staticmethod, (operator.le, operator.gt, operator.ge))
    do_floordiv = staticmethod(lambda a, b: a // b if b else 0)
    do_mod = staticmethod(lambda a, b: a % b if b else 0)
    do_min = staticmethod(lambda a, b: min(a, b))
    do_max = staticmethod(lambda a, b: max(a, b))
    do_and = staticmethod(lambda a, b: 0 if 0 in (a, b) else None if None in (a, b) else 1)
    do_or = staticmethod(lambda a, b: 1 if a or b else None if None in (a, b) else 0)
    do_not = staticmethod(operator.not_)
    do_select = staticmethod(lambda cond, then, other: then if cond else other)
    do_const = staticmethod(lambda n: n)
    do_view = staticmethod(lambda address, offset: address + offset)
    do_copy = staticmethod(lambda to, address, size: ctypes.memmove(to, address, size))
    do_threads = staticmethod(lambda: 1)

    def do_return(self) -> None:
        self.end = DONE

    def do_guard(self, cond: int) -> None:
        if not cond:
            self.end = DECLINED

    def do_jump(self, to: int) -> None:
        self.look()
        self.at = to

    def do_unless(self, cond: int, to: int) -> None:
        if not cond:
            self.at = to

    def do_check(self, cond: int, check: int) -> None:
        if not cond:
            numbers = self.read(self.program.checks[check].registers)
            raise failed_check(self.program, check, [n or 0 for n in numbers])

    def do_dim(self, argument: int, axis: int) -> int:
        return self.arguments[argument].shape[axis]

    def do_argument(self, argument: int) -> int:
        return self.arguments[argument].address

    def do_constant(self, constant: int) -> int:
        return address_of(self.program.constants[constant])

    def do_load(self, address: int, index: int, of: int) -> int:
        _, spelled, size = ELEMENTS[of]
        return int(struct.unpack(spelled, ctypes.string_at(address + index * size, size))[0])

    def do_store(self, address: int, index: int, value: int, of: int) -> None:
        _, spelled, size = ELEMENTS[of]
        try:
            data = struct.pack(spelled, value)
        except struct.error:
            raise OverflowedError(unfit_text(value, of)) from None
        ctypes.memmove(address + index * size, data, size)

    def do_rows(self, to: int, to_step: int, address: int, step: int, size: int, count: int) -> None:
        for k in range(count):
            ctypes.memmove(to + k * to_step, address + k * step, size)

    def do_region(self, region: int, size: int) -> int:
        self._count(region, size)
        return self.context.region(region, size)

    def do_extend(self, region: int, size: int) -> int:
        self._count(region, size)
        return self.context.extend(region, size)

    def do_stack(self, region: int, size: int, what: int) -> int:
        with growing(self.program, what):
            self._count(region, size)
            return self.context.extend(region, size)

    def _count(self, region: int, size: int) -> None:
        if self.budget is not None:
            self.budget.grow((id(self.context), region), size)

    def do_swap(self, one: int, other: int) -> None:
        self.context.swap(one, other)
        if self.budget is not None:
            self.budget.swap((id(self.context), one), (id(self.context), other))

    def do_output(self, result: int, dims: tuple[int, ...]) -> int:
        result_type = self.program.results[result]
        if self.budget is not None:
            self.budget.take(math.prod(dims) * result_type.dtype.numpy.itemsize)
        a = self.results[result] = new_result(dims, result_type.dtype.numpy, result_type.name)
        return address_of(a)

    def do_invoke(self, kernel: int, scratch: int, scalars: tuple[int, ...], buffers: tuple[int, ...]) -> None:
        self.look()
        numbers = (ctypes.c_int64 * (AREA + max(len(scalars), 1)))(*[0] * AREA, *scalars)
        addresses = (ctypes.c_int64 * max(len(buffers), 1))(*buffers)
        status = self.program.kernels[kernel].entry(
            ctypes.c_void_p(ctypes.addressof(numbers) + 8 * AREA),
            ctypes.cast(addresses, ctypes.c_void_p),
            ctypes.c_void_p(scratch),
            ctypes.c_int64(0),
            ctypes.c_int64(1),
        )
        if status:
            raise failed_kernel(self.program, kernel, status, scalars, take(numbers))

    def do_share(
        self, kernel: int, scratch: int, each: int, parts: Any, slices: Any, scalars: Any, buffers: Any
    ) -> None:
        self.do_invoke(kernel, scratch, scalars, buffers)

    def do_list(self, lists: int) -> int:
        return self.heap.new_list()

    def do_block(self, size: int) -> int:
        return self.heap.block(size)

    def do_retain(self, handle: int) -> None:
        self.heap.retain(handle)

    def do_release(self, handle: int) -> None:
        self.heap.release(handle)

    def do_own(self, handle: int) -> int:
        return self.heap.own(handle)

    def do_length(self, handle: int) -> int:
        return len(self.heap.elements(handle))

    def do_insert(self, handle: int, position: int, element: int) -> None:
        self.heap.elements(handle).insert(position, element)

    def do_erase(self, handle: int, position: int) -> None:
        self.heap.release(self.heap.elements(handle).pop(position))

    def do_element(self, handle: int, position: int) -> int:
        return self.heap.elements(handle)[position]

    def do_call(self, function: int, words: tuple[int, ...]) -> None:
        self.look()
        self.end = _PendingCall(function, words)

    def do_give(self, place: int, words: tuple[int, ...]) -> None:
        self.gives[place : place + len(words)] = words

    def do_taken(self, place: int) -> int:
        return self.taken[place]


def failed_check(program: Program, number: int, values: Sequence[int]) -> AnyshapeError:
    return ShapeError(program.checks[number].text(values))


@contextmanager
def growing(program: Program, number: int) -> Iterator[None]:
    """Names, in an error for want of memory, the value that a loop stacks or carries: its name is the text of a check."""
    try:
        yield
    except AnyshapeError as e:
        raise type(e)(f"{program.checks[number].text(())}: {e}") from None


def failed_kernel(
    program: Program, number: int, status: int, scalars: Sequence[int], failure: Sequence[int]
) -> AnyshapeError:
    """Makes the error of a kernel that failed. `scalars` are those of its call; `failure` is its report, the words ahead of them."""
    kernel = program.kernels[number]
    if 0 < status <= len(kernel.errors):
        return ShapeError(refusal(kernel.errors[status - 1], scalars, failure))
    return AnyshapeError(f"kernel {kernel.name} ended with the unknown status {status}")


def unfit_text(value: int, code: int) -> str:
    return f"{value} does not fit an element of type {ELEMENTS[code][0]}"


def too_deep_text(function: Program) -> str:
    return f"{function.name}: calls are nested more than {DEEPEST} deep"


def overflow_text(program: Program, operands: Mapping[str, Any]) -> str:
    """Spells the error of an instruction that needs a number beyond 64 bits, by the operands' names."""
    beyond = "does not fit a signed 64-bit integer"
    if "check" in operands:
        record = program.checks[operands["check"]]
        message = f"a size {beyond} ({record.equation})"
        return located(record.op, record.source, message) if record.op else message
    if "result" in operands:
        return f"{program.name}: a size of the result {program.results[operands['result']].name} {beyond}"
    if "kernel" in operands:
        return f"{program.kernels[operands['kernel']].name}: a size of what it computes {beyond}"
    return f"{program.name}: a size computed from the shapes of the inputs {beyond}"
