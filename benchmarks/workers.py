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
from collections.abc import Iterator, Mapping, Sequence
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


class Worker:
    """A `Runner` whose engine lives in another process, which is stopped but while it answers."""

    def __init__(self, name: str, path: Path, threads: int, calls: Mapping[Shape, Arrays]) -> None:
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-m", "benchmarks.workers", str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        self._pipe.send((name, path, threads, calls))
        self.name = name
        self.seconds: float = self._answer()

    def late(self) -> int | None:
        found: int | None = self._ask("late")
        return found

    def results(self, arguments: Arrays) -> list[Any]:
        found: list[Any] = self._ask("results", arguments)
        return found

    def turn(self, shape: Shape) -> list[float]:
        found: list[float] = self._ask("turn", shape)
        return found

    def stream(self, order: Sequence[Shape]) -> list[float]:
        found: list[float] = self._ask("stream", order)
        return found

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        found: list[list[float]] = self._ask("first", order)
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._process.send_signal(signal.SIGCONT)
        self._pipe.send((method, arguments))
        return self._answer()

    def _answer(self) -> Any:
        try:
            found = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"the process of {self.name} ended") from None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # a signal is not yet a stop
        if isinstance(found, BaseException):
            raise found
        return found


@contextmanager
def workers(names: Sequence[str], path: Path, threads: int, calls: Mapping[Shape, Arrays]) -> Iterator[list[Worker]]:
    """One for each engine, made one after the other."""
    with ExitStack() as stack:
        found = []
        for name in names:
            found.append(Worker(name, path, threads, calls))
            stack.callback(found[-1].end)
        yield found


# what runs in a process of its own


def serve(pipe: Connection) -> None:
    """Answers until the other end is closed."""
    if sys.platform == "linux":  # a stopped process would outlive a parent that is killed
        ctypes.CDLL(None).prctl(_PARENT_DEATH, int(signal.SIGKILL))
    name, path, threads, given = pipe.recv()
    calls = {shape: {n: np.array(a) for n, a in arguments.items()} for shape, arguments in given.items()}
    runner = Local(lambda: prepare(name, path, threads), calls)
    pipe.send(runner.seconds)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(runner, method)(*arguments))
        except Exception as error:
            pipe.send(error)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
