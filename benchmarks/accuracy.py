"""Results beside the same model in float64: how far ours and the peers' are from it.

In: an ONNX model and arguments. Out: what onnx's own reference implementation gives when every f32 number of the model is an f64 one.
Its loops over convolutions and its LSTM, which has no second direction, are replaced by NumPy here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from benchmarks.models import Arrays

Array = NDArray[Any]


class Conv(OpRun):  # type: ignore[misc]
    """Two spatial dims, no dilation."""

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


class LSTM(OpRun):  # type: ignore[misc]
    """Both directions, the usual activations, nothing before the first step."""

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


def error(results: list[Array], wanted: list[Array]) -> float:
    """The root of the mean square of the differences, as a part of that of the numbers, of the result where it is largest."""

    def size(a: Array) -> float:
        return float(np.sqrt(np.mean(np.square(a, dtype=np.float64)))) if a.size else 0.0

    return max(size(r - w) / (size(w) or 1.0) for r, w in zip(results, wanted, strict=True))
