"""Measures decoding step after step: what a step gives of keys and values goes into the next one, beside onnxruntime.

    PYTHONPATH=runtime:generated:. python -m benchmarks.decoding [--threads 1] [--steps 100] [--rounds 3] [--json out.json]

Every step is a shape that nobody had before, and its results are larger than all before; nothing is copied between steps. Engines live in
processes of their own, of which one at a time is awake, and take turns of `--steps` steps, the first of them from a cache of so many words
as are printed, the next from there on. Figures are milliseconds of a step, medians over the turns. Exit code 1 if what the last step gives
differs by more than 1e-4 of its size. OpenVINO is not here: its results lie where those of its next call will.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.engines import available, prepare
from benchmarks.models import load
from benchmarks.workers import Stopped, serve

STARTS = ((1, 1), (1, 400), (4, 400))
"""(batch, words in the cache)."""
ENGINES = ("anyshape", "onnxruntime")
TOLERANCE = 1e-4


class Decoder:
    """An engine over gpt2, with what its last step gave."""

    def __init__(self, name: str, path: Path, threads: int) -> None:
        self._engine = prepare(name, path, threads)
        self._arguments: dict[str, Any] = {}

    def begin(self, batch: int, length: int) -> None:
        self._arguments = load("gpt2").inputs(batch, length)
        self._caches = [n for n in self._arguments if n.startswith(("keys", "values"))]
        self.steps(1)

    def steps(self, count: int) -> float:
        """Seconds of a step, in the mean."""
        arguments, started = self._arguments, time.perf_counter()
        for _ in range(count):
            results = self._engine.run(arguments)
            arguments.update(zip(self._caches, results[1:], strict=True))
            mask = arguments["mask"]
            arguments["mask"] = np.ones((mask.shape[0], mask.shape[1] + 1), mask.dtype)
        spent = time.perf_counter() - started
        self._last = results
        return spent / count

    def last(self) -> list[Any]:
        """What the last step gave."""
        return list(self._last)


def measure(path: Path, start: tuple[int, int], options: argparse.Namespace) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    with ExitStack() as stack:
        decoders = []
        for name in available(ENGINES):
            decoders.append(Stopped(name, "benchmarks.decoding", (name, path, options.threads)))
            stack.callback(decoders[-1].end)
            decoders[-1].ask("begin", *start)
        for _ in range(options.rounds):
            for d in decoders:
                times.setdefault(d.name, []).append(d.ask("steps", options.steps))
        differences = [difference(d.ask("last"), decoders[0].ask("last")) for d in decoders]
    words = [start[1], start[1] + options.steps * options.rounds]
    seconds = {n: median(t) for n, t in times.items()}
    return {
        "batch": start[0], "words": words, "threads": options.threads, "seconds": seconds, "difference": max(differences)
    }  # fmt: skip


def difference(results: list[Any], ours: list[Any]) -> float:
    """The largest difference of results, as a part of the largest number in ours, or of 1."""
    pairs = zip(results, ours, strict=True)
    return max(float(np.abs(a - b).max() / max(1.0, np.abs(b).max())) for a, b in pairs)


def show(row: dict[str, Any]) -> str:
    parts = "   ".join(f"{n} {t * 1e3:7.3f}" for n, t in row["seconds"].items())
    ours, *peers = row["seconds"].values()
    ratio = f"   peer over ours {min(peers) / ours:.2f}" if peers else ""
    words = f"{row['words'][0]} to {row['words'][1]} words"
    return f"batch {row['batch']}, {words}, ms a step: {parts}{ratio}   difference {row['difference']:.1e}"


def decoder(name: str, path: Path, threads: int) -> tuple[Decoder, None]:
    return Decoder(name, path, threads), None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of every engine (1)")
    parser.add_argument("--steps", type=int, default=100, help="of a turn (100)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each engine (3)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = load("gpt2").build(Path(folder) / "gpt2.onnx")
        for start in STARTS:
            rows.append(measure(path, start, options))
            print(show(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(row["difference"] > TOLERANCE for row in rows))


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].isdigit():
        serve(Connection(int(sys.argv[1])), decoder)
    else:
        sys.exit(main())
