"""Whole models beside onnxruntime and OpenVINO (and IREE, where a model names it): the same threads, engines in turns, outputs compared.

    PYTHONPATH=runtime:generated python -m benchmarks.models_bench [bert_mini mlp ...] [--threads 1] [--seconds 10] [--json out.json]

For each model a table by shape: the least seconds of steady calls, the median in a shuffled stream of all shapes, and how the best
peer's compare; then geometric means, first and second calls at a shape over later ones (p50 and p95), what was compiled after the
first call (nothing should be), the errors against float64 (`--errors`), and the noise seen (median over least). Exit code 1 if an
output differs by more than 1e-4 of its size, or an error is more than twice onnxruntime's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks import accuracy, streams
from benchmarks.engines import available
from benchmarks.kept import with_kept
from benchmarks.models import MODELS, Arrays, Model, load
from benchmarks.workers import Worker, workers

TOLERANCE = 1e-4
US = "anyshape"
ORACLE = "onnxruntime"
ERRORS = 2.0
"""Times the oracle's error is what ours may be."""


def mean(ratios: Iterable[float]) -> float:
    """The geometric one."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def difference(engines: list[Worker], arguments: Arrays) -> dict[str, float]:
    """How much each peer's outputs differ from ours, as a part of the largest number in them (or of 1)."""
    ours = engines[0].results(arguments)
    errors = {}
    for peer in engines[1:]:
        pairs = zip(ours, peer.results(arguments), strict=True)
        errors[peer.name] = max(
            float(np.abs(a - b).max(initial=0) / max(1.0, np.abs(a).max(initial=0))) for a, b in pairs
        )
    return errors


def errors(engines: list[Worker], path: Path, model: Model) -> dict[str, float]:
    """The error of each engine against float64, at the second shape of the model."""
    arguments = model.inputs(*model.SHAPES[1], seed=2)
    exact_results = accuracy.exact(path, arguments)
    return {e.name: accuracy.error(e.results(arguments), exact_results) for e in engines}


def measure(name: str, folder: Path, names: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Measures one model; prints as it goes."""
    threads = options.threads
    model = load(name)
    names = [*names, *(available(getattr(model, "PEERS", ())) if threads == 1 else ())]
    path = model.build(folder / f"{name}.onnx")
    calls = {shape: [model.inputs(*shape, seed=1 + k) for k in range(streams.DATA)] for shape in model.SHAPES}
    with workers(names, path, threads, calls) as engines:
        print(
            f"\n{name}, {threads} thread{'s' * (threads > 1)}: "
            + ", ".join(f"{e.name} ready in {e.seconds:.2f} s" for e in engines),
            flush=True,
        )
        differences = {shape: difference(engines, several[0]) for shape, several in calls.items()}
        steady = streams.steady(engines, list(calls), 0.7 * options.seconds)
        shuffled = streams.shuffled(engines, list(calls), 0.3 * options.seconds)
        first = streams.first_calls(engines, list(calls))
        rows = [row(shape, names, steady, shuffled, first, differences[shape]) for shape in calls]
        print(table(names, rows), flush=True)
        result = {
            "model": name,
            "threads": threads,
            "engines": {e.name: e.seconds for e in engines},
            "rows": rows,
            **summary(names, rows),
        }
        result["compiled_after_first_call"] = engines[0].late()
        result["errors"] = errors(engines, path, model) if options.errors else {}
    path.unlink()
    print(text_of(result), flush=True)
    return result


def row(
    shape: streams.Shape,
    names: list[str],
    steady: streams.Times,
    shuffled: streams.Times,
    first: tuple[streams.Surplus, streams.Surplus],
    differences: dict[str, float],
) -> dict[str, Any]:
    least = {n: min(steady[n][shape]) for n in names}
    stream = {n: statistics.median(shuffled[n][shape]) for n in names}
    peers = [n for n in names if n != US]
    return {
        "batch": shape[0], "length": shape[1], "steady": least, "shuffled": stream,
        **{
            kind: {n: statistics.median(over[n][shape]) for n in names if over[n][shape]}
            for kind, over in zip(("first", "second"), first, strict=True)
        },
        "steady_ratio": min(least[n] for n in peers) / least[US], "shuffled_ratio": min(stream[n] for n in peers) / stream[US],
        "noise": max(statistics.median(steady[n][shape]) / least[n] for n in names), "differences": differences,
    }  # fmt: skip


def summary(names: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Best peer's time over ours, and what a first call at a new shape costs over later ones."""
    report: dict[str, Any] = {
        f"{kind}_{what}": f(r[f"{kind}_ratio"] for r in rows)
        for kind in ("steady", "shuffled") for what, f in (("mean", mean), ("least", min))
    }  # fmt: skip
    for n in names:
        for kind in ("first", "second"):
            over = [r[kind][n] for r in rows if n in r[kind]]
            report.setdefault(f"{kind}_call", {})[n] = streams.points(over)
    report["noise"] = max(r["noise"] for r in rows)
    report["difference"] = max((d for r in rows for d in r["differences"].values()), default=0.0)
    return report


def table(names: list[str], rows: list[dict[str, Any]]) -> str:
    head = (
        f"  {'shape':>9}"
        + "".join(f"{n:>13}" for n in names)
        + f"{'ratio':>8} |"
        + "".join(f"{n:>13}" for n in names)
        + f"{'ratio':>8}  difference"
    )
    lines = [f"  {'':>9}{'steady, ms':>{13 * len(names) + 8}} |{'shuffled, ms':>{13 * len(names) + 8}}", head]
    for r in rows:
        halves = [
            "".join(f"{r[kind][n] * 1e3:13.4f}" for n in names) + f"{r[f'{kind}_ratio']:8.2f}"
            for kind in ("steady", "shuffled")
        ]
        worst = max(r["differences"].values(), default=0.0)
        shape = f"{r['batch']}x{r['length']}"
        lines.append(f"  {shape:>9}{halves[0]} |{halves[1]}  {worst:.1e}")
    return "\n".join(lines)


def text_of(result: dict[str, Any]) -> str:
    first, second = (
        ", ".join(f"{n} {p['p50']:.2f} / {p['p95']:.2f}" for n, p in result[f"{kind}_call"].items())
        for kind in ("first", "second")
    )
    wrong = ", ".join(f"{n} {e:.1e}" for n, e in result["errors"].items())
    return "\n".join([
        f"  best peer / {US}: steady mean {result['steady_mean']:.2f}, least {result['steady_least']:.2f}; "
        f"shuffled mean {result['shuffled_mean']:.2f}, least {result['shuffled_least']:.2f}",
        f"  first call at a new shape over later ones, p50 / p95: {first}; second call, which is the noise: {second}",
        *([f"  error against float64: {wrong}"] if wrong else []),
        f"  {result['compiled_after_first_call']} programs compiled after the first call; noise up to {result['noise']:.2f}",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["bert_mini"], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--threads", type=int, default=1, help="of every engine (1)")
    parser.add_argument(
        "--engines", nargs="*", default=["onnxruntime", "openvino"], help="peers (onnxruntime openvino)"
    )
    parser.add_argument("--seconds", type=float, default=10, help="of measuring a model, loading left out (10)")
    parser.add_argument("--errors", action="store_true", help="compute every model in float64 as well")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--keep", action="store_true", help="with --json: models not named stay as the file has them")
    options = parser.parse_args()
    names = available([US, *options.engines])
    with tempfile.TemporaryDirectory() as folder:
        results: list[dict[str, Any]] = []
        for name in options.models:
            results.append(measure(name, Path(folder), names, options))
            if options.json:  # what there is, should the time run out
                results_kept = kept(options, results) if options.keep else results
                options.json.write_text(json.dumps(results_kept, indent=1))
    means = {kind: mean(r[f"{kind}_mean"] for r in results) for kind in ("shuffled", "steady")}
    print(f"\nall models, best peer / {US}: " + ", ".join(f"{kind} mean {m:.2f}" for kind, m in means.items()))
    return judged(results)


def kept(options: argparse.Namespace, anew: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return with_kept(options.json, anew, lambda r: r["model"], MODELS, options.threads)


def judged(results: list[dict[str, Any]]) -> int:
    """1 if a result is wrong, which is said."""
    wrong = [f"{r['model']}: outputs differ by {r['difference']:.1e}" for r in results if r["difference"] > TOLERANCE]
    for r in results:
        ours, theirs = r["errors"].get(US, 0.0), r["errors"].get(ORACLE, math.inf)
        if ours > ERRORS * theirs:
            wrong.append(f"{r['model']}: the error {ours:.1e} is more than {ERRORS:g} times {ORACLE}'s {theirs:.1e}")
    print("".join(w + "\n" for w in wrong), end="", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
