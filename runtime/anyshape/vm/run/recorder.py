"""Recording of kernels, timed one by one: a program with notes is walked by the interpreter.

In: a program and a `Recorder`. Out: a `Sample` of every kernel. Walking is slow, but only kernels are timed, and they are the machine code
that users run, in one part.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import evaluate
from anyshape.graph.text import is_anonymous
from anyshape.graph.value import Node
from anyshape.vm.program.invocation import Invocation
from anyshape.vm.program.table import InstructionOperand, Op, Program
from anyshape.vm.run import interpreter
from anyshape.vm.run.arena import CallMemory

if TYPE_CHECKING:
    from anyshape.lower.multiply_adds import MultiplyAdd

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Time and work of one kernel of a call."""

    name: str
    seconds: float
    operations: int
    moved: int
    nodes: tuple[tuple[Node, float], ...]
    """Nodes, and their shares of the seconds."""
    _: KW_ONLY
    result: tuple[int, ...] = ()
    """Shape of the kernel's result; of several results, of the one with most dims."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the call, and of what data decides in it, that the kernel depends on, by name."""
    in_use: int = 0
    """Bytes of intermediate values and scratch that the program uses while the kernel runs."""
    results: int = 0
    """Bytes of the results that have memory by then."""
    multiply_add: MultiplyAdd = "f32"
    """What the kernel's multiply-adds multiply."""


@dataclass(eq=False, slots=True)
class Recorder:
    """Collector of samples. `overhead`: seconds that timing a kernel adds."""

    samples: list[Sample] = field(default_factory=list)
    overhead: float = field(init=False)

    def __post_init__(self) -> None:
        times: list[float] = []
        run = _timed(lambda *_: 0, times)
        for _ in range(1000):
            run(0, 0, 0, 0, 0)
        self.overhead = float(np.median(times))

    def taken(self) -> tuple[Sample, ...]:
        """Takes out the samples recorded since the last time."""
        samples, self.samples = tuple(self.samples), []
        return samples


class RecordedExecutor:
    """Executor that walks a program with notes and records its kernels."""

    def __init__(self, program: Program, recorder: Recorder) -> None:
        self.program, self.recorder = program, recorder
        self._multiply_adds: dict[Invocation, MultiplyAdd] = {}

    def context(self) -> CallMemory:
        return CallMemory(self.program.regions)

    def direct(self, pool: object) -> None:
        return None

    def run(
        self, arguments: Sequence[Array], context: CallMemory, places: Sequence[Array | None]
    ) -> list[Array] | None:
        times: list[float] = []
        unfinished: list[Sample] = []
        results = dict[int, int]()

        def trace(
            program: Program,
            word: int,
            op: Op,
            operands: tuple[InstructionOperand, ...],
            registers: list[int | None],
        ) -> None:
            named = op.named(operands)
            if op is Op.OUTPUT:
                dtype = program.results[named["result"]].dtype
                results[named["result"]] = math.prod((registers[k] or 0 for k in named["dims"]), start=dtype.itemsize)
            elif "kernel" in named:
                note = program.notes[word]
                sample = _sample(program.kernels[named["kernel"]].name, note, registers)
                if note not in self._multiply_adds:
                    self._multiply_adds[note] = note.multiply_add
                unfinished.append(
                    replace(sample, results=sum(results.values()), multiply_add=self._multiply_adds[note])
                )

        arrays = interpreter.run(_timed_program(self.program, times), arguments, context, trace)
        if arrays is not None:
            self.recorder.samples += [
                replace(sample, seconds=max(0.0, t - self.recorder.overhead))
                for sample, t in zip(unfinished, times, strict=True)
            ]
        return arrays


def _sample(name: str, note: Invocation, registers: Sequence[int | None]) -> Sample:
    """The work of a kernel, which no time is known of yet."""
    sizes = {s: registers[k] or 0 for s, k in note.registers.items()}
    counts = int(evaluate(note.operations, sizes)), int(evaluate(note.moved, sizes))
    shares = tuple(note.shares(sizes).items())
    result = tuple(int(evaluate(n, sizes)) for n in note.result)
    named = {str(s): n for s, n in sizes.items() if not is_anonymous(s)}
    in_use = note.memory.bytes(registers) if note.memory is not None else 0
    return Sample(name, 0.0, *counts, shares, result=result, sizes=named, in_use=in_use)


def _timed_program(program: Program, times: list[float]) -> Program:
    """The program, and the functions that it calls, with kernels that add the time of each of their calls to the times."""
    kernels = tuple(_TimedKernel(k, times) for k in program.kernels)
    return replace(program, kernels=kernels, functions=tuple(_timed_program(f, times) for f in program.functions))


class _TimedKernel:
    def __init__(self, kernel: Any, times: list[float]) -> None:
        self.name, self.errors, self.entry = kernel.name, kernel.errors, _timed(kernel.entry, times)


def _timed(entry: Callable[..., int], times: list[float]) -> Callable[..., int]:
    clock = time.perf_counter

    def run(*arguments: Any) -> int:
        start = clock()
        status = entry(*arguments)
        times.append(clock() - start)
        return status

    return run
