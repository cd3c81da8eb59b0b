"""What each policy of the run time is worth: the same calls with the policy and without it, in turns.

    PYTHONPATH=runtime:generated:. python -m benchmarks.policies [spins stalls ...] [--cases 8] [--seed 0] [--seconds 4] [--json out.json]

Two processes run each call, of which one has the policy's name in ANYSHAPE_WITHOUT (`anyshape/vm/run/policies.py`); one is stopped while
the other runs. Calls are drawn, by the seed, from what the policy is for: kernels with several parts on all processors, alone and beside a
process that computes all the time; a model at shapes that change from call to call, whose last results are held or dropped; first calls at
new shapes, in two processes that are new for each figure. Printed are the median turn (of first calls: the median process) of both and, of
ratios of neighbouring turns, with over without, the median: below 1 the policy pays. Between brackets are quartiles. The last line of a
policy is the geometric mean of the medians, and how many calls are surely faster or slower: both quartiles are below 1, or above.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import anyshape
from anyshape.processors import usable_processors
from anyshape.vm.run.policies import VARIABLE, Policy
from benchmarks.checkouts import HERE, Call, Checkout
from benchmarks.models import Arrays, load
from benchmarks.models_bench import mean
from benchmarks.oversubscribed import TURN, busy
from benchmarks.single_cases import Case, cases
from benchmarks.turns import Row, differ, line, measure, show, tell

SMALL = ("mlp", "shape_heavy")
MODELS = (*SMALL, "bert_mini", "gpt2")
CHANGES = 12
"""Number of shapes of a stream of calls."""
LARGE = 1 << 20
"""Bytes of a result that the store would have."""
FEW = 1 << 20
"""Bytes and operations of a small call together."""
WARM = 0.05
"""Seconds of calls at one shape before first calls at others."""


@dataclass(frozen=True)
class Drawing:
    """What calls are drawn from. `models`: names that may be drawn; `folder`: where their files are."""

    rng: Random
    models: Sequence[str]
    folder: Path

    def model(self, name: str) -> Path:
        path = self.folder / f"{name}.onnx"
        if not path.exists():
            tell(f"building {name}")
            load(name).build(path)
        return path

    def inputs(self, name: str) -> tuple[str, Arrays]:
        """Draws a shape between the model's smallest and largest, with no more elements than its largest has, and inputs of it."""
        model = load(name)
        most = max(map(math.prod, model.SHAPES))
        while True:
            batch, length = (self._between(min(n), max(n)) for n in zip(*model.SHAPES, strict=True))
            if batch * length <= most:
                return f"{batch}x{length}", model.inputs(batch, length, seed=self.rng.randrange(1 << 16))

    def _between(self, least: int, most: int) -> int:
        """Draws a number; small ones are as likely as large ones: the logarithm is drawn."""
        return round(math.exp(self.rng.uniform(math.log(least), math.log(most))))

    def case(self, fits: Callable[[Case], bool] = lambda _: True) -> Call:
        """Draws a call of a single op."""
        c = self.rng.choice([c for c in _cases() if fits(c)])
        return Call(f"{c.group} {c.name}", c.model().SerializeToString(), c.inputs, {})


@cache
def _cases() -> list[Case]:
    return cases()


def shared(d: Drawing) -> Call:
    """Draws a call whose kernels may have several parts."""
    while True:
        call = d.case() if d.rng.random() < 0.5 else steady(d)
        model: Any = call.model
        if "share " in anyshape.compile(model, threads=2).disassemble():
            return call


def steady(d: Drawing) -> Call:
    """Draws a call of a model at one shape."""
    name = d.rng.choice(d.models)
    shape, inputs = d.inputs(name)
    return Call(f"{name} {shape}", d.model(name), inputs, {})


def small(d: Drawing) -> Call:
    """Draws a call whose kernels take little: a small model, or an op on few bytes."""
    few = Drawing(d.rng, SMALL, d.folder)
    return steady(few) if d.rng.random() < 0.5 else d.case(lambda c: c.moved + c.flops < FEW)


def stream(d: Drawing, held: tuple[int, ...] = (0,), name: str | None = None) -> Call:
    """Draws calls of a model at shapes that change from call to call."""
    name = name or d.rng.choice(d.models)
    first, *following = (d.inputs(name)[1] for _ in range(CHANGES))
    count = d.rng.choice(held)
    title = f"{name} at {CHANGES} shapes" + f", {count} held" * bool(count)
    return Call(title, d.model(name), first, {}, following, count)


def large_results(d: Drawing) -> Call:
    """Draws a call of an op with a result of a mebibyte or more; of the last three calls the caller has some."""
    call = d.case(lambda c: math.prod(c.shape) * c.dtype.itemsize >= LARGE)
    held = d.rng.choice((0, 1, 3))
    return Call(call.name + f", {held} held" * bool(held), call.model, call.inputs, {}, (), held)


def large_cache(d: Drawing) -> Call:
    """Draws calls of the decoder, whose results are its cache."""
    return stream(d, name="gpt2" if "gpt2" in d.models else None)


@dataclass(frozen=True)
class Plan:
    """How a policy is measured. `threads`: 0 for as many as there are processors; `beside`: processes that compute meanwhile; `first`:
    first calls are measured, not turns."""

    draw: Callable[[Drawing], Call]
    threads: int = 1
    beside: tuple[int, ...] = (0,)
    first: bool = False


SHARED = Plan(shared, threads=0, beside=(0, 1))
PLANS = {
    Policy.AFFINITY: SHARED,
    Policy.STALLS: SHARED,
    Policy.SPINS: SHARED,
    Policy.ALLOCATOR: Plan(partial(stream, held=(0, 1, 3))),
    Policy.STORE: Plan(large_results),
    Policy.AHEAD: Plan(large_cache, first=True),
    Policy.READING: Plan(stream, first=True),
    Policy.MAPPING: Plan(stream, first=True),
    Policy.ENTRY: Plan(small),
}


@contextmanager
def both(policy: Policy, threads: int) -> Iterator[tuple[Checkout, Checkout]]:
    """Starts two processes, without the policy and with it."""
    with ExitStack() as stack:
        pair = []
        for names in (policy, ""):
            pair.append(Checkout(HERE, threads, {VARIABLE: names}))
            stack.callback(pair[-1].end)
        yield pair[0], pair[1]


def first_calls(call: Call, policy: Policy, threads: int, rounds: int) -> Row:
    """Measures first calls in two new processes each round; the one that is asked first changes."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for k in range(rounds):
        with both(policy, threads) as pair:
            order = [0, 1] if k % 2 else [1, 0]
            for place in order:
                pair[place].take(call)
                seconds[place].append(pair[place].first_calls(WARM))
            difference = differ(*(process.results() for process in pair))
    return Row(call.name, *seconds, difference)


def measured(policy: Policy, call: Call, beside: int, options: argparse.Namespace) -> Row:
    """Measures the call with and without the policy, beside so many processes that compute."""
    plan = PLANS[policy]
    threads = plan.threads or max(2, usable_processors())
    with busy(beside):
        if plan.first:
            return first_calls(call, policy, threads, options.processes)
        with both(policy, threads) as (without, with_):
            return measure(call, without, with_, options.seconds, options.turn)


def verdict(rows: Sequence[Row]) -> dict[str, float]:
    """The geometric mean of the rows' medians, and how many rows are surely below 1, and above."""
    quartiles = [quantiles(row.ratios, n=4, method="inclusive") for row in rows]
    return {
        "mean": mean(middle for _, middle, _ in quartiles),
        "faster": sum(high < 1 for _, _, high in quartiles),
        "slower": sum(low > 1 for low, _, _ in quartiles),
        "cases": len(rows),
    }


def compare(policy: Policy, drawing: Drawing, options: argparse.Namespace) -> dict[str, Any]:
    """The table of a policy; prints as it goes."""
    plan = PLANS[policy]
    print(f"\n{line(policy, 'without, us', 'with, us', 'with / without')}", flush=True)
    rows, described = [], []
    for _ in range(options.cases):
        call = plan.draw(drawing)
        for beside in plan.beside[:1] if options.quick else plan.beside:
            row = measured(policy, call, beside, options)
            if beside:
                row = Row(f"{row.name}, beside {beside}", row.other, row.here, row.difference)
            print(show(row), flush=True)
            rows.append(row)
            described.append({**asdict(row), "beside": beside})
    summary = verdict(rows)
    print(
        f"{policy}: with over without {summary['mean']:.3f} in the geometric mean; "
        f"{summary['faster']} of {summary['cases']} surely faster, {summary['slower']} surely slower",
        flush=True,
    )
    return {"policy": policy, **summary, "rows": described}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="*", metavar="POLICY", help=f"of {', '.join(Policy)}; all by default")
    parser.add_argument("--cases", type=int, default=8, help="drawn for each policy (8)")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing (0)")
    parser.add_argument("--seconds", type=float, default=4, help="of turns of a case (4)")
    parser.add_argument("--turn", type=float, default=TURN, help=f"seconds of a turn ({TURN:g})")
    parser.add_argument("--processes", type=int, default=12, help="with and without, for first calls (12)")
    parser.add_argument("--quick", action="store_true", help="one small case each, to see that it runs")
    parser.add_argument("--json", type=Path, help="write all seconds here")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    if unknown := sorted(set(options.policies) - set(Policy)):
        parser.error(f"there is no policy {', '.join(unknown)}; there are {', '.join(Policy)}")
    if os.environ.get(VARIABLE):
        parser.error(f"{VARIABLE} is set: both processes would be without {os.environ[VARIABLE]}")
    if options.quick:
        options.cases, options.seconds, options.turn, options.processes = 1, 0.02, 0.002, 2
    models, tables = SMALL if options.quick else MODELS, []
    with tempfile.TemporaryDirectory() as folder:
        for policy in map(Policy, options.policies or Policy):
            drawing = Drawing(Random(f"{options.seed} {policy}"), models, Path(folder))
            tables.append(compare(policy, drawing, options))
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1))


if __name__ == "__main__":
    sys.exit(main())
