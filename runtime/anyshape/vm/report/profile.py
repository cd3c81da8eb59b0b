"""Where the time of a call goes: every kernel timed by itself, with what it computes and moves at this call's sizes.

In: a model and inputs. Out: a `Profile`. The model is compiled twice: once as users run it, for the time of the whole call, and once with a
`Recorder`, for which programs are walked by the interpreter. That is slow, but only kernels are timed, and they are the same machine code,
run in one part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dims import Dim, Size, evaluate, minimum
from anyshape.equations.operations import elements_read, operations
from anyshape.errors import ArgumentError
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import KernelStep
from anyshape.public import edge
from anyshape.types import TensorType
from anyshape.vm.program.table import Op, Operand, Program
from anyshape.vm.run import interpreter
from anyshape.vm.run.arena import Context

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Invocation:
    """What an instruction that runs a kernel does. `moved`: bytes of its results, and of its operands what is read, each once."""

    step: KernelStep
    outputs: tuple[Value, ...]
    registers: Mapping[Dim, int]

    @property
    def operations(self) -> Size:
        return operations(self.step.equations)

    @property
    def moved(self) -> Size:
        total: Size = 0
        for v in (*self.step.inputs, *self.outputs):
            assert isinstance(v.type, TensorType)
            whole = v.type.count()
            read = elements_read(self.step.equations, self.step.tensors[v]) if v in self.step.inputs else None
            total = total + (whole if read is None else minimum(whole, read)) * v.type.dtype.itemsize
        return total

    @property
    def result(self) -> tuple[Size, ...]:
        """The shape of the result that has most dims."""
        shapes = [v.type.shape for v in self.outputs if v.type.shape is not None]
        return max(shapes, key=len, default=())

    def shares(self, sizes: Mapping[Dim, int]) -> dict[Node, float]:
        """Of the time, by node: as its operations are of all, or alike where there are none."""
        counts = {n: float(evaluate(c, sizes)) for n, c in self._operations_by_node().items()}
        total = sum(counts.values())
        return {n: c / total if total else 1 / len(counts) for n, c in counts.items()}

    def _operations_by_node(self) -> dict[Node, Size]:
        """Equations stand in the order of the nodes, and a node's last one makes its last output."""
        ends = {self.step.tensors[v]: n for n in self.step.nodes for v in n.outputs if v in self.step.tensors}
        found: dict[Node, Size] = dict.fromkeys(self.step.nodes, 0)
        waiting = []
        for q in self.step.equations:
            waiting.append(q)
            node = ends.get(q.target)
            if node is not None:
                found[node] = found[node] + operations(waiting)
                waiting = []
        return found


@dataclass(frozen=True, slots=True)
class Sample:
    """One kernel of a call."""

    name: str
    seconds: float
    operations: int
    moved: int
    nodes: tuple[tuple[Node, float], ...]
    """With their shares of the seconds."""
    result: tuple[int, ...] = ()
    """The shape of what it makes; of several results, of the one with most dims."""


@dataclass(frozen=True, slots=True)
class Profile:
    """`call`: seconds of the whole call, as users run it; `samples` in the order in which they ran."""

    call: float
    samples: tuple[Sample, ...]

    @property
    def kernels(self) -> float:
        """Seconds in kernels."""
        return sum(s.seconds for s in self.samples)


@dataclass(eq=False, slots=True)
class Recorder:
    """Takes the samples of calls. `overhead`: seconds that timing a kernel adds."""

    samples: list[Sample] = field(default_factory=list)
    overhead: float = field(init=False)

    def __post_init__(self) -> None:
        times: list[float] = []
        run = _timed(lambda *_: 0, times)
        for _ in range(1000):
            run(0, 0, 0, 0, 0)
        self.overhead = float(np.median(times))

    def taken(self) -> tuple[Sample, ...]:
        """What was recorded since the last time."""
        found, self.samples = tuple(self.samples), []
        return found


class RecordedExecutor:
    """Walks a program that has notes, and records its kernels."""

    def __init__(self, program: Program, recorder: Recorder) -> None:
        self.program, self.recorder = program, recorder

    def context(self) -> Context:
        return Context(self.program.regions)

    def direct(self, pool: object) -> None:
        return None

    def run(self, arguments: Sequence[Array], context: Context, places: Sequence[Array | None]) -> list[Array] | None:
        times: list[float] = []
        made: list[Callable[[float], Sample]] = []

        def trace(word: int, op: Op, operands: tuple[Operand, ...], registers: list[int | None]) -> None:
            kernel = op.named(operands).get("kernel")
            if kernel is not None:
                note = self.program.notes[word]
                sizes = {s: registers[r] or 0 for s, r in note.registers.items()}
                made.append(_sample(self.program.kernels[kernel].name, note, sizes))

        kernels = tuple(_TimedKernel(k, times) for k in self.program.kernels)
        results = interpreter.run(replace(self.program, kernels=kernels), arguments, context, trace)
        if results is not None:
            self.recorder.samples += [
                sample(max(0.0, t - self.recorder.overhead)) for sample, t in zip(made, times, strict=True)
            ]
        return results


def _sample(name: str, note: Invocation, sizes: Mapping[Dim, int]) -> Callable[[float], Sample]:
    counts = int(evaluate(note.operations, sizes)), int(evaluate(note.moved, sizes))
    shares = tuple(note.shares(sizes).items())
    result = tuple(int(evaluate(n, sizes)) for n in note.result)
    return lambda seconds: Sample(name, seconds, *counts, shares, result)


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


MOST_CALLS = 1_000_000


@edge
def profile(model: Any, inputs: Mapping[str, Array], repeat: int = 10, **options: Any) -> Profile:
    """The least time of each kernel, and of the call, over `repeat` calls. `model` and `options` as `compile` takes them. Raises what
    compiling the model or calling it raises."""
    from anyshape.vm.run.executable import compile

    if not 1 <= repeat <= MOST_CALLS:
        raise ArgumentError(f"profile: repeat must be a number of calls, from 1 to {MOST_CALLS}, got {repeat}")
    recorder = Recorder()
    recorded, plain = compile(model, **options, recorder=recorder), compile(model, **options)
    plain.run(inputs)
    recorded.run(inputs)
    recorder.taken()
    runs, calls = [], []
    for _ in range(repeat):
        recorded.run(inputs)
        runs.append(recorder.taken())
        start = time.perf_counter()
        plain.run(inputs)
        calls.append(time.perf_counter() - start)
    least = (replace(same[0], seconds=min(s.seconds for s in same)) for same in zip(*runs, strict=True))
    return Profile(min(calls), tuple(least))
