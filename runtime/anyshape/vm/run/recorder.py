"""Recording of kernels, timed one by one: a program with notes is walked by the interpreter.

In: a program and a `Recorder`. Out: a `Sample` of every kernel. Walking is slow, but only kernels are timed, and they are the machine code
that users run, in one part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, evaluate
from anyshape.graph.value import Node
from anyshape.vm.program.invocation import Invocation
from anyshape.vm.program.table import InstructionOperand, Op, Program
from anyshape.vm.run import interpreter
from anyshape.vm.run.arena import CallMemory

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

    def context(self) -> CallMemory:
        return CallMemory(self.program.regions)

    def direct(self, pool: object) -> None:
        return None

    def run(
        self, arguments: Sequence[Array], context: CallMemory, places: Sequence[Array | None]
    ) -> list[Array] | None:
        times: list[float] = []
        unfinished: list[Callable[[float], Sample]] = []

        def trace(word: int, op: Op, operands: tuple[InstructionOperand, ...], registers: list[int | None]) -> None:
            kernel = op.named(operands).get("kernel")
            if kernel is not None:
                note = self.program.notes[word]
                sizes = {s: registers[r] or 0 for s, r in note.registers.items()}
                unfinished.append(_sample(self.program.kernels[kernel].name, note, sizes))

        kernels = tuple(_TimedKernel(k, times) for k in self.program.kernels)
        results = interpreter.run(replace(self.program, kernels=kernels), arguments, context, trace)
        if results is not None:
            self.recorder.samples += [
                sample(max(0.0, t - self.recorder.overhead)) for sample, t in zip(unfinished, times, strict=True)
            ]
        return results


def _sample(name: str, note: Invocation, sizes: Mapping[Dim, int]) -> Callable[[float], Sample]:
    counts = int(evaluate(note.operations, sizes)), int(evaluate(note.moved, sizes))
    shares = tuple(note.shares(sizes).items())
    result = tuple(int(evaluate(n, sizes)) for n in note.result)
    return lambda seconds: Sample(name, seconds, *counts, shares, result=result)


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
