"""Profiles of a session in the trace format of Chrome, which onnxruntime writes too: runs, and the kernels in them.

In: runs with the samples of a `Recorder`. Out: a JSON file, `PREFIX_2026-01-31_12-00-00_123.json`, events with times in microseconds since
the profile began. A kernel computes several nodes; its event names them.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from anyshape.errors import AnyshapeError
from anyshape.files import write_plain
from anyshape.vm.run.recorder import Recorder, Sample

R = TypeVar("R")


class Profiler:
    """Collects the events of one session."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.recorder = Recorder()
        self.start = time.monotonic_ns()
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []

    def timed(self, run: Callable[[], R]) -> R:
        """Calls `run`, one call at a time, and keeps its time and that of its kernels."""
        with self._lock:
            self.recorder.taken()
            start = time.monotonic_ns()
            result = run()
            self._add("Session", "model_run", start, (time.monotonic_ns() - start) / 1e3, {})
            self._add_kernels(start, self.recorder.taken())
            return result

    def _add_kernels(self, start: int, samples: Sequence[Sample]) -> None:
        at = float(start)
        for s in samples:
            nodes = ", ".join(node.source or node.op.name for node, _ in s.nodes)
            arguments = {"op_name": s.name, "nodes": nodes, "output_shape": list(s.result)}
            self._add("Node", f"{s.name}_kernel_time", at, s.seconds * 1e6, arguments)
            at += s.seconds * 1e9

    def _add(self, category: str, name: str, start: float, microseconds: float, arguments: dict[str, Any]) -> None:
        times = {"ts": round((start - self.start) / 1e3), "dur": round(microseconds)}
        where = {"pid": os.getpid(), "tid": threading.get_native_id()}
        self._events.append({"cat": category, **where, **times, "ph": "X", "name": name, "args": arguments})

    def write(self) -> str:
        """Writes the events and returns the name of the file. Raises AnyshapeError where it cannot be written."""
        now = datetime.now()
        path = f"{self.prefix}_{now:%Y-%m-%d_%H-%M-%S}_{now.microsecond // 1000:03}.json"
        try:
            write_plain(Path(path), json.dumps(self._events).encode())
        except (OSError, ValueError) as e:
            raise AnyshapeError(f"{path}: the profile cannot be written: {getattr(e, 'strerror', None) or e}") from None
        return path
