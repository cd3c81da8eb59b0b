"""Models compiled for bf16 and f16 beside the exact ones: errors against float64, and times of calls in turns.

    PYTHONPATH=runtime:generated:. python -m benchmarks.precision [bert_mini resnet18 ...] [--times] [--threads 1]

In: the models of benchmarks at their second shape, and those of the zoo at their last. Out: for each the errors of `benchmarks.accuracy` of
all precisions and the nodes that are narrowed; with `--times`, the least time of many calls, which take turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import anyshape
from anyshape.precision import NARROW, PRECISIONS
from benchmarks.accuracy import NO_ROUNDING, error, exact, models
from benchmarks.models import Arrays

ROUNDS, SECONDS = 7, 0.3
"""Turns of each, and how long one lasts."""


def least_times(executables: dict[str, anyshape.Executable], arguments: Arrays) -> dict[str, float]:
    """Measures the seconds of the fastest call of each."""
    least = dict.fromkeys(executables, float("inf"))
    for _ in range(ROUNDS):
        for name, executable in executables.items():
            end = time.perf_counter() + SECONDS
            while (start := time.perf_counter()) < end:
                executable.run(arguments)
                least[name] = min(least[name], time.perf_counter() - start)
    return least


def row(path: Path, arguments: Arrays, threads: int, timed: bool) -> str:
    """The line of one model. Raises what the reference raises for an operator that it has not."""
    executables = {p: anyshape.compile(path, precision=p, threads=threads) for p in PRECISIONS}
    known = {name: arguments[name] for name in executables["exact"].input_names}
    expected = exact(path, known)
    errors = {p: error(e.run(known), expected) for p, e in executables.items()}
    if errors["exact"] > NO_ROUNDING:
        return "onnx's reference gives something else"
    line = " ".join(f"{errors[p]:10.2e}" for p in PRECISIONS) + f" {len(executables['bf16'].report.narrowed):9}"
    if timed:
        seconds = least_times(executables, known)
        line += "".join(f" {seconds[p] * 1e3:10.3f}" for p in PRECISIONS)
        line += "".join(f" {seconds['exact'] / seconds[p]:6.2f}" for p in NARROW)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="all, unless some are named")
    parser.add_argument("--times", action="store_true", help="measure calls, too")
    parser.add_argument("--threads", type=int, default=1, help="the most threads of a call (1)")
    options = parser.parse_args()
    head = [f"{p:>10}" for p in PRECISIONS] + [f"{'narrowed':>9}"]
    timed = [f"{f'{p} ms':>10}" for p in PRECISIONS] + [f"{p:>6}" for p in NARROW]
    print(" ".join([f"{'model':28}", *head, *timed * options.times]))
    with tempfile.TemporaryDirectory() as folder:
        for name, build in models(Path(folder)):
            if options.models and name not in options.models:
                continue
            try:
                line = row(*build(), options.threads, options.times)
            except (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError) as e:
                line = f"onnx's reference cannot run it in f64: {type(e).__name__}: {str(e).splitlines()[0][:80]}"
            print(f"{name:28} {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
