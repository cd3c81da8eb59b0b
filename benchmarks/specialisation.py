"""What it would bring to compile for shapes rather than for all of them: one generic executable beside one made for each shape.

    PYTHONPATH=runtime:generated:. python -m benchmarks.specialisation [rows bert_mini "^gemm" ...] [--seconds 6] [--json out.json]

Policies by their two costs. `generic`: one executable, dims unknown. `bucketed`: one for lengths up to each power of two, which
knows the bound and nothing else. `padded`: operands are padded to that power of two, and results cut; "-" where the model cannot be.
`specialised`: one for each shape, in which every dim is a number. Printed is the least time of steady
calls of `generic` over that of each other (above 1: the policy pays), what compiling for one more shape took, and how many calls
of that shape it takes until the time spent is won back. Rows are chains of softmax over short ragged rows, where bounds matter most; any
other word is a regular expression that is found in the group and name of a single op of `benchmarks.single_ops`. Users have the same by
`compile(policy=…)`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import anyshape
from anyshape import ops
from anyshape.policies import Bucketed
from benchmarks import streams
from benchmarks.engines import Engine
from benchmarks.models import MODELS, Arrays, load
from benchmarks.models_bench import mean
from benchmarks.single_cases import Case, cases

ROWS = [(1, 3), (64, 3), (512, 7), (4096, 5), (1000, 17), (333, 33), (8, 100), (1, 512)]
"""Batch and length of rows."""
COMPARED = ("bucketed", "padded", "specialised")
"""Policies that are compared with `generic`."""


def rows_function() -> anyshape.Function:
    x = anyshape.input("x", "f32[batch, length]")
    return anyshape.function([x], ops.softmax(ops.mul(ops.tanh(x), x), axis=-1))


def rows_inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    return {"x": np.random.default_rng(seed).standard_normal((batch, length), np.float32)}


def engine(source: Any, dims: Mapping[str, Any] | None) -> tuple[Engine, float]:
    """An executable for these dims, and the seconds that it took with nothing on disk that is its own."""
    started = time.perf_counter()
    exe = anyshape.compile(source, dims, threads=1)
    seconds = time.perf_counter() - started
    return Engine("", exe.run, seconds, lambda: None), seconds


def padded(source: Any, sizes: Mapping[str, int]) -> dict[str, Engine]:
    """An executable that pads operands of these sizes to powers of two; nothing where it cannot."""
    policy = Bucketed(pad=True, dims=tuple(sizes), at=[sizes], hot=0)
    exe = anyshape.compile(source, policy=policy, threads=1)
    refused = any(v.reason for v in exe.report.variants)
    return {} if refused else {"padded": Engine("", exe.run, 0.0, lambda: None)}


def ratios_of(least: Mapping[str, float]) -> dict[str, float]:
    """The time of `generic` over that of each other policy."""
    return {name: least["generic"] / least[name] for name in COMPARED if name in least}


def means_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The geometric mean of each policy's ratios, over the rows that have one."""
    return {name: mean(r[name] for r in rows if name in r) for name in COMPARED if any(name in r for r in rows)}


def columns(ratios: Mapping[str, float]) -> str:
    return " ".join(f"{f'{ratios[name]:.2f}' if name in ratios else '-':>11}" for name in COMPARED)


def means_text(means: Mapping[str, float]) -> str:
    return "  geometric mean of generic over " + ", over ".join(f"{name} {m:.3f}" for name, m in means.items())


def quickest(compiled: Mapping[str, Engine], shape: streams.Shape, arguments: Arrays, limit: float) -> dict[str, float]:
    """The least seconds of a call, of several executables in turns."""
    engines = [Engine(n, e.run, e.seconds, e.late) for n, e in compiled.items()]
    runners = [streams.Local(partial(engines.__getitem__, k), {shape: [arguments]}) for k in range(len(engines))]
    return {n: min(times[shape]) for n, times in streams.steady(runners, [shape], limit).items()}


def single_op(case: Case, limit: float) -> dict[str, float]:
    """Prints a line for a single op at the sizes of its case, and returns the ratios to `generic`."""
    model, arguments = case.model(), case.inputs
    sizes = {
        n.dim_param: n.dim_param[1:] for i in model.graph.input for n in i.type.tensor_type.shape.dim if n.dim_param
    }
    numbers = {name: int(size) for name, size in sizes.items()}
    specialised, spent = engine(model, numbers)
    compiled = {
        "generic": engine(model, None)[0],
        "bucketed": engine(model, {name: (1, bucket(size)) for name, size in numbers.items()})[0],
        **padded(model, numbers),
        "specialised": specialised,
    }
    least = quickest(compiled, (1, 1), arguments, limit)
    ratios = ratios_of(least)
    won = least["generic"] - least["specialised"]
    after = f"{spent / won:.3g} calls" if won > 0 else "never"
    name = f"{case.group} {case.name}"
    print(
        f"  {name[:44]:44} {least['generic'] * 1e3:9.4f} ms {columns(ratios)} {spent:8.2f} s {after:>12}",
        flush=True,
    )
    return ratios


def bucket(length: int) -> int:
    return 1 << max(length - 1, 0).bit_length()


def measure(name: str, source: Any, calls: dict[streams.Shape, Arrays], limit: float) -> dict[str, Any]:
    """Measures one model; prints its table as it goes."""
    names = " ".join(f"{name:>11}" for name in COMPARED)
    print(f"\n{name}\n  {'shape':>9} {'generic':>12} {names} {'compiled in':>12} {'pays after':>12}")
    generic, _ = engine(source, None)
    rows: list[dict[str, Any]] = []
    for shape, arguments in calls.items():
        batch, length = shape
        policies = {
            "generic": generic,
            "bucketed": engine(source, {"length": (1, bucket(length))})[0],
            **padded(source, {"length": length}),
            "specialised": engine(source, {"batch": batch, "length": length})[0],
        }
        least = quickest(policies, shape, arguments, limit / len(calls))
        won = least["generic"] - least["specialised"]
        spent = policies["specialised"].seconds
        row = {
            "shape": shape, "seconds": least, "compile": spent, "calls": spent / won if won > 0 else None,
            **ratios_of(least),
        }  # fmt: skip
        rows.append(row)
        after = "never" if row["calls"] is None else f"{row['calls']:.3g} calls"
        print(
            f"  {f'{batch}x{length}':>9} {least['generic'] * 1e3:9.4f} ms {columns(row)} {spent:10.2f} s {after:>12}",
            flush=True,
        )
    means = means_of(rows)
    print(means_text(means))
    return {"name": name, "rows": rows, **means}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models",
        nargs="*",
        help="rows, models with a batch and a length, or regular expressions of single ops (rows bert_mini)",
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of calls, for each model")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models or ["rows", "bert_mini"]:
            if name == "rows":
                calls = {s: rows_inputs(*s) for s in ROWS}
                results.append(measure("rows: softmax(tanh(x) * x)", rows_function(), calls, options.seconds))
                continue
            if name not in MODELS:
                rows = [single_op(c, options.seconds / 6) for c in cases() if re.search(name, f"{c.group} {c.name}")]
                if not rows:
                    parser.error(f"{name!r} is no model ({', '.join(MODELS)}), nor found in the name of a single op")
                means = means_of(rows)
                print(means_text(means))
                results.append({"name": name, "rows": rows, **means})
                continue
            model = load(name)
            path = model.build(Path(folder) / f"{name}.onnx")
            calls = {s: model.inputs(*s, seed=1) for s in model.SHAPES[::3]}
            results.append(measure(name, path, calls, options.seconds))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
