"""Engines in processes of their own, of which one at a time is awake: the others are stopped with all their threads.

In: the name of an engine, a model and the calls to measure. Out: a `Runner` like those of `streams.py`. Engines keep threads that look
for work for a while after each call; in one process, or in several that all run, those of one engine would take the processors from the
next. POSIX only, since processes are stopped by SIGSTOP.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import prepare
from benchmarks.models import Arrays
from benchmarks.streams import Local, Shape

_PARENT_DEATH = 1
"""Linux: the option of prctl that names the signal for when the parent ends."""


class Gone(RuntimeError):
    """A process ended, or was ended since it did not answer."""


class Stopped:
    """A process of this package's module that answers one call after the other, and is stopped but while it does.

    `module` calls `serve` with what it makes of `first`; what that is told at once is the first answer.
    """

    def __init__(
        self,
        name: str,
        module: str,
        first: object,
        path: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        limit: float | None = None,
    ) -> None:
        """`path`: where it looks for modules, if not where this process does; `environment`: variables beside this process's; `limit`:
        seconds for an answer."""
        self._limit = limit
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-m", module, str(theirs.fileno())]
        variables = {**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(path or sys.path)}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=variables)
        theirs.close()
        self._pipe.send(first)
        self.name = name
        self.first_answer = self._answer()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def ask(self, method: str, *arguments: Any) -> Any:
        self._process.send_signal(signal.SIGCONT)
        self._pipe.send((method, arguments))
        return self._answer()

    def _answer(self) -> Any:
        """Raises Gone, and what the call raised."""
        if not self._pipe.poll(self._limit):
            self.end()
            raise Gone(f"the process of {self.name} did not answer in {self._limit:.0f} s")
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise Gone(f"the process of {self.name} ended") from None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # a signal is not yet a stop
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Worker(Stopped):
    """A `Runner` whose engine lives in another process."""

    def __init__(self, name: str, path: Path, threads: int, calls: Mapping[Shape, Sequence[Arrays]]) -> None:
        super().__init__(name, "benchmarks.workers", (name, path, threads, calls))
        self.seconds: float = self.first_answer

    def late(self) -> int | None:
        count: int | None = self.ask("late")
        return count

    def results(self, arguments: Arrays) -> list[Any]:
        arrays: list[Any] = self.ask("results", arguments)
        return arrays

    def turn(self, shape: Shape) -> list[float]:
        seconds: list[float] = self.ask("turn", shape)
        return seconds

    def stream(self, order: Sequence[Shape]) -> list[float]:
        seconds: list[float] = self.ask("stream", order)
        return seconds

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        seconds: list[list[float]] = self.ask("first", order)
        return seconds

    def first_of_process(self, order: Sequence[Shape]) -> list[list[float]]:
        seconds: list[list[float]] = self.ask("first_of_process", order)
        return seconds


@contextmanager
def workers(
    names: Sequence[str], path: Path, threads: int, calls: Mapping[Shape, Sequence[Arrays]]
) -> Iterator[list[Worker]]:
    """Starts a worker for each engine, one after the other."""
    with ExitStack() as stack:
        started = []
        for name in names:
            started.append(Worker(name, path, threads, calls))
            stack.callback(started[-1].end)
        yield started


# what runs in a process of its own


def serve(pipe: Connection, make: Callable[..., tuple[object, object]]) -> None:
    """Answers until the other end is closed: what has the methods, and the first answer, are made from the first message."""
    if sys.platform == "linux":  # a stopped process would outlive a parent that is killed
        ctypes.CDLL(None).prctl(_PARENT_DEATH, int(signal.SIGKILL))
    runner, first = make(*pipe.recv())
    pipe.send(first)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(runner, method)(*arguments))
        except Exception as error:
            pipe.send(error)


def local(name: str, path: Path, threads: int, arguments: Mapping[Shape, Sequence[Arrays]]) -> tuple[Local, float]:
    calls = {
        shape: [{n: np.array(a) for n, a in call.items()} for call in several] for shape, several in arguments.items()
    }
    runner = Local(lambda: prepare(name, path, threads), calls)
    return runner, runner.seconds


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), local)
