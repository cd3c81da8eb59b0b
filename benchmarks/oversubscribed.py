"""Threads where there are fewer processors than threads: calls on 1, 2, 4 and 8 threads, alone and beside busy processes.

    PYTHONPATH=runtime:generated:. python -m benchmarks.oversubscribed [mlp bert_mini ...] [--seconds 4] [--json out.json]

Executables of one model take turns, there and back, so that none always follows the same one; a turn is longer than several time slices
of the system, since within one a thread has its processor or has not. Figures are medians over the turns, as parts of the time on one
thread under the same conditions: above 1 threads cost more than they bring. `beside` is how many processes do nothing but compute
meanwhile: none, one, as many as there are processors. `loops` are two loops of multiply-adds over one, before and after, with nobody beside
them: near 2 the machine has put its processors onto the two halves of one core (`round_trip.py`), and threads can bring nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import anyshape
from benchmarks.models import Arrays, load
from benchmarks.round_trip import loops_together

THREADS = (1, 2, 4, 8)
TURN = 0.04
"""Seconds of calls before another executable has its turn: some ten time slices."""
SHAPES = {"mlp": ((1, 1), (33, 1)), "bert_mini": ((1, 7), (1, 64)), "gpt2": ((1, 33),), "shape_heavy": ((5, 100),)}


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Runs so many processes that compute all the time."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    time.sleep(0.2 if processes else 0)
    try:
        yield
    finally:
        for p in processes:
            p.kill()
            p.wait()


def turn(exe: anyshape.Executable, arguments: Arrays) -> float:
    """Seconds of a call, in the mean over one turn."""
    calls, start = 0, time.perf_counter()
    while True:
        exe.run(arguments)
        calls += 1
        spent = time.perf_counter() - start
        if spent >= TURN:
            return spent / calls


def compare(executables: Sequence[anyshape.Executable], arguments: Arrays, seconds: float) -> list[float]:
    """The median call of each."""
    for exe in executables:
        exe.run(arguments)
    turns: list[list[float]] = [[] for _ in executables]
    end = time.perf_counter() + seconds
    order = list(zip(turns, executables, strict=True))
    while time.perf_counter() < end or len(turns[0]) < 5:
        for times, exe in order:
            times.append(turn(exe, arguments))
        order.reverse()
    return [median(times) for times in turns]


def measure(name: str, seconds: float, same: bool) -> list[dict[str, Any]]:
    model, rows = load(name), []
    with tempfile.TemporaryDirectory() as folder:
        path = model.build(Path(folder) / "m.onnx")
        executables = [anyshape.compile(path, threads=1 if same else t) for t in THREADS]
        for shape in SHAPES.get(name, model.SHAPES[:2]):
            for beside in sorted({0, 1, os.cpu_count() or 1}):
                before = loops_together()
                with busy(beside):
                    medians = compare(executables, model.inputs(*shape), seconds)
                times = dict(zip(THREADS, medians, strict=True))
                around = [before, loops_together()]
                rows.append({"model": name, "shape": shape, "beside": beside, "seconds": times, "loops": around})
    return rows


def show(row: dict[str, Any]) -> str:
    batch, length = row["shape"]
    times = row["seconds"]
    parts = "  ".join(f"{t}: {times[t] / times[1]:.2f}" for t in THREADS[1:])
    around = " ".join(f"{n:.2f}" for n in row["loops"])
    where = f"{row['model']:12} {batch}x{length:<5} beside {row['beside']}"
    return f"{where}   one thread {times[1] * 1e6:9.1f} us   {parts}   loops {around}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(SHAPES))
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument(
        "--same", action="store_true", help="all on one thread: what rows differ by then is not threads"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.models:
        for row in measure(name, options.seconds, options.same):
            rows.append(row)
            print(show(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
