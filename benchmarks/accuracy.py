"""Results beside the same model in float64: how far ours and onnxruntime's are from it, on all models of benchmarks and of the zoo.

    PYTHONPATH=runtime:generated:. python -m benchmarks.accuracy [bert_mini zoo_bert ...]

In: an ONNX model and arguments. Out: what onnx's own reference implementation gives when every f32 number of the model is an f64 one.
Its loops over convolutions and its LSTM, which has no second direction, are replaced by NumPy here. Exit code 1 if our error is more than
twice onnxruntime's, of both of which less than what f32 can tell (2^-24 of the largest results) counts as that.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import anyshape
from benchmarks.models import MODELS, Arrays, load, structure
from benchmarks.models.zoo.arguments import calls

Array = NDArray[Any]


class Conv(OpRun):
    """A convolution of two spatial dims, without dilation."""

    def _run(self, x: Array, w: Array, b: Array | None = None, **attributes: Any) -> tuple[Array]:
        top, left, bottom, right = attributes.get("pads") or (0, 0, 0, 0)
        down, across = attributes.get("strides") or (1, 1)
        groups = attributes.get("group") or 1
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::down, ::across]
        n, c, h, v = windows.shape[:4]
        parts = windows.reshape(n, groups, c // groups, h, v, *w.shape[2:])
        weights = w.reshape(groups, -1, *w.shape[1:])
        y = np.einsum("ngchvij,gmcij->ngmhv", parts, weights, optimize=True).reshape(n, -1, h, v)
        return (y if b is None else y + b[None, :, None, None],)


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


class LSTM(OpRun):
    """An LSTM of both directions, the usual activations, nothing before the first step."""

    def _run(self, x: Array, w: Array, r: Array, b: Array, *rest: Any, **attributes: Any) -> tuple[Array, Array, Array]:
        ys, hs, cs = [], [], []
        for k in range(w.shape[0]):
            h = c = np.zeros((x.shape[1], r.shape[2]), x.dtype)
            bias = b[k].reshape(2, -1).sum(0)
            steps = []
            for step in x[::-1] if k else x:
                i, o, f, g = np.split(step @ w[k].T + h @ r[k].T + bias, 4, axis=1)
                c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
                h = _sigmoid(o) * np.tanh(c)
                steps.append(h)
            ys.append(np.stack(steps[::-1] if k else steps))
            hs.append(h)
            cs.append(c)
        return np.stack(ys, 1), np.stack(hs), np.stack(cs)


def _wide(t: onnx.TensorProto) -> None:
    if t.data_type == TensorProto.FLOAT:
        t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with f64 in place of f32 everywhere."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for t in wide.graph.initializer:
        _wide(t)
    for node in wide.graph.node:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                _wide(a.t)
            elif node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.DOUBLE
    for value in (*wide.graph.input, *wide.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return wide


def exact(path: Path, arguments: Arrays) -> list[Array]:
    """The model's results in f64 arithmetic."""
    evaluator = ReferenceEvaluator(widened(onnx.load(path)), new_ops=[Conv, LSTM])
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in arguments.items()}
    return [np.asarray(a) for a in evaluator.run(None, wide)]


def error(results: list[Array], exact_results: list[Array]) -> float:
    """The root of the mean square of the differences, as a part of that of the numbers, of the result where it is largest."""

    def size(a: Array) -> float:
        return float(np.sqrt(np.mean(np.square(a, dtype=np.float64)))) if a.size else 0.0

    return max(size(r - w) / (size(w) or 1.0) for r, w in zip(results, exact_results, strict=True))


LIMIT = 2.0
"""Times onnxruntime's error is what ours may be."""
NO_ROUNDING = 1e-3
"""An error that no rounding makes: the reference then means something else than both engines (a recurrence with lengths)."""
LEAST = 2.0**-24
"""Half a unit in the last place of an f32: less is luck."""


@dataclass(frozen=True)
class Errors:
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return max(self.ours, LEAST) / max(self.theirs, LEAST)


def compare(path: Path, arguments: Arrays) -> Errors:
    """Measures the errors of both in one call. Raises what the reference raises for an operator that it has not."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    arguments = {i.name: arguments[i.name] for i in peer.get_inputs()}
    exact_results = exact(path, arguments)
    return Errors(
        error(anyshape.compile(path).run(arguments), exact_results), error(peer.run(None, arguments), exact_results)
    )


def models(folder: Path, every_shape: bool = False) -> Iterator[tuple[str, Callable[[], tuple[Path, Arrays]]]]:
    """Yields the models of benchmarks at their second shape, or at each of them, and those of the zoo at their last."""
    for name in MODELS:
        for shape in load(name).SHAPES if every_shape else load(name).SHAPES[1:2]:
            called = "{} {}x{}".format(name, *shape) if every_shape else name
            yield called, partial(_of_benchmarks, name, shape, folder)
    for file in sorted(structure.FOLDER.glob("zoo_*.onnx")):
        yield file.stem, partial(_of_zoo, file.stem, folder)


def _of_benchmarks(name: str, shape: tuple[int, int], folder: Path) -> tuple[Path, Arrays]:
    model, path = load(name), folder / f"{name}.onnx"
    return path if path.exists() else model.build(path), model.inputs(*shape, seed=2)


def _of_zoo(name: str, folder: Path) -> tuple[Path, Arrays]:
    return structure.build(name, folder / f"{name}.onnx", seed=7), calls(name.removeprefix("zoo_"))[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="all, unless some are named")
    options = parser.parse_args()
    worse = []
    print(f"{'model':28} {'anyshape':>10} {'onnxruntime':>12} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, build in models(Path(folder)):
            if options.models and name not in options.models:
                continue
            try:
                errors = compare(*build())
            except (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError) as e:
                print(
                    f"{name:28} onnx's reference cannot run it in f64: {type(e).__name__}: {str(e).splitlines()[0][:80]}",
                    flush=True,
                )
                continue
            if min(errors.ours, errors.theirs) > NO_ROUNDING:
                print(f"{name:28} onnx's reference gives something else than both engines", flush=True)
                continue
            print(f"{name:28} {errors.ours:10.2e} {errors.theirs:12.2e} {errors.ratio:6.2f}", flush=True)
            worse += [name] if errors.ratio > LIMIT else []
    if worse:
        print(f"more than {LIMIT:g} times onnxruntime's error: {', '.join(worse)}")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
