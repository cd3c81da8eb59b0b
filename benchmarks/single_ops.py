"""Single ops and short chains beside onnxruntime, OpenVINO and, for groups that name it and one thread, IREE: given outputs, in turns.

    PYTHONPATH=runtime:generated python -m benchmarks.single_ops [transpose concat ...] [--threads 2] [--cases 512x] [--json out.json]

Every case is measured in four passes, a quarter of its time each, with all others between, and in eight more if the engines are as fast as
each other then, to one part in twenty. For each the least seconds of many short batches, the best peer's over ours, and the part of one
core's limits (multiply-adds, bytes of a copy of that working set) that ours reaches; then the geometric mean of each group and its least.
Words pick groups. These are the shapes that kernels are tuned for, some of several nodes; `benchmarks.op_audit` has every operator. A call
goes through each engine's Python interface, so the smallest cases measure that too.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from anyshape.lower.limits import measure_copy, measure_peak
from benchmarks.engines import available
from benchmarks.kept import with_kept
from benchmarks.op_engines import OpWorker
from benchmarks.patience import PATIENCE, noise, quiet
from benchmarks.single_cases import Case, cases

US = "anyshape"
PASSES = 4
"""Passes over all cases, unless asked otherwise: another guest's work goes on for seconds, longer than a case is measured, and one engine
may be worse off. Engines are made anew in each, so that none keeps pages that lie badly."""
AGAIN, CLOSE = 2, 1.05
"""Passes more over cases whose ratio is closer to 1 than CLOSE, above or below, as a multiple of the passes: these differ by as much."""
TURNS = 3
"""Turns of each engine in a pass, at least: calls of some milliseconds would have one or two in their time, and a spell be one engine's
alone."""
REPORTED_AFTER = 20
"""Cases of a pass."""
TRIES = 3
"""Times that the core's peak is measured, of which the best counts: another guest of the machine takes a third of it for some time."""
TOLERANCE = {"float32": 1e-4, "float16": 2e-3}
NAMED = {"layer norm": ("iree",), "tanh(x*s+t)": ("iree",)}
"""Groups that have a peer of their own, which is measured on one thread."""


@dataclass
class Measured:
    """One case: seconds of calls by engine, and how much our results differ from the first peer's."""

    case: Case
    workers: list[OpWorker]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    difference: float = 0.0


def measure(m: Measured, limit: float) -> None:
    """Measures one case for so many seconds, or longer (`patience.py`, `TURNS`)."""
    model, results = m.case.model().SerializeToString(), []
    for w in m.workers:
        w.compile(model)
        results.append(w.take(m.case.inputs, ["y"], False)[0].astype(np.float64))
    mine, other, *_ = results
    taken: dict[str, list[float]] = {w.name: [] for w in m.workers}
    start, turns = time.perf_counter(), 0
    while (
        turns < TURNS
        or (spent := time.perf_counter() - start) < limit
        or (spent < PATIENCE * limit and not quiet(taken.values()))
    ):
        turns += 1
        for w in m.workers:
            taken[w.name] += w.turn()
    for name, times in taken.items():
        m.seconds.setdefault(name, []).extend(times)
    size = max(1.0, float(np.abs(other).max(initial=0)))
    m.difference = max(m.difference, float(np.abs(mine - other).max(initial=0)) / size)


@functools.cache
def bandwidth(power: int) -> float:
    return measure_copy(1 << power)


def row(m: Measured, peak: float, threads: int) -> dict[str, Any]:
    case, seconds = m.case, {n: min(times) for n, times in m.seconds.items()}
    allowed = max(case.flops / peak / 1e9, case.moved / bandwidth(max(12, case.moved.bit_length())) / 1e9)
    best = min(seconds.keys() - {US}, key=lambda n: seconds[n])
    return {
        "group": case.group, "name": case.name, "seconds": seconds, "best": best, "ratio": ratio(m),
        "reached": allowed / seconds[US], "flops": case.flops, "moved": case.moved, "noise": noise(m.seconds.values()),
        "difference": m.difference, "threads": threads, "allowed": TOLERANCE[case.dtype.name],
    }  # fmt: skip


def measure_all(cases: list[Measured], limit: float, passes: int) -> None:
    """Measures all cases for so many seconds each, or longer."""
    going = cases
    for number in range(1, passes * (1 + AGAIN) + 1):
        if number == passes + 1:
            going = [m for m in cases if 1 / CLOSE < ratio(m) < CLOSE]
        for place, m in enumerate(going, 1):
            measure(m, limit / passes)
            if place % REPORTED_AFTER == 0 or place == len(going):
                print(f"pass {number}: {place} of {len(going)} cases", file=sys.stderr, flush=True)


def ratio(m: Measured) -> float:
    """The best peer's least seconds over ours."""
    return min(min(times) for name, times in m.seconds.items() if name != US) / min(m.seconds[US])


def text_of(r: dict[str, Any], names: list[str]) -> str:
    rate = r["flops"] / r["seconds"][US] / 1e9 if r["flops"] else r["moved"] / r["seconds"][US] / 1e9
    times = "".join(f"{r['seconds'][n] * 1e6:12.1f}" if n in r["seconds"] else " " * 12 for n in names)
    unit = "GFLOP/s" if r["flops"] else "GB/s"
    return f"{r['group'][:18]:18} {r['name'][:44]:44}{times} {r['ratio']:6.2f} {rate:8.1f} {unit:8} {r['reached']:5.0%}"


def picked(beginnings: list[str], pattern: str) -> Iterator[Case]:
    """Cases of groups that begin so, with names in which the pattern is found."""
    for case in cases():
        if case.group.startswith(tuple(beginnings) or "") and re.search(pattern, case.name):
            yield case


def geometric(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    by_group: dict[str, list[dict[str, Any]]] = {}
    for r in rows:
        by_group.setdefault(r["group"], []).append(r)
    return by_group


def kept(options: argparse.Namespace, anew: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = [(c.group, c.name) for c in cases()]
    return with_kept(options.json, anew, lambda r: (r["group"], r["name"]), order, options.threads)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help="beginnings of names of groups (all)")
    parser.add_argument("--cases", default="", help="a regular expression to be found in the names of cases (all)")
    parser.add_argument("--seconds", type=float, default=0.4, help="of measuring a case (0.4)")
    parser.add_argument("--passes", type=int, default=PASSES, help=f"over all cases ({PASSES})")
    parser.add_argument(
        "--engines", nargs="*", default=["onnxruntime", "openvino"], help="peers (onnxruntime openvino)"
    )
    parser.add_argument("--threads", type=int, default=1, help="of every engine (1)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--keep", action="store_true", help="with --json: cases not chosen stay as the file has them")
    options = parser.parse_args()
    names, peak = available([US, *options.engines]), max(measure_peak() for _ in range(TRIES))
    named = NAMED if options.threads == 1 else {}
    columns = list(dict.fromkeys((*names, *(n for more in named.values() for n in more))))
    print(
        f"one core: {peak:.0f} GFLOP/s\n{'':63}"
        + "".join(f"{n[:11]:>12}" for n in columns)
        + "  ratio     rate           limits"
    )
    rows, chosen = [], list(picked(options.groups, options.cases))
    with ExitStack() as stack:
        workers = {}
        asked = {case.group: [*names, *available(named.get(case.group, ()))] for case in chosen}
        for n in dict.fromkeys(n for of_group in asked.values() for n in of_group):
            workers[n] = OpWorker(n, options.threads)
            stack.callback(workers[n].end)
        cases = [Measured(case, [workers[n] for n in asked[case.group]]) for case in chosen]
        measure_all(cases, options.seconds, options.passes)
    for m in cases:
        rows.append(row(m, peak, options.threads))
        print(text_of(rows[-1], columns), flush=True)
    for group, of_group in groups(rows).items():
        ratios = [r["ratio"] for r in of_group]
        print(f"{group}: mean {geometric(ratios):.2f}, least {min(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps(kept(options, rows) if options.keep else rows, indent=1))
    wrong = [f"{r['group']} {r['name']}: {r['difference']:.1e}" for r in rows if r["difference"] > r["allowed"]]
    print("".join(f"outputs differ: {w}\n" for w in wrong), end="", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
