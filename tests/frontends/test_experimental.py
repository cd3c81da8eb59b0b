"""Operators of ONNX's own domain before they were in its standard, as old exporters and onnxruntime's optimiser wrote them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape.errors import UnsupportedError

IMAGE = np.random.default_rng(0).normal(size=(2, 3, 5, 6)).astype(np.float32)
ROWS = IMAGE.reshape(2, -1)
SCALE = np.linspace(0.5, 2, 90, dtype=np.float32)


def model(op: str, opset: int, x: np.ndarray, *more: np.ndarray, **attributes: Any) -> onnx.ModelProto:
    names = ["x", *(f"more{k}" for k in range(len(more)))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * x.ndim)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for a, n in zip(more, names[1:], strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


CASES = (
    ("Affine", (IMAGE,), {"alpha": 2.0, "beta": 0.5}),
    ("ScaledTanh", (IMAGE,), {"alpha": 2.0, "beta": 0.5}),
    ("ParametricSoftplus", (IMAGE,), {"alpha": 2.0, "beta": 0.5}),
    ("ImageScaler", (IMAGE,), {"scale": 2.0, "bias": [0.1, 0.2, 0.3]}),
    ("Crop", (IMAGE,), {"border": [1, 0, 2, 1]}),
    ("Crop", (IMAGE,), {"border": [1, 2, 0, 0], "scale": [3, 4]}),
    ("ThresholdedRelu", (IMAGE,), {"alpha": 0.5}),
    ("ThresholdedRelu", (IMAGE,), {}),
    ("DynamicSlice", (ROWS, np.array([1, -4]), np.array([2, 89])), {}),
    ("DynamicSlice", (ROWS, np.array([3]), np.array([9]), np.array([1])), {}),
)


@pytest.mark.parametrize(("op", "arrays", "attributes"), CASES, ids=[f"{c[0]}{k}" for k, c in enumerate(CASES)])
@pytest.mark.parametrize("opset", [7, 9])
def test_it_is_what_onnxruntime_computes(op, arrays, attributes, opset):
    proto = model(op, opset, *arrays, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": arrays[0]})
    np.testing.assert_allclose(anyshape.compile(proto)(arrays[0]), want, 1e-5, 1e-5)


@pytest.mark.parametrize("opset", [9, 11, 12, 16, 17])
@pytest.mark.parametrize("more", [(SCALE,), (SCALE, -SCALE)])
def test_layer_normalization_before_opset_17(opset, more):
    proto = model("LayerNormalization", opset, ROWS, *more, axis=-1, epsilon=1e-3)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(anyshape.compile(proto)(ROWS), session.run(None, {"x": ROWS})[0], 1e-5, 1e-5)


@pytest.mark.parametrize("op", ["Affine", "Crop", "ScaledTanh", "Scale", "DynamicSlice"])
def test_opset_10_ended_the_experiments(op):
    with pytest.raises(UnsupportedError, match="removed from ONNX before opset 10"):
        anyshape.compile(model(op, 10, IMAGE))


def test_a_model_may_say_less_of_them_but_not_what_they_need():
    with pytest.raises(UnsupportedError, match="Crop by other than four borders"):
        anyshape.compile(model("Crop", 7, IMAGE, border=[1, 2]))
