"""Models of torch under `torch.compile(dynamic=True)`: the backend anyshape beside inductor, and torch without compiling.

    PYTHONPATH=runtime:generated:. python -m benchmarks.torch_compile [bert ...] [--engines anyshape inductor eager] [--threads 1]
        [--seconds 2] [--json out.json]

It needs an environment with torch (`make test-torch` makes one). The models are those of `tests/pytorch/models.py`, small ones. Each engine
has a process of its own for each model, without caches on disk. Printed are

- first: seconds from `torch.compile` to the first result, at the first of fifty shapes;
- compiles: graphs that Dynamo compiled over all fifty shapes, which have batches of at least 2 and differ in every size;
- later: seconds that the calls of the other shapes took in which it compiled again;
- steady: microseconds of a call, once all shapes were seen: the median over rounds through all of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
SIZES = {
    "bert": ((2, 5), (1, 1)),
    "gpt": ((2, 3, 4), (1, 1, 1)),
    "t5": ((2, 5, 3), (1, 1, 1)),
    "vit": ((2, 16, 24), (1, 4, 4)),
    "convnext": ((2, 16, 24), (1, 4, 4)),
    "unet": ((2, 16, 24), (1, 4, 4)),
}
"""The smallest sizes of each model, and the steps between its sizes"""
ENGINES = ("anyshape", "inductor", "eager")
SHAPES = 50


def shapes(name: str) -> list[tuple[int, ...]]:
    """Fifty shapes of a model, of up to eight steps in each size, the same in each run."""
    least, step = SIZES[name]
    steps = list(itertools.product(range(8), repeat=len(least)))
    chosen = random.Random(0).sample(steps, SHAPES)
    return [tuple(n + k * s for n, k, s in zip(least, counts, step)) for counts in chosen]


def measured(name: str, engine: str, threads: int, seconds: float) -> dict[str, float]:
    """The figures of one model in this process."""
    import torch
    import torch._dynamo

    from tests.pytorch.models import cases

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    case = cases()[name]()
    model = case.model.eval()
    calls = [case.inputs(*sizes) for sizes in shapes(name)]
    options = {"backend": "anyshape", "options": {"threads": threads}} if engine == "anyshape" else {"backend": engine}
    with torch.no_grad():
        started = time.perf_counter()
        run = model if engine == "eager" else torch.compile(model, dynamic=True, **options)
        run(*calls[0])
        first = time.perf_counter() - started
        later = 0.0
        for args in calls[1:]:
            before, started = graphs(), time.perf_counter()
            run(*args)
            later += (time.perf_counter() - started) if graphs() > before else 0.0
        return {"first": first, "compiles": graphs(), "later": later, "steady": _steady(run, calls, seconds)}


def graphs() -> int:
    """The graphs that Dynamo compiled in this process."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _steady(run: Any, calls: list[tuple[Any, ...]], seconds: float) -> float:
    rounds: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 3:
        started = time.perf_counter()
        for args in calls:
            run(*args)
        rounds.append((time.perf_counter() - started) / len(calls))
    return 1e6 * median(rounds)


def in_a_process(name: str, engine: str, options: argparse.Namespace) -> dict[str, float]:
    """The figures of one model from a process of its own. Raises RuntimeError where it fails."""
    words = [name, "--engines", engine, "--here", "--threads", str(options.threads), "--seconds", str(options.seconds)]
    environment = {**os.environ, "ANYSHAPE_CACHE": "", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    command = [sys.executable, "-m", "benchmarks.torch_compile", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} by {engine}:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*SIZES], help=f"of {', '.join(SIZES)}; all are the default")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of the rounds for the steady time")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--here", action="store_true", help="measure one model and one engine in this process, and print JSON"
    )
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in SIZES]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}: there are {', '.join(SIZES)}")
    if options.here:
        print(json.dumps(measured(options.models[0], options.engines[0], options.threads, options.seconds)))
        return
    rows = []
    print(f"{'model':10} {'engine':10} {'first, s':>9} {'compiles':>9} {'later, s':>9} {'steady, us':>11}")
    for name, engine in itertools.product(options.models, options.engines):
        row = in_a_process(name, engine, options)
        rows.append({"model": name, "engine": engine, "threads": options.threads, **row})
        figures = f"{row['first']:9.2f} {row['compiles']:9.0f} {row['later']:9.2f} {row['steady']:11.1f}"
        print(f"{name:10} {engine:10} {figures}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
