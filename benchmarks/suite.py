"""`make bench` and `make performance`: all parts one after the other, each in a process of its own that may take a limited time.

    PYTHONPATH=runtime:generated:. python -m benchmarks.suite bench|performance [--quick]

Figures go to benchmarks/results/*.json, pictures beside them; `performance` then writes docs/performance.md from what is there. A part
that fails or takes too long is told at the end, with exit code 1, and the others run all the same. `--quick` measures as little as shows
that every part works.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models import MODELS

RESULTS = Path(__file__).with_name("results")
SMALL = ("mlp", "shape_heavy")
LARGE = ("bert_base",)
"""Models that come last, should the time run out."""


@dataclass(frozen=True)
class Part:
    """A module of this package with arguments; `limit` in seconds."""

    name: str
    module: str
    arguments: tuple[str, ...]
    limit: float


def part(name: str, module: str, limit: float, *arguments: object, json: bool = True) -> Part:
    kept = ("--json", str(RESULTS / f"{name}.json")) if json else ()
    return Part(name, f"benchmarks.{module}", (*map(str, arguments), *kept), limit)


def plot(name: str) -> Part:
    return part(f"{name}, picture", "plot", 30, RESULTS / f"{name}.json", RESULTS / f"{name}.svg", json=False)


def bench(quick: bool) -> Iterator[Part]:
    """Yields the parts of `make bench`, which take at most nine minutes."""
    models = SMALL if quick else tuple(m for m in MODELS if m not in LARGE)
    yield part("models", "models_bench", 180, *models, "--seconds", 1 if quick else 6, "--errors")
    yield plot("models")
    few = ("gather",) if quick else ()
    yield part("single_ops", "single_ops", 270, *few, "--seconds", 0.05 if quick else 0.1, "--passes", 1)
    yield part("compile_time", "compile_time", 40, *(("mlp",) if quick else ("bert_mini",)), "--repeat", 1)
    yield part("vm_loop", "vm_loop", 25, *(("mlp",) if quick else ()))
    yield part("call_overhead", "call_overhead", 20)


def performance(quick: bool) -> Iterator[Part]:
    """Yields the parts that measure performance: some two hours on a quiet machine, of which `op_audit` takes half."""
    models = SMALL if quick else (*(m for m in MODELS if m not in LARGE), *LARGE)
    seconds = 1 if quick else 5
    yield part("one_thread", "models_bench", 1800, *models, "--seconds", seconds, "--errors")
    yield part(
        "all_threads", "models_bench", 1800, *models, "--seconds", 1 if quick else 3, "--threads", os.cpu_count() or 1
    )
    few = ("gather", "concat") if quick else ()
    for name, threads in (("single_ops", 1), ("single_ops_all_threads", os.cpu_count() or 1)):
        yield part(name, "single_ops", 1200, *few, "--seconds", 0.05 if quick else 0.4, "--threads", threads)
    few = ("--operator", "Gather", "--operator", "Concat", "--quick") if quick else ()
    for name, threads in (("op_audit", 1), ("op_audit_all_threads", os.cpu_count() or 1)):
        yield part(name, "op_audit", 3600, *few, "--threads", threads)
    few = ("wav2vec", "--quick") if quick else ()
    for name, threads in (("networks", 1), ("networks_all_threads", os.cpu_count() or 1)):
        yield part(name, "networks", 600, *few, "--threads", threads)
    yield part("first_calls", "first_calls", 1200, *(SMALL if quick else ()), "--processes", 1 if quick else 12)
    yield part("decoding", "decoding", 60, *(("--steps", 5, "--rounds", 1) if quick else ()))
    yield part("call_overhead", "call_overhead", 20)
    yield part("bounds", "bounds", 80, *models)
    yield part("oversubscribed", "oversubscribed", 50, *(("mlp",) if quick else ()), "--seconds", 0.1 if quick else 2)
    yield part(
        "compile_time",
        "compile_time",
        90,
        *(("mlp",) if quick else ("mlp", "bert_mini", "resnet18", *LARGE)),
        "--repeat",
        1,
    )
    yield part("memory", "memory", 80, *(("mlp",) if quick else models), "--brief")
    yield plot("one_thread")
    yield plot("single_ops")
    yield part("page", "performance_page", 20, RESULTS, json=False)


PLANS = {"bench": bench, "performance": performance}


def run(p: Part) -> str:
    """What went wrong, or nothing."""
    try:
        done = subprocess.run([sys.executable, "-m", p.module, *p.arguments], timeout=p.limit, check=False)
    except subprocess.TimeoutExpired:
        return f"{p.name} took more than {p.limit:.0f} s and was stopped"
    return f"{p.name} ended with code {done.returncode}" if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    parts, started, wrong = list(PLANS[options.plan](options.quick)), time.monotonic(), []
    for p in parts:
        (RESULTS / f"{p.name}.json").unlink(missing_ok=True)
    for k, p in enumerate(parts, 1):
        print(
            f"\n[{k}/{len(parts)}] {p.name} (at most {p.limit:.0f} s; {time.monotonic() - started:.0f} s so far)",
            flush=True,
        )
        wrong += filter(None, [run(p)])
    print(f"\n{options.plan}: {time.monotonic() - started:.0f} s; figures and pictures are in {RESULTS}")
    print("".join(f"  {w}\n" for w in wrong), end="")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
