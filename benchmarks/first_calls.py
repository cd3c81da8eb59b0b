"""First calls at a new shape in a process that made no other executable, beside onnxruntime's and OpenVINO's.

    PYTHONPATH=runtime:generated:. python -m benchmarks.first_calls [gpt2 ...] [--threads 1] [--processes 12] [--json out.json]

`benchmarks.models_bench` makes engine after engine in one process, where memory that one engine used is there for the next. Here each
engine is the first of its process: what a call has to wait for, until the system gives it memory that nobody touched before, is in the
figure, and code that no processor ran before; what the process freed until then is given back first. As there, an engine that is warm at
one shape goes through all others in some order, and then again, with other data; printed is the first call over later ones of the same
process, medians over the processes, p50 and p95 over the shapes, the same of second calls, and the shape at which a first call costs
most. An engine whose medians are not known then (`patience.py`) has more processes, up to four times as many, for a minute at most.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks import streams
from benchmarks.engines import available
from benchmarks.models import MODELS, load
from benchmarks.patience import PATIENCE, known
from benchmarks.workers import workers

USUAL = ("gpt2", "bert_mini", "mlp", "shape_heavy", "detection")
ENGINES = ("anyshape", "onnxruntime", "openvino")
SECONDS = 60.0
"""Seconds that processes of one engine may take, after which it has no more of them than it was asked for."""


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    model = load(name)
    path = model.build(folder / f"{name}.onnx")
    calls = {shape: [model.inputs(*shape, seed=1 + k) for k in range(streams.DATA)] for shape in model.SHAPES}
    names = available(ENGINES)
    seconds_of: dict[str, dict[streams.Shape, list[tuple[float, float]]]] = {n: {s: [] for s in calls} for n in names}
    order, rng = list(calls), random.Random(0)
    spent = dict.fromkeys(names, 0.0)
    for k in range(PATIENCE * options.processes):
        rng.shuffle(order)
        going = [n for n in names if k < options.processes or (spent[n] < SECONDS and not settled(seconds_of[n]))]
        for engine in going:
            started = time.perf_counter()
            with workers([engine], path, options.threads, calls) as (process,):
                for shape, new, again in streams.over_later(order, process.first_of_process(order)):
                    seconds_of[engine][shape].append((new, again))
            spent[engine] += time.perf_counter() - started
        if going:
            print(f"{name}: process {k + 1} of {', '.join(going)}", flush=True)
    path.unlink()
    rows = {n: summary(by_shape) for n, by_shape in seconds_of.items()}
    return {"model": name, "threads": options.threads, "processes": options.processes, "engines": rows}


def settled(by_shape: dict[streams.Shape, list[tuple[float, float]]]) -> bool:
    """Whether the medians of all first calls are known."""
    return all(known([new for new, _ in pairs]) for pairs in by_shape.values())


def summary(by_shape: dict[streams.Shape, list[tuple[float, float]]]) -> dict[str, Any]:
    """A shape that was in front each time has no figure."""
    first = {s: median(new for new, _ in pairs) for s, pairs in by_shape.items() if pairs}
    second = [median(again for _, again in pairs) for pairs in by_shape.values() if pairs]
    worst = max(first, key=lambda s: first[s])
    return {
        "first": streams.points([*first.values()]), "second": streams.points(second), "worst": [*worst, first[worst]]
    }  # fmt: skip


def show(row: dict[str, Any]) -> str:
    lines = [
        f"{row['model']}, {row['threads']} thread{'s' * (row['threads'] > 1)}: p50 / p95 of first, of second; worst"
    ]
    for engine, r in row["engines"].items():
        batch, length, worst = r["worst"]
        both = "   ".join(f"{p['p50']:6.2f} / {p['p95']:6.2f}" for p in (r["first"], r["second"]))
        lines.append(f"  {engine:12} {both}   {worst:6.2f} at {batch}x{length}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(USUAL), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--threads", type=int, default=1, help="of every engine (1)")
    parser.add_argument("--processes", type=int, default=12, help="of each engine, at least (12)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            rows.append(measure(name, Path(folder), options))
            print(show(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
