"""Models compiled for bf16 and f16 beside the exact ones: errors against float64, and times of calls in turns.

    PYTHONPATH=runtime:generated:. python -m benchmarks.precision [bert_mini ...] [--times] [--openvino] [--every-shape] [--target fp16]

In: the models of benchmarks at their second shape, or at every one with `--every-shape`, and those of the zoo at their last. Out: for
each the errors of `benchmarks.accuracy` of all precisions and the nodes that are narrowed; with `--times`, the least time of many calls,
which take turns. `--openvino`: the same of OpenVINO in each precision that its CPU plugin has on this machine, by INFERENCE_PRECISION_HINT.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import anyshape
from anyshape.lower import target
from anyshape.precision import NARROW, PRECISIONS
from anyshape.vm.compiling.options import TARGETS, TargetName
from benchmarks.accuracy import NO_ROUNDING, error, exact, models
from benchmarks.models import Arrays

ROUNDS, SECONDS = 7, 0.3
"""Turns of each, and how long one lasts."""


Run = Callable[[Arrays], list[Any]]
HINTS = {"exact": "f32", **{p: p for p in NARROW}}
"""What OpenVINO calls precisions"""


@lru_cache(maxsize=1)  # the shapes of a model follow each other
def compiled_by_openvino(path: Path, threads: int) -> dict[str, Run]:
    """Compiles a model in the precisions that the CPU plugin has here."""
    import openvino

    core = openvino.Core()
    has = {"exact": "FP32", "bf16": "BF16", "f16": "FP16"}
    here = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    limits = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    model = core.read_model(path)

    def run_of(precision: str) -> Run:
        options = {**limits, "INFERENCE_PRECISION_HINT": HINTS[precision]}
        request = core.compile_model(model, "CPU", options).create_infer_request()

        def run(arguments: Arrays) -> list[Any]:
            results = request.infer(dict(arguments))
            return [np.asarray(results[k]) for k in range(len(model.outputs))]

        return run

    return {p: run_of(p) for p in PRECISIONS if has.get(p) in here}


def least_times(runs: Mapping[str, Run], arguments: Arrays) -> dict[str, float]:
    """Measures the seconds of the fastest call of each."""
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, run in runs.items():
            end = time.perf_counter() + SECONDS
            while (start := time.perf_counter()) < end:
                run(arguments)
                least[name] = min(least[name], time.perf_counter() - start)
    return least


@lru_cache(maxsize=1)  # the shapes of a model follow each other
def compiled(path: Path, threads: int, level: TargetName) -> dict[str, anyshape.Executable]:
    """A model in each precision, for a level of instructions."""
    return {p: anyshape.compile(path, precision=p, threads=threads, target=level) for p in PRECISIONS}


def row(path: Path, arguments: Arrays, options: argparse.Namespace) -> str:
    """The lines of one model. Raises what the reference raises for an operator that it has not."""
    executables = compiled(path, options.threads, options.target)
    known = {name: arguments[name] for name in executables["exact"].input_names}
    expected = exact(path, known)
    errors = {p: error(e.run(known), expected) for p, e in executables.items()}
    if errors["exact"] > NO_ROUNDING:
        return "onnx's reference gives something else"
    line = " ".join(f"{errors[p]:11.2e}" for p in PRECISIONS) + f" {len(executables['bf16'].report.narrowed):9}"
    theirs = compiled_by_openvino(path, options.threads) if options.openvino else {}
    ours: dict[str, Run] = {p: executable.run for p, executable in executables.items()}
    seconds = least_times({**ours, **{f"their {p}": run for p, run in theirs.items()}}, known) if options.times else {}
    if seconds:
        line += "".join(f" {seconds[p] * 1e3:14.3f}" for p in PRECISIONS)
        line += "".join(f" {seconds['exact'] / seconds[p]:11.2f}" for p in NARROW)
    if theirs:
        line += f"\n{'  openvino':28} " + " ".join(
            f"{error(theirs[p](known), expected):11.2e}" if p in theirs else f"{'-':>11}" for p in PRECISIONS
        )
    if theirs and seconds:
        line += " " * 10 + "".join(
            f" {seconds[f'their {p}'] * 1e3:14.3f}" if p in theirs else f" {'-':>14}" for p in PRECISIONS
        )
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="all, unless some are named")
    parser.add_argument("--times", action="store_true", help="measure calls, too")
    parser.add_argument("--openvino", action="store_true", help="OpenVINO in the same precisions, too")
    parser.add_argument("--threads", type=int, default=1, help="the most threads of a call (1)")
    parser.add_argument("--every-shape", action="store_true", help="the models of benchmarks at all of their shapes")
    parser.add_argument(
        "--slow-pairs", action="store_true", help="as if the processor multiplied pairs of bf16 more slowly than f32"
    )
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default="host",
        help="the instructions of compiled models (host); those of amx and fp16 are emulated",
    )
    options = parser.parse_args()
    if options.slow_pairs:  # before anything asks for the target
        mock.patch.object(target, "are_pairs_slow", lambda *names: True).start()
    head = [f"{p:>11}" for p in PRECISIONS] + [f"{'narrowed':>9}"]
    timed = [f"{f'{p} ms':>14}" for p in PRECISIONS] + [f"{p:>11}" for p in NARROW]
    print(" ".join([f"{'model':28}", *head, *timed * options.times]))
    with tempfile.TemporaryDirectory() as folder:
        for name, build in models(Path(folder), every_shape=options.every_shape):
            if options.models and name.split()[0] not in options.models:
                continue
            try:
                line = row(*build(), options)
            except (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError) as e:
                line = f"onnx's reference cannot run it in f64: {type(e).__name__}: {str(e).splitlines()[0][:80]}"
            print(f"{name:28} {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
