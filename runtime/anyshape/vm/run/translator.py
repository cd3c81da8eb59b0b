"""Straight-line programs as one Python function each: the table decoded once, instead of in every call.

In: a program without jumps. Out: `run(arguments, context)`, equal to `interpreter.run` and about a hundred times as fast: registers
become local variables, dims of arguments are read from their shape tuples, and a kernel's arguments are packed with one call.
The text is made from the table alone; a name in it is a register, `k3` a kernel, `p3` a register as a pointer.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

from anyshape.dims import INT64_MAX
from anyshape.vm.program.address import DATA_OFFSET, FAST, Int64, address_of
from anyshape.vm.program.table import ELEMENT_CODE, LISTS, Op, Operand, Program, invocation
from anyshape.vm.run.arena import Context
from anyshape.vm.run.interpreter import Array, failed_check, failed_kernel, load, store
from anyshape.vm.run.interpreter import run as walk
from anyshape.vm.run.results import new_result

Run = Callable[[Sequence[Array], Context], "list[Array] | None"]

_SYMBOLS = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.EQ: "==", Op.NE: "!=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">=",
            Op.AND: "and", Op.OR: "or"}  # fmt: skip

_ANEW = "return WALK(arguments, context)"
"""Where a number overflows, the call begins anew in the interpreter, which knows whether the number is needed."""


def can_translate(program: Program) -> bool:
    """Whether it has no jumps, and no lists, which are made and read in loops."""
    return all(op not in (Op.JUMP, Op.UNLESS, Op.ROWS, Op.CALL, *LISTS) for _, op, _ in program.instructions())


def frame_of(program: Program) -> tuple[int, tuple[int, ...]]:
    """(words of the frame, offsets that kernels get pointers to): scalars at 0, and buffers right behind them."""
    words, offsets = 0, {0: None}
    for _, op, o in program.instructions():
        call = invocation(op, o)
        if call is not None:
            _, _, scalars, buffers = call
            words = max(words, len(scalars) + len(buffers))
            offsets[len(scalars)] = None
    return words, tuple(offsets)


def translate(program: Program) -> Run:
    """The program as a function of (arguments, context)."""
    return _Translation(program).function()


class _Translation:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.literal: dict[int, int] = {}
        self.scope: dict[str, Any] = {
            "EMPTY": new_result, "AT": Int64.from_address, "ADDRESS": address_of, "POINTER": ctypes.c_void_p,
            "ZERO": ctypes.c_int64(0), "ONE": ctypes.c_int64(1), "LOAD": load, "STORE": store, "MOVE": ctypes.memmove,
            "check": lambda number, values: failed_check(program, number, values),
            "kernel": lambda number, status, scalars, told: failed_kernel(program, number, status, scalars, told),
            "WALK": lambda arguments, context: walk(program, arguments, context),
        }  # fmt: skip
        self.offsets = {n: k for k, n in enumerate(frame_of(program)[1])}
        calls = [invocation(op, o) for _, op, o in program.instructions()]
        self.scratches = {c[1] for c in calls if c is not None}
        self.shapes: set[int] = set()

    def function(self) -> Run:
        for _, op, o in self.program.instructions():
            self.instruction(op, o)
        arguments = "".join(f"a{k}, " for k in range(len(self.program.arguments)))
        pointers = "".join(f"f{k}, " for k in range(len(self.offsets)))
        head = [f"{arguments}= arguments"] if arguments else []
        head += [f"{pointers}= context.pointers", "frame = context.frame"]
        body = "\n    ".join([*head, *self.lines])
        text = f"def run(arguments, context):\n    {body}\n"
        exec(compile(text, f"<program {self.program.name}>", "exec"), self.scope)
        made: Run = self.scope["run"]
        return made

    def r(self, operand: Operand) -> str:
        assert isinstance(operand, int)
        return str(self.literal[operand]) if operand in self.literal else f"r{operand}"

    def write(self, register: Operand, value: str) -> None:
        assert isinstance(register, int)
        self.lines.append(f"r{register} = {value}")
        if register in self.scratches:
            self.lines.append(f"p{register} = POINTER(r{register})")

    def instruction(self, op: Op, o: tuple[Operand, ...]) -> None:
        if op is Op.CONST:
            assert isinstance(o[0], int) and isinstance(o[1], int)
            if o[0] in self.scratches:
                self.write(o[0], str(o[1]))
            self.literal[o[0]] = o[1]
        elif op in _SYMBOLS:
            value = f"{self.r(o[1])} {_SYMBOLS[op]} {self.r(o[2])}"
            self.write(o[0], f"1 if {value} else 0" if op in (Op.AND, Op.OR) else value)
            if op in (Op.ADD, Op.SUB, Op.MUL):
                self.lines.append(f"if not -{INT64_MAX + 1} <= r{o[0]} <= {INT64_MAX}: {_ANEW}")
        elif op in (Op.FLOORDIV, Op.MOD):
            a, b, sign = self.r(o[1]), self.r(o[2]), "//" if op is Op.FLOORDIV else "%"
            constant = o[2] in self.literal and self.literal[o[2]] != 0
            self.write(o[0], f"{a} {sign} {b}" + ("" if constant else f" if {b} else 0"))
            if op is Op.FLOORDIV and not (constant and self.literal[_number(o[2])] > 0):
                self.lines.append(f"if r{o[0]} > {INT64_MAX}: {_ANEW}")
        elif op in (Op.MIN, Op.MAX):
            a, b, sign = self.r(o[1]), self.r(o[2]), "<" if op is Op.MIN else ">"
            self.write(o[0], f"{a} if {a} {sign} {b} else {b}")
        else:
            self.other(op, o)

    def other(self, op: Op, o: tuple[Operand, ...]) -> None:
        if op is Op.NOT:
            self.write(o[0], f"not {self.r(o[1])}")
        elif op is Op.SELECT:
            self.write(o[0], f"{self.r(o[2])} if {self.r(o[1])} else {self.r(o[3])}")
        elif op is Op.DIM:
            assert isinstance(o[1], int)
            if o[1] not in self.shapes:
                self.shapes.add(o[1])
                self.lines.append(f"s{o[1]} = a{o[1]}.shape")
            self.write(o[0], f"s{o[1]}[{o[2]}]")
        elif op is Op.THREADS:
            self.write(o[0], "1")
        elif op is Op.ARGUMENT:
            self.write(o[0], _address(f"a{o[1]}"))
        elif op is Op.CONSTANT:
            assert isinstance(o[0], int) and isinstance(o[1], int)
            self.literal[o[0]] = address_of(self.program.constants[o[1]])
        elif op is Op.CHECK:
            values = "".join(f"{self.r(k)}, " for k in self.program.checks[_number(o[1])].registers)
            self.lines.append(f"if not {self.r(o[0])}: raise check({o[1]}, ({values}))")
        elif op is Op.GUARD:
            self.lines.append(f"if not {self.r(o[0])}: return None")
        elif op is Op.RETURN:
            self.lines.append(f"return [{', '.join(f'o{k}' for k in range(len(self.program.results)))}]")
        else:
            self.memory(op, o)

    def memory(self, op: Op, o: tuple[Operand, ...]) -> None:
        if op is Op.REGION:
            self.write(o[0], f"context.region({o[1]}, {self.r(o[2])})")
        elif op is Op.OUTPUT:
            assert isinstance(o[2], tuple)
            result = self.program.results[_number(o[1])]
            self.scope[f"D{o[1]}"] = result.dtype.numpy
            self.lines.append(f"o{o[1]} = EMPTY(({''.join(f'{self.r(k)}, ' for k in o[2])}), D{o[1]}, {result.name!r})")
            self.write(o[0], _address(f"o{o[1]}"))
        elif op is Op.VIEW:
            self.write(o[0], f"{self.r(o[1])} + {self.r(o[2])}")
        elif op is Op.LOAD:
            self.write(o[0], f"LOAD({self.r(o[1])}, {o[2]}, {o[3]})")
            if o[3] == ELEMENT_CODE["u64"]:
                self.lines.append(f"if r{o[0]} > {INT64_MAX}: {_ANEW}")
        elif op is Op.STORE:
            self.lines.append(f"STORE({self.r(o[0])}, {o[1]}, {self.r(o[2])}, {o[3]})")
        elif op is Op.COPY:
            self.lines.append(f"MOVE({self.r(o[0])}, {self.r(o[1])}, {self.r(o[2])})")
        else:
            call = invocation(op, o)
            assert call is not None
            self.invoke(*call)

    def invoke(self, number: int, scratch: int, scalars: tuple[int, ...], buffers: tuple[int, ...]) -> None:
        n = len(scalars) + len(buffers)
        self.scope[f"k{number}"] = self.program.kernels[number].entry
        self.scope[f"PACK{n}"] = struct.Struct(f"{n}q").pack_into
        if n:
            self.lines.append(f"PACK{n}(frame, 0, {', '.join(map(self.r, (*scalars, *buffers)))})")
        behind = self.offsets[len(scalars)]
        self.lines.append(f"status = k{number}(f0, f{behind}, p{scratch}, ZERO, ONE)")
        self.lines.append(
            f"if status: raise kernel({number}, status, [{', '.join(map(self.r, scalars))}], context.told())"
        )


def _address(name: str) -> str:
    return f"AT(id({name}) + {DATA_OFFSET}).value" if FAST else f"ADDRESS({name})"


def _number(operand: Operand) -> int:
    assert isinstance(operand, int)
    return operand
