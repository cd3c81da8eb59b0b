"""What polls cost: calls of kernels that test whether they are to stop, beside the same kernels without the tests.

    PYTHONPATH=runtime:generated:. python -m benchmarks.poll_cost [REGEX] [--seconds 2]

Cases are the single ops of `benchmarks.single_ops` and the models of `benchmarks.models` at their largest shape of which a kernel polls
(`anyshape/lower/llvm/polling.py`). Each is compiled twice, the second time with polls that emit nothing; both executables run in turns in
one process, on one thread. Printed are the median turn of each in microseconds and, of ratios of neighbouring turns (with polls over
without), the median; between brackets quartiles. The last line is the geometric mean of the medians.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import anyshape
from anyshape.lower.llvm.polling import Polls
from benchmarks.checkouts import Call
from benchmarks.models import MODELS
from benchmarks.models_bench import mean
from benchmarks.single_cases import cases
from benchmarks.turns import line, of_model, scatter

TURN = 0.02
"""Seconds of calls in one turn."""
Run = Callable[[], object]


def calls(words: str, folder: Path) -> Iterator[Call]:
    """The single ops and models of which the name holds the regular expression."""
    for c in cases():
        if re.search(words, f"{c.group} {c.name}"):
            yield Call(f"{c.group} {c.name}", c.model().SerializeToString(), c.inputs, {})
    for name in MODELS:
        if re.search(words, name):
            yield of_model(name, folder)[-1]


def compiled(call: Call, *, polls: bool) -> tuple[Run, int]:
    """A call of the compiled model, and how many polls its kernels would have."""
    emitted = 0
    emit = Polls.poll

    def counted(self: Polls) -> None:
        nonlocal emitted
        emitted += 1
        if polls:
            emit(self)

    with patch.object(Polls, "poll", counted):
        exe = anyshape.compile(call.model, threads=1)
    return lambda: exe.run(call.inputs), emitted


def turn(run: Run, count: int) -> float:
    """Seconds of a call, as the mean of so many."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def measure(runs: list[Run], seconds: float) -> list[list[float]]:
    """The turns of each, one after the other and back, so that none always comes first."""
    for run in runs:
        run()
    count = max(1, round(TURN / turn(runs[0], 3)))
    times: list[list[float]] = [[] for _ in runs]
    order, end = list(range(len(runs))), time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for k in order:
            times[k].append(turn(runs[k], count))
        order.reverse()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="?", default="", help="a regular expression that is found in the name of a case")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case")
    args = parser.parse_args()
    print(line("", "without polls, us", "with polls, us", "with / without"))
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for call in calls(args.words, Path(folder)):
            run, emitted = compiled(call, polls=True)
            if emitted:
                without, polling = measure([compiled(call, polls=False)[0], run], args.seconds)
                pairs = [p / w for p, w in zip(polling, without, strict=True)]
                before, after = (scatter([t * 1e6 for t in times], ".1f") for times in (without, polling))
                print(line(call.name[:44], before, after, scatter(pairs, ".3f")), flush=True)
                ratios.append(median(pairs))
    if not ratios:
        parser.error(f"no case whose kernels poll has {args.words!r} in its name")
    print(line(f"geometric mean of {len(ratios)}", "", "", f"{mean(ratios):.4f}"))


if __name__ == "__main__":
    main()
