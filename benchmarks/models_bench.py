"""Whole models beside onnxruntime, one thread, in one process, contenders in turns: steady calls at every listed shape.

    PYTHONPATH=runtime:generated python -m benchmarks.models_bench [bert_mini mlp ...] [--json out.json]

Prints, per shape, the least seconds of several batches of each, their ratio, and the largest difference; then the geometric
mean, what was compiled after the first call (nothing should be), and the noise seen (median over least).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import onnxruntime

import anyshape
from benchmarks.models import MODELS, load

SAMPLES = 7
SAMPLE_SECONDS = 0.02


def peer(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def samples(calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Seconds per call of each contender, SAMPLES batches each, interleaved."""
    repeats = {}
    for name, call in calls.items():
        call()
        started = time.perf_counter()
        call()
        repeats[name] = max(1, int(SAMPLE_SECONDS / (time.perf_counter() - started)))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(SAMPLES):
        for name, call in calls.items():
            started = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            found[name].append((time.perf_counter() - started) / repeats[name])
    return found


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One model at all its shapes; prints as it goes."""
    model = load(name)
    path = model.build(folder / f"{name}.onnx")
    started = time.perf_counter()
    executable = anyshape.compile(path, threads=1)
    compiled = time.perf_counter() - started
    session = peer(path)
    rows = []
    print(
        f"\n{name}: compiled in {compiled:.2f} s\n  {'shape':>9} {'anyshape':>11} {'onnxruntime':>12} {'ratio':>6}  difference"
    )
    for batch, length in model.SHAPES:
        arguments = model.inputs(batch, length, seed=1)
        ours, theirs = executable.run(arguments), session.run(None, arguments)
        difference = max(float(np.abs(a - b).max(initial=0)) for a, b in zip(ours, theirs, strict=True))
        times = samples({
            "anyshape": lambda a=arguments: executable.run(a),
            "onnxruntime": lambda a=arguments: session.run(None, a),
        })  # fmt: skip
        mine, other = min(times["anyshape"]), min(times["onnxruntime"])
        noise = max(statistics.median(t) / min(t) for t in times.values())
        rows.append(
            {
                "batch": batch,
                "length": length,
                "anyshape": mine,
                "onnxruntime": other,
                "difference": difference,
                "noise": noise,
            }
        )
        print(
            f"  {f'{batch}x{length}':>9} {mine * 1e3:8.3f} ms {other * 1e3:9.3f} ms {other / mine:6.2f}  {difference:.1e}",
            flush=True,
        )
    ratios = [r["onnxruntime"] / r["anyshape"] for r in rows]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    late = executable.compiled_after_first_call
    print(
        f"  onnxruntime / anyshape: geometric mean {mean:.2f}, least {min(ratios):.2f}; {late} kernels compiled after the first call"
    )
    print(f"  noise (median over least): up to {max(r['noise'] for r in rows):.2f}")
    return {
        "model": name,
        "compile": compiled,
        "rows": rows,
        "mean": mean,
        "least": min(ratios),
        "compiled_after_first_call": late,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["bert_mini"], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(name, Path(folder)) for name in options.models]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
