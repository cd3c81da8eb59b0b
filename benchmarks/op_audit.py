"""Every ONNX operator in its usual variants beside onnxruntime and OpenVINO: in turns, at three sizes or more of one compiled model.

    PYTHONPATH=runtime:generated:. python -m benchmarks.op_audit [--operator Conv] [--cases depthwise] [--threads 2] [--json rows.json]

The cases are those of `op_cases.yaml`. For each the median of many short batches, and the best peer's over ours: above 1 we are faster.
Results have a given place. A peer that cannot run a case is named, and so is one whose results differ from ours, which then only counts
if those of all others do, too. A call goes through each engine's Python interface, so the smallest cases measure that as well.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from onnx import ModelProto

from anyshape.comparison import apart
from benchmarks.checkouts import ROOMS
from benchmarks.engines import available
from benchmarks.kept import with_kept
from benchmarks.op_cases import Array, Case, Sizes, cases, spell_sizes
from benchmarks.op_engines import OpWorker
from benchmarks.patience import PATIENCE, known, noise
from benchmarks.workers import Gone

US, OTHER = "anyshape", "other"
TURNS, QUICK_TURNS = 3, 1
"""Turns of each engine; more where the medians are not known then (`patience.py`), unless that takes longer than `SECONDS`."""
SECONDS = 2.0
"""Most seconds of turns at one size, but for one turn of each engine, however long calls take."""
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 4e-3, "bfloat16": 2e-2}
"""Differences of results that are allowed, as shares of the largest number."""
LIMITS = (0.8, 0.9, 1.0)

Row = dict[str, Any]


class Engines:
    """The engines that are asked, each of which is started anew after it ended in the midst of a case. `checkout`: the folder of the one
    that is called `OTHER`; `options`: what this project's compiles with."""

    def __init__(
        self,
        names: Sequence[str],
        threads: int,
        checkout: Path | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.names, self.threads, self.checkout, self.options = names, threads, checkout, options
        self._workers: dict[str, OpWorker] = {}

    def worker(self, name: str) -> OpWorker:
        if name not in self._workers:
            self._workers[name] = OpWorker(name, self.threads, self.checkout if name == OTHER else None, self.options)
        return self._workers[name]

    def ask(self, name: str, refused: dict[str, str], method: str, *arguments: Any) -> Any:
        """Asks one engine; what goes wrong is kept, and the engine asked no more for this case."""
        if name in refused:
            return None
        try:
            return getattr(self.worker(name), method)(*arguments)
        except Exception as error:
            refused[name] = " ".join(str(error).split())[:300] or type(error).__name__
            if isinstance(error, Gone | OSError):
                self.end(name)
            return None

    def end(self, name: str) -> None:
        if name in self._workers:
            with suppress(OSError):
                self._workers.pop(name).end()

    def end_all(self) -> None:
        for name in list(self._workers):
            self.end(name)


class Measured(Protocol):
    """What is measured of a case: its model, its arrays at each of its sizes, and how results may differ."""

    @property
    def operator(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def at(self) -> tuple[Sizes, ...]: ...
    @property
    def new(self) -> bool: ...
    @property
    def steps(self) -> int: ...
    @property
    def unordered(self) -> bool: ...
    @property
    def tolerance(self) -> float | None: ...
    @property
    def outputs(self) -> list[str]: ...
    def model(self) -> ModelProto: ...
    def arrays(self, sizes: Sizes) -> dict[str, Array]: ...


def measure(case: Measured, engines: Engines, turns: int) -> list[Row]:
    """Measures a case at all its sizes."""
    refused: dict[str, str] = {}
    model = case.model().SerializeToString()
    for name in engines.names:
        engines.ask(name, refused, "compile", model)
    return [measured(case, sizes, engines, dict(refused), turns) for sizes in case.at]


def measured(case: Measured, sizes: Sizes, engines: Engines, refused: dict[str, str], turns: int) -> Row:
    inputs = case.arrays(sizes)
    results = {n: engines.ask(n, refused, "take", inputs, case.outputs, case.new) for n in engines.names}
    peers = [n for n in engines.names if n not in (US, *refused) and US not in refused]
    differences = {n: how for n in peers if (how := difference(case, results[US], results[n]))}
    seconds: dict[str, list[float]] = {n: [] for n in engines.names}
    start = time.monotonic()
    for k in range(PATIENCE * turns):
        if k > 0 and time.monotonic() - start > SECONDS:
            break
        if k >= turns and all(map(known, (t for t in seconds.values() if t))):
            break
        for name in engines.names if k % 2 == 0 else engines.names[::-1]:
            seconds[name] += engines.ask(name, refused, "turn") or []
    seconds = {n: times for n, times in seconds.items() if n not in refused}
    medians = {n: statistics.median(times) for n, times in seconds.items()}
    best = best_of({n: t for n, t in medians.items() if n != US}, differences)
    return {
        "operator": case.operator,
        "case": case.name,
        "size": spell_sizes(sizes),
        "threads": engines.threads,
        "seconds": medians,
        "least": {n: min(times) for n, times in seconds.items()},
        "noise": noise(seconds.values()) if seconds else None,
        "best": best,
        "ratio": medians[best] / medians[US] if best and US in medians else None,
        "refused": refused,
        "differences": differences,
    }


def best_of(medians: Mapping[str, float], differences: Mapping[str, str]) -> str | None:
    """The fastest peer; one whose results differ computes something else, f32 for f64, say, and counts only if all of them do."""
    agreeing = medians.keys() - differences.keys()
    return min(agreeing or medians, key=lambda n: medians[n], default=None)


def difference(case: Measured, ours: Sequence[Array], theirs: Sequence[Array]) -> str:
    """How our results differ from a peer's by more than is allowed; nothing if they agree."""
    for name, a, b in zip(case.outputs, ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{list(a.shape)}, and {b.dtype}{list(b.shape)}"
        if case.unordered:
            a, b = np.sort(a, axis=-1), np.sort(b, axis=-1)
        if a.dtype.kind in "iub":
            far = int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))
            if far > case.steps:
                return f"{name}: by up to {far} at {np.mean(a != b):.1%} of places"
        elif (far_ := apart(b, a)) > (case.tolerance or TOLERANCE.get(a.dtype.name, 0.0)):
            return f"{name}: by {far_:.1e}"
    return ""


def line(r: Row, names: Sequence[str]) -> str:
    times = "".join(f"{r['seconds'][n] * 1e6:12.1f}" if n in r["seconds"] else f"{'-':>12}" for n in names)
    ratio = f"{r['ratio']:6.2f}" if r["ratio"] is not None else f"{'-':>6}"
    return f"{label(r)[:70]:70}{times} {ratio}"


def case_label(r: Row) -> str:
    return f"{r['operator']} {r['case']}".strip()


def label(r: Row) -> str:
    return f"{case_label(r)}, {r['size']}"


def geometric(ratios: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def summary(rows: Sequence[Row]) -> str:
    """One line: how many rows, their geometric mean, and how many are below each limit."""
    ratios = [r["ratio"] for r in rows if r["ratio"] is not None]
    if not ratios:
        return f"{len(rows)} rows, none of which a peer runs"
    below = ", ".join(f"{sum(x < limit for x in ratios)} below {limit}" for limit in LIMITS)
    return f"{len(rows)} rows, {len(ratios)} beside a peer: geometric mean {geometric(ratios):.2f}; {below}"


def remarks(rows: Sequence[Row], kind: str, engine: str = "") -> list[str]:
    """Says who cannot run what (`refused`), once for each case, or whose results differ from ours (`differences`); for one engine, if
    named."""
    words = {"refused": "{0} cannot run {1}: {3}", "differences": "{1}, {2}: results differ from {0}'s: {3}"}[kind]
    parts = (
        words.format(name, case_label(r), r["size"], what)
        for r in rows
        for name, what in r[kind].items()
        if not engine or name == engine
    )
    return list(dict.fromkeys(parts))


def alone(r: Row) -> bool:
    """Whether our results differ from those of every peer; where one differs and another agrees, the former is odd."""
    return bool(r["differences"]) and not r["seconds"].keys() - {US, *r["differences"]}


class Bar:
    """Progress on stderr: how many are done, and how long the rest will take; on a terminal in one line, elsewhere every ten seconds."""

    def __init__(self, total: int) -> None:
        self.total, self.start, self.said, self.terminal = total, time.monotonic(), 0.0, sys.stderr.isatty()

    def tell(self, done: int, what: str) -> None:
        spent = time.monotonic() - self.start
        if spent < 1 or spent - self.said < (0.2 if self.terminal else 10.0):
            return
        self.said = spent
        left = spent / max(done, 1) * (self.total - done)
        full = 30 * done // self.total
        text = (
            f"[{'#' * full}{'.' * (30 - full)}] {done}/{self.total}, {left / 60:.0f} min {left % 60:.0f} s left: {what}"
        )
        print(
            f"\r\x1b[K{text[:110]}" if self.terminal else text,
            end="" if self.terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        if self.terminal and self.said:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def chosen(operators: Sequence[str], pattern: str) -> list[Case]:
    """Cases of these operators, in any case of letters and without a domain too, in whose names the pattern is found."""
    asked = {o.lower() for o in operators}
    return [
        c
        for c in cases()
        if (not asked or {c.operator.lower(), c.operator.rpartition(":")[2].lower()} & asked)
        and re.search(pattern, c.name)
    ]


def cases_below(rows: Sequence[Row], ratio: float, threads: int) -> set[tuple[str, str]]:
    """Operators and cases of which a row with so many threads is below a ratio."""
    return {(r["operator"], r["case"]) for r in rows if r["threads"] == threads and (r["ratio"] or ratio) < ratio}


def name_of(r: Row) -> tuple[str, str, str]:
    return r["operator"], r["case"], r["size"]


def order() -> list[tuple[str, str, str]]:
    return [(c.operator, c.name, spell_sizes(sizes)) for c in cases() for sizes in c.at]


def write(path: Path, rows: Sequence[Row]) -> None:
    """Replaces a file as a whole, so that it can be read meanwhile."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(list(rows), indent=1))
    part.replace(path)


def audit(cases: Sequence[Measured], engines: Engines, turns: int, json_to: Path | None) -> list[Row]:
    """Measures cases one after the other; prints each row at once."""
    rows: list[Row] = []
    bar = Bar(len(cases))
    print(f"{'microseconds':70}" + "".join(f"{n:>12}" for n in engines.names) + "  ratio", flush=True)
    for k, case in enumerate(cases):
        bar.tell(k, f"{case.operator} {case.name}")
        of_case = measure(case, engines, turns)
        bar.end()
        rows += of_case
        print("\n".join(line(r, engines.names) for r in of_case), flush=True)
        if json_to:
            write(json_to, rows)
    return rows


def arguments() -> argparse.ArgumentParser:
    """Makes the parser of the command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operator", action="append", default=[], help="of these operators only; may be passed again")
    parser.add_argument("--cases", default="", help="a regular expression to be found in the names of cases (all)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TURNS} turn of each engine, and not {TURNS}")
    parser.add_argument(
        "--engines",
        nargs="*",
        default=["onnxruntime", "openvino"],
        help="peers (onnxruntime openvino); of convolutions ncnn and litert too",
    )
    parser.add_argument("--growth", type=float, help="of errors, by algorithms with fewer products (as by default)")
    parser.add_argument(
        "--other",
        type=Path,
        metavar="FOLDER",
        help="another checkout of this repository, in place of peers: how much faster this one is",
    )
    parser.add_argument("--threads", type=int, default=1, help="of every engine (1; 0: all processors)")
    parser.add_argument("--json", type=Path, help="write the rows here, as they come")
    parser.add_argument("--keep", action="store_true", help="with --json: cases not chosen stay as the file has them")
    parser.add_argument(
        "--below",
        type=float,
        metavar="RATIO",
        help="with --keep: only cases of which the file has a row below it, all their rows",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="put these rows into docs/performance.md and its tables",
    )
    parser.add_argument(
        "--model", metavar="FILE", help="the nodes of a model: `anyshape bench FILE`, which has more options"
    )
    return parser


def asked(parser: argparse.ArgumentParser, options: argparse.Namespace, threads: int) -> list[Case]:
    """The cases that the options choose, at least one; ends the process with an error of the command otherwise."""
    cases = chosen(options.operator, options.cases)
    if options.below is not None:
        if not (options.keep and options.json):
            parser.error("--below reads the rows of --keep --json FILE")
        slow = cases_below(json.loads(options.json.read_text()), options.below, threads)
        cases = [c for c in cases if (c.operator, c.name) in slow]
    if not cases:
        parser.error("no case has such an operator, such a name and such rows")
    return cases


def engines_of(parser: argparse.ArgumentParser, options: argparse.Namespace, threads: int) -> Engines:
    """Starts this project's engine beside its peers, or beside that of another checkout."""
    if options.other is None:
        own = {} if options.growth is None else {"growth": options.growth}
        return Engines(available([US, *options.engines]), threads, None, own)
    if not all((options.other / room).is_dir() for room in ROOMS):
        parser.error(f"{options.other} is no checkout: it has no {' and no '.join(ROOMS)}")
    return Engines([US, OTHER], threads, options.other.resolve())


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    if options.model:
        from anyshape.cli.main import main as command

        return command(["bench", options.model, "--threads", str(options.threads)])
    threads = options.threads or os.cpu_count() or 1
    cases = asked(parser, options, threads)
    engines = engines_of(parser, options, threads)
    with ExitStack() as stack:
        stack.callback(engines.end_all)
        rows = audit(cases, engines, QUICK_TURNS if options.quick else TURNS, None if options.keep else options.json)
    if options.keep and options.json:
        rows = with_kept(options.json, rows, name_of, order(), threads)
        write(options.json, rows)
    if options.write:
        from benchmarks.performance_page import write_audit

        write_audit(rows)
    print("\n".join([*remarks(rows, "refused"), *remarks(rows, "differences"), summary(rows)]))
    return any(US in r["refused"] or alone(r) for r in rows)


if __name__ == "__main__":
    sys.exit(main())
