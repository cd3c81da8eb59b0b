"""What huge pages are worth: calls of a model beside the same calls in a process to which the system gives none.

    PYTHONPATH=runtime:generated python -m benchmarks.huge_pages [bert_base ...] [--threads 1] [--seconds 10] [--shapes 1x1 1x7 ...]

Linux only. Prints for each shape the least of many short batches of calls in both processes, which take turns, and their ratio; exit code
1 if the results differ in a bit.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.models import MODELS, Arrays, load
from benchmarks.models_bench import mean
from benchmarks.streams import Local, Shape, steady
from benchmarks.workers import Stopped, Worker, local, serve

_NO_HUGE_PAGES = 41
"""Linux: the option of prctl by which a process gets no transparent huge pages."""


class Refused(Worker):
    """A `Runner` whose engine lives in a process without huge pages."""

    def __init__(self, path: Path, threads: int, calls: Mapping[Shape, Sequence[Arrays]]) -> None:
        Stopped.__init__(self, "refused", "benchmarks.huge_pages", (path, threads, calls))


def refused(path: Path, threads: int, arguments: Mapping[Shape, Sequence[Arrays]]) -> tuple[Local, float]:
    if ctypes.CDLL(None).prctl(_NO_HUGE_PAGES, 1, 0, 0, 0):
        raise OSError("this system has no way to refuse huge pages to a process")
    runner, seconds = local("anyshape", path, threads, arguments)
    runner.name = "refused"
    return runner, seconds


def measure(name: str, shapes: Sequence[Shape], path: Path, threads: int, seconds: float) -> bool:
    """Whether both processes computed the same; prints as it goes."""
    model = load(name)
    calls = {shape: [model.inputs(*shape, seed=1)] for shape in shapes}
    runners = (Worker("anyshape", path, threads, calls), Refused(path, threads, calls))
    try:
        pairs = [[r.results(several[0]) for r in runners] for several in calls.values()]
        times = steady(runners, shapes, seconds)
    finally:
        for r in runners:
            r.end()
    print(
        f"\n{name}, {threads} thread{'s' * (threads > 1)}\n  {'shape':>9} {'with, us':>10} {'without':>10} {'ratio':>6}"
    )
    ratios = []
    for shape in shapes:
        ours, theirs = (min(times[r.name][shape]) for r in runners)
        ratios.append(theirs / ours)
        print(f"  {'x'.join(map(str, shape)):>9} {ours * 1e6:10.1f} {theirs * 1e6:10.1f} {ratios[-1]:6.2f}")
    print(f"  mean {mean(ratios):.2f}", flush=True)
    return all(
        np.array_equal(a, b, equal_nan=True) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["bert_base"], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10, help="of measuring a model, loading left out (10)")
    parser.add_argument("--shapes", nargs="*", help="such as 1x7; those of the model by default")
    options = parser.parse_args()
    equal = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            model = load(name)
            shapes = [(int(a), int(b)) for a, b in (s.split("x") for s in options.shapes or ())]
            path = model.build(Path(folder) / f"{name}.onnx")
            equal.append(measure(name, shapes or model.SHAPES, path, options.threads, options.seconds))
    return 0 if all(equal) else 1


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].isdigit():
        serve(Connection(int(sys.argv[1])), refused)
    else:
        sys.exit(main())
