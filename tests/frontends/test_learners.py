"""Operators of ai.onnx.ml beside onnxruntime's own, at several shapes of one compiled model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.errors import UnsupportedError

RNG = np.random.default_rng(7)
WEIGHTS = {"coefficients": [0.5, -1.0, 2.0, 0.25, 1.0, -0.5], "targets": 2}


def model_of(op: str, dtype: Any, extra: dict[str, np.ndarray], **attributes: Any) -> onnx.ModelProto:
    """One node, of a matrix of unknown height and three columns."""
    node = helper.make_node(op, ["x", *extra], ["y"], domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = helper.make_tensor_value_info("x", kind, [None, 3])
    out = kind if op in ("Binarizer", "ArrayFeatureExtractor") else TensorProto.FLOAT
    y = helper.make_tensor_value_info("y", out, None)
    constants = [onnx.numpy_helper.from_array(a, name) for name, a in extra.items()]
    graph = helper.make_graph([node], "g", [x], [y], constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize(
    ("op", "dtype", "extra", "attributes"),
    [
        ("ArrayFeatureExtractor", np.float32, {"at": np.array([2, 0, 2])}, {}),
        ("ArrayFeatureExtractor", np.int64, {"at": np.array([1])}, {}),
        ("Binarizer", np.float32, {}, {"threshold": 0.25}),
        ("Binarizer", np.float32, {}, {}),
        ("Normalizer", np.float32, {}, {"norm": "MAX"}),
        ("Normalizer", np.float32, {}, {"norm": "L1"}),
        ("Normalizer", np.int64, {}, {"norm": "L2"}),
        ("Scaler", np.float32, {}, {"offset": [1.0, 0.0, -2.0], "scale": [0.5, 3.0, 1.0]}),
        ("Scaler", np.int64, {}, {"offset": [1.0], "scale": [0.5]}),
        ("LinearRegressor", np.float32, {}, {**WEIGHTS, "intercepts": [1.0, -1.0]}),
        ("LinearRegressor", np.float32, {}, {**WEIGHTS, "post_transform": "LOGISTIC"}),
        ("LinearRegressor", np.float32, {}, {**WEIGHTS, "post_transform": "SOFTMAX"}),
    ],
)
def test_agrees(op: str, dtype: Any, extra: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    proto = model_of(op, dtype, extra, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = anyshape.compile(proto)
    for rows in (1, 4, 9, 1):
        x = (RNG.normal(size=(rows, 3)) * 3).astype(dtype)
        (got,), (want,) = ours.run({"x": x}), session.run(None, {"x": x})
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="another post_transform"):
        anyshape.compile(model_of("LinearRegressor", np.float32, {}, **WEIGHTS, post_transform="PROBIT"))
    with pytest.raises(UnsupportedError, match="without an offset"):
        anyshape.compile(model_of("Scaler", np.float32, {}, scale=[1.0]))
