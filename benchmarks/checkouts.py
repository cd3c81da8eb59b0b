"""The code of a checkout of this repository in a process of its own, which is stopped while others are measured (`workers.py`).

In: the folder of a checkout, a number of threads, then a model and the arguments of a call. Out: seconds of calls, and their results. Only
`anyshape` is the checkout's; what measures is this one's, so that any two are measured in the same way.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lines import Array, placed
from benchmarks.workers import Stopped, serve

HERE = Path(__file__).resolve().parents[1]
ROOMS = ("runtime", "generated")
WARM = 0.25
"""Fraction of a turn, at its beginning, whose calls do not count: until caches and threads are awake."""


@dataclass(frozen=True)
class Call:
    """What is measured. `model`: a file, or what is in one; `results`: shape and dtype of results whose memory the caller gives;
    `following`: inputs of calls that follow the first one, over and over; `held`: how many calls' results the caller still has when it
    makes a call."""

    name: str
    model: Path | bytes
    inputs: Mapping[str, Array]
    results: Mapping[str, tuple[tuple[int, ...], str]]
    following: Sequence[Mapping[str, Array]] = ()
    held: int = 0


class Checkout(Stopped):
    """A process that runs the code of a checkout, one call at a time."""

    def __init__(self, folder: Path, threads: int, environment: Mapping[str, str] | None = None) -> None:
        """`folder`: absolute, with the rooms of a checkout; `environment`: variables of its process alone."""
        super().__init__(str(folder), "benchmarks.checkouts", (threads,), path_of(folder), environment)
        if not Path(self.first_answer).is_relative_to(folder):
            self.end()
            raise ImportError(f"{folder} was to be measured, and {self.first_answer} was imported")

    def take(self, call: Call) -> None:
        self.ask("take", call)

    def turn(self, seconds: float) -> float:
        """Seconds of a call, in the mean of a turn of so many."""
        mean: float = self.ask("turn", seconds)
        return mean

    def first_calls(self, seconds: float) -> float:
        """Seconds of a first call with inputs that follow, in the mean, after calls with the first inputs for so many seconds."""
        mean: float = self.ask("first_calls", seconds)
        return mean

    def results(self) -> list[Array]:
        results: list[Array] = self.ask("results")
        return results


def path_of(folder: Path) -> list[str]:
    """Returns where a process looks for modules: the code of the checkout, then what measures, then all that is installed."""
    ours = {str(HERE), *(str(HERE / room) for room in ROOMS)}
    installed = [p for p in sys.path if p and str(Path(p).resolve()) not in ours]
    return [*(str(folder / room) for room in ROOMS), str(HERE), *installed]


# what runs in a process of its own


class _Code:
    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._model: Path | bytes = b""

    def take(self, call: Call) -> None:
        import anyshape

        if call.model != self._model:
            self._executable, self._model = anyshape.compile(call.model, threads=self._threads), call.model
        self._inputs = [{name: placed(a) for name, a in i.items()} for i in (call.inputs, *call.following)]
        self._held: deque[Any] = deque(maxlen=call.held)
        self._results = {name: placed(np.zeros(shape, dtype)) for name, (shape, dtype) in call.results.items()}
        self._call(self._inputs[0])

    def turn(self, seconds: float) -> float:
        self._mean(WARM * seconds)
        return self._mean((1 - WARM) * seconds)

    def first_calls(self, seconds: float) -> float:
        first, *following = self._inputs
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)  # or calls find memory that arguments were made in
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self._call(first)
        start = time.perf_counter()
        for inputs in following:
            self._call(inputs)
        return (time.perf_counter() - start) / len(following)

    def results(self) -> list[Array]:
        return [np.array(a) for inputs in self._inputs for a in self._call(inputs)]

    def _call(self, inputs: Mapping[str, Array]) -> Any:
        results = self._executable.run(inputs, self._results) if self._results else self._executable.run(inputs)
        self._held.append(results)
        return results

    def _mean(self, seconds: float) -> float:
        calls, start = 0, time.perf_counter()
        while True:
            self._call(self._inputs[calls % len(self._inputs)])
            calls += 1
            spent = time.perf_counter() - start
            if spent >= seconds:
                return spent / calls


def _built(threads: int) -> tuple[_Code, str]:
    """Makes what answers in the process, and says where its code is."""
    spec = importlib.util.find_spec("anyshape")
    return _Code(threads), str(Path(spec.origin).resolve()) if spec is not None and spec.origin else ""


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), _built)
