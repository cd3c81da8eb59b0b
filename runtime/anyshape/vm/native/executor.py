"""Runs programs by the native loop: turns of machine code, and between them what only Python can do.

In: a program with machine-code kernels. Out: `NativeExecutor.run`, equal to `interpreter.run` in results and in every message. Regions
grow and results are made between turns; a call that needs neither is one turn.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.code_version import code_version
from anyshape.errors import AnyshapeError, OverflowedError, VerifyError
from anyshape.types import TensorType
from anyshape.vm.interpreter import failed_check, failed_kernel, overflow_text, unfit_text
from anyshape.vm.native.context import NativeContext, tables_of
from anyshape.vm.native.layout import End, Word
from anyshape.vm.native.verify import verify_program
from anyshape.vm.program import Op, Operand, Program, decode

Array = NDArray[Any]
Turn = Callable[[int], int]


@cache
def _loop() -> tuple[Turn, object]:
    """The loop of this machine, from the object cache after the first time; and what keeps it loaded."""
    from anyshape.lower.llvm.jit import load_object, object_by_key, object_key
    from anyshape.lower.target import host_target
    from anyshape.vm.native.loop import loop_module

    target = host_target()
    key = object_key(f"loop by {code_version('anyshape.vm')} {code_version('anyshape.lower')}", target)
    loaded = load_object(object_by_key(key, lambda: loop_module(target).text(), target), ["anyshape_run"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loaded.address("anyshape_run")), loaded


class NativeExecutor:
    """One program, ready. `context()` makes what a call needs; `run` is safe from any number of threads, each with its own context."""

    def __init__(self, program: Program, types: Sequence[TensorType] | None = None) -> None:
        verify_program(program)
        self.program = program
        kernels = [ctypes.cast(k.entry, ctypes.c_void_p).value or 0 for k in program.kernels]
        self._tables = tables_of(program, kernels, types)
        self._turn, self._loaded = _loop()

    def context(self) -> NativeContext:
        return NativeContext(self._tables)

    def run(self, arguments: Sequence[Array], context: NativeContext) -> list[Array] | None:
        """The results, or None where a guard declined. Raises what `interpreter.run` raises."""
        context.bind(arguments)
        results: list[Array | None] = [None] * len(self.program.results)
        while True:
            end = self._turn(context.state)
            if end == End.DONE:
                return [a for a in results if a is not None]
            if end == End.DECLINED:
                return None
            if end == End.REGION:
                _, number, size = self._operands(context)
                context.grow(_number(number), context.register(_number(size)))
            elif end == End.OUTPUT:
                self._make_result(context, results)
            else:
                raise self.error(end, context)

    def _make_result(self, context: NativeContext, results: list[Array | None]) -> None:
        _, number, dims = self._operands(context)
        assert isinstance(number, int) and isinstance(dims, tuple)
        made = np.empty([context.register(r) for r in dims], self.program.results[number].dtype.numpy)
        results[number] = made
        context.put_result(number, made)

    def _operands(self, context: NativeContext) -> tuple[Operand, ...]:
        return self._instruction(context)[1]

    def _instruction(self, context: NativeContext) -> tuple[Op, tuple[Operand, ...]]:
        at = context.at
        _, op, operands = next(decode(self.program.code[at : at + int(self.program.code[at + 1])].tolist()))
        return op, operands

    def error(self, end: int, context: NativeContext) -> AnyshapeError:
        """What the interpreter raises at this instruction with these registers."""
        if end == End.OVERFLOW:
            return OverflowedError(overflow_text(self.program))
        if end == End.CHECK:
            number = _number(self._operands(context)[1])
            values = [context.register(r) for r in self.program.checks[number].registers]
            return failed_check(self.program, number, values)
        if end == End.STORE:
            _, _, register, code = self._operands(context)
            return OverflowedError(unfit_text(context.register(_number(register)), _number(code)))
        if end == End.KERNEL:
            number = _number(self._operands(context)[0])
            return failed_kernel(self.program, number, int(context.words[Word.KERNEL_STATUS]))
        return VerifyError(f"{self.program.name}: the native loop ended with {end} at word {context.at}")


def _number(operand: Operand) -> int:
    assert isinstance(operand, int)
    return operand
