"""What `anyshape quantise` makes of models: `python -m benchmarks.narrow_weights [MODEL ...]`.

In: models of benchmarks/models, whose weights are drawn from a normal distribution, and the dates example, whose weights are trained.
Out: for each rounding the bytes of all tensors, the errors of the weights and of the first output (relative root mean squares), and how
far onnxruntime's result of the same model is from ours, as a share of the largest element.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import anyshape
from benchmarks.models import load

DATES = Path(__file__).parents[1] / "examples" / "dates" / "dates.onnx"
NAMES = ("dates", "bert_mini", "mlp")
ROUNDINGS: tuple[dict[str, Any], ...] = (
    {"weights": "int4", "group": 128},
    {"weights": "int4"},
    {"weights": "int4", "symmetric": True},
    {"weights": "int4", "method": "mse"},
    {"weights": "int4", "activations": "int8"},
    {"weights": "int8"},
    {"weights": "int8", "activations": "int8"},
    {"weights": "f8e4m3"},
)
BATCH, LENGTH, LENGTHS = 4, 24, {"mlp": 1}


def _inputs(name: str) -> dict[str, Any]:
    if name == "dates":
        return {"ids": np.random.default_rng(0).integers(1, 50, (BATCH, LENGTH))}
    return dict(load(name).inputs(BATCH, LENGTHS.get(name, LENGTH), seed=0))


def _line(name: str, path: Path, feed: dict[str, Any], options: dict[str, Any]) -> str:
    """One row; empty where no weight becomes narrow, as in f8e4m3 before opset 19."""
    model, report = anyshape.quantise(path, inputs=feed, **options)
    if not report.narrowed:
        return ""
    said = ", ".join([options["weights"], *(_said(k, v) for k, v in [*options.items()][1:])])
    weights = max(w.error for w in report.narrowed)
    output, error = next(iter((report.outputs or {}).items()))
    exe = anyshape.compile(model)
    here = dict(zip(exe.output_names, exe.run(feed)))[output]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    there = session.run([output], feed)[0]
    apart = float(np.abs(here - there).max() / np.abs(there).max())
    counts = f"{len(report.narrowed)} | {len(report.kept)}"
    return f"| {name} | {said} | {counts} | {report.after / report.before:.1%} | {weights:.2g} | {error:.2g} | {apart:.1g} |"


def _said(option: str, value: Any) -> str:
    if option == "activations":
        return f"activations in {value}"
    return option if value is True else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", default=NAMES, metavar="MODEL")
    print(
        "| model | weights | narrow | kept | bytes | largest error of a weight | error of the output | onnxruntime apart |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in parser.parse_args().models:
            path = DATES if name == "dates" else load(name).build(Path(folder) / f"{name}.onnx")
            for options in ROUNDINGS:
                line = _line(name, path, _inputs(name), options)
                if line:
                    print(line, flush=True)


if __name__ == "__main__":
    main()
