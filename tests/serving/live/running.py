"""A server in a process of its own, on free ports of the loopback interface, for tests to talk to and to end."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyshape
from anyshape import ops

START = 300
"""Seconds that a server may take to compile its models on a machine that does much else"""


def rows_model(path: Path) -> None:
    """Saves a model of which rows stay apart: a softmax over the features, many times over, so that a call takes a while."""
    x = anyshape.input("x", "f32[n, m]")
    y: Any = x
    for _ in range(4):
        y = ops.softmax(ops.mul(y, 2.0), axis=1)
    anyshape.compile(anyshape.Function([x], [y], result_names=["y"])).save(path)


def slow_model(path: Path) -> None:
    """Saves a model that sums the products of all pairs of rows, so that requests cannot be joined."""
    x = anyshape.input("x", "f32[n, m]")
    pairs = ops.matmul(x, ops.static.transpose(x, axes=(1, 0)))
    y = ops.sum(ops.tanh(pairs), axes=(1,))
    anyshape.compile(anyshape.Function([x], [y], result_names=["y"])).save(path)


class RunningServer:
    """`anyshape serve` with arguments; `lines` is what it said."""

    def __init__(self, models: Sequence[str], *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "anyshape.cli.main",
            "serve",
            *models,
            "--port",
            "0",
            "--grpc-port",
            "0",
            *options,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.http, self.grpc = (self._said(rf"{name} at 127\.0\.0\.1:(\d+)") for name in ("HTTP", "gRPC"))
        self._said("^ready()")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    def _said(self, pattern: str) -> str:
        end = time.monotonic() + START
        while time.monotonic() < end and self.process.poll() is None:
            for line in list(self.lines):
                if said := re.search(pattern, line):
                    return f"127.0.0.1:{said[1]}"
            time.sleep(0.02)
        raise AssertionError(f"the server did not say {pattern}: {''.join(self.lines)}")

    def wait(self, seconds: float = START) -> int:
        """Waits for the end of the process: its exit code."""
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.wait()
