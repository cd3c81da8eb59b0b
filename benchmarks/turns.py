"""Measures this checkout beside another one: the same calls on the code of both, each in a process of its own, in turns.

    PYTHONPATH=runtime:generated:. python -m benchmarks.turns OTHER CASE... [--threads 1] [--beside 0] [--seconds 4]

OTHER is the folder of another checkout. What a commit brought, beside the commit before it:

    git worktree add ../before COMMIT~
    python -m benchmarks.turns ../before "transpose 1001x777" gpt2@1x33 --threads 2

and what another value of a constant would bring: change it in such a worktree. A CASE is a model of `benchmarks/models` at all its shapes
(`gpt2`) or at one (`gpt2@1x33`), or a regular expression that is found in the group and name of single ops as `benchmarks.single_ops`
prints them ("^transpose", "f16 gemm 8x"). Models and arguments are made by this checkout for both.

A turn is calls for some time, of which the first quarter does not count; it has one figure, their mean. The two go there and back, so that
none always follows the other, and one is stopped while the other runs. Printed are the median turn of each and, of ratios of neighbouring
turns (here over other: below 1 this checkout is faster), the median; between brackets quartiles. `--beside` is how many processes do
nothing but compute meanwhile: a turn has to be longer than several time slices of the system then, as it is by default.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles

import numpy as np

from benchmarks.checkouts import HERE, ROOMS, Call, Checkout
from benchmarks.lines import Array
from benchmarks.models import MODELS, load
from benchmarks.oversubscribed import TURN, busy
from benchmarks.single_cases import cases

LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """Seconds of a call in each turn; `difference`: of results, as a part of the largest number in them (or of 1)."""

    name: str
    other: list[float]
    here: list[float]
    difference: float

    @property
    def ratios(self) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.here, self.other, strict=True)]


def chosen(words: Sequence[str], folder: Path) -> list[Call]:
    """Builds the calls that the words name, in their order; files of models are built in the folder."""
    return [call for w in words for call in (of_model(w, folder) if w.partition("@")[0] in MODELS else of_ops(w))]


def of_model(word: str, folder: Path) -> list[Call]:
    name, _, shape = word.partition("@")
    model = load(name)
    path = folder / f"{name}.onnx"
    if not path.exists():
        tell(f"building {name}")
        model.build(path)
    shapes = [shape_of(shape)] if shape else model.SHAPES
    return [Call(f"{name} {batch}x{length}", path, model.inputs(batch, length), {}) for batch, length in shapes]


def shape_of(text: str) -> tuple[int, int]:
    sizes = re.fullmatch(r"(\d+)x(\d+)", text)
    if sizes is None:
        raise ValueError(f"{text!r} is no shape of a model such as 1x33")
    return int(sizes[1]), int(sizes[2])


def of_ops(word: str) -> list[Call]:
    every = cases()
    matching = [case for case in every if re.search(word, f"{case.group} {case.name}")]
    if not matching:
        groups = ", ".join(dict.fromkeys(case.group for case in every))
        raise ValueError(f"{word!r} is no model ({', '.join(MODELS)}), nor found in the name of a single op ({groups})")
    return [
        Call(f"{c.group} {c.name}", c.model().SerializeToString(), c.inputs, {"y": (c.shape, c.dtype.name)})
        for c in matching
    ]


def measure(call: Call, other: Checkout, here: Checkout, seconds: float, turn: float) -> Row:
    both = (other, here)
    for checkout in both:
        checkout.take(call)
    difference = differ(*(checkout.results() for checkout in both))
    turns: dict[Checkout, list[float]] = {checkout: [] for checkout in both}
    order, end = list(both), time.perf_counter() + seconds
    while time.perf_counter() < end or len(turns[here]) < LEAST_ROUNDS:
        for checkout in order:
            turns[checkout].append(checkout.turn(turn))
        order.reverse()
    return Row(call.name, turns[other], turns[here], difference)


def differ(theirs: Sequence[Array], ours: Sequence[Array]) -> float:
    largest = 0.0
    for a, b in zip(theirs, ours, strict=True):
        if not np.array_equal(a, b, equal_nan=True):
            a, b = a.astype(np.float64), b.astype(np.float64)
            largest = max(largest, float(np.abs(a - b).max() / max(1.0, np.abs(a).max())))
    return largest


def show(row: Row) -> str:
    other, here = (scatter([t * 1e6 for t in times], ".1f") for times in (row.other, row.here))
    note = f"   results differ by {row.difference:.1e}" if row.difference else ""
    return line(row.name[:44], other, here, scatter(row.ratios, ".2f")) + note


def line(name: str, other: str, here: str, ratio: str) -> str:
    return f"{name:44} {other:>28} {here:>28} {ratio:>22}"


def scatter(figures: Sequence[float], form: str) -> str:
    """The median, and quartiles between brackets."""
    low, middle, high = (f"{q:{form}}" for q in quantiles(figures, n=4, method="inclusive"))
    return f"{middle} [{low} to {high}]"


def tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def named(folder: Path) -> str:
    """The folder and the commit that it is at."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return str(folder)
    return f"{folder} ({done.stdout.strip()})" if done.returncode == 0 else str(folder)


def compare(other: Path, calls: Sequence[Call], options: argparse.Namespace) -> list[Row]:
    """Measures the calls on both checkouts; prints as it goes."""
    rows = []
    with ExitStack() as stack:
        both = []
        for checkout in (other, HERE):
            both.append(Checkout(checkout, options.threads))
            stack.callback(both[-1].end)
        stack.enter_context(busy(options.beside))
        print(
            f"other: {named(other)}\nhere:  {named(HERE)}\n{line('', 'other, us', 'here, us', 'here / other')}",
            flush=True,
        )
        for k, call in enumerate(calls, 1):
            tell(f"[{k}/{len(calls)}] {call.name}: compiled, then {options.seconds:g} s of turns")
            rows.append(measure(call, both[0], both[1], options.seconds, options.turn))
            print(show(rows[-1]), flush=True)
    return rows


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, metavar="OTHER", help="the folder of another checkout")
    parser.add_argument("cases", nargs="+", metavar="CASE", help="models, and what is found in names of single ops")
    parser.add_argument("--threads", type=int, default=1, help="of both (1)")
    parser.add_argument("--beside", type=int, default=0, help="processes that compute all the time meanwhile (0)")
    parser.add_argument("--seconds", type=float, default=4, help="of turns of a case (4)")
    parser.add_argument("--turn", type=float, default=TURN, help=f"seconds of a turn ({TURN:g})")
    parser.add_argument("--json", type=Path, help="write the seconds of all turns here")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    other = options.other.resolve()
    missing = [room for room in ROOMS if not (other / room).is_dir()]
    if missing:
        parser.error(f"{other} is no checkout of this repository: there is no {' and no '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            calls = chosen(options.cases, Path(folder))
        except (ValueError, re.error) as error:
            parser.error(str(error))
        rows = compare(other, calls, options)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
