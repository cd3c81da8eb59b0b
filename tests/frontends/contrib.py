"""Models of one operator of com.microsoft, run beside onnxruntime at several shapes of one compiled model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import anyshape

F, I64, I32, U8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8
KINDS = {
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.float32): F,
    np.dtype(np.int64): I64,
    np.dtype(np.int32): I32,
    np.dtype(np.uint8): U8,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.int16): TensorProto.INT16,
    np.dtype(np.uint16): TensorProto.UINT16,
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(object): TensorProto.STRING,
}
FIXED = ("biased", "words", "places", "kinds", "gamma", "shift")
"""Inputs that onnxruntime must know the shapes of"""
UNTOLD = ("scores",)
"""Outputs whose dtype the declaration of an operator does not tell"""
SEED = 7
RNG = np.random.default_rng(SEED)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def half(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float16)


def whole(high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(dtype)


def model_of(
    op: str, feeds: dict[str, np.ndarray | None], outputs: str, domain: str, **attributes: Any
) -> onnx.ModelProto:
    """One node, of inputs whose ranks are known."""
    names = [name if a is not None else "" for name, a in feeds.items()]
    while not names[-1]:
        names.pop()
    outs = ["" if n == "-" else n for n in outputs.split()]
    node = helper.make_node(op, names, outs, domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(n, KINDS[a.dtype], a.shape if n in FIXED else [None] * a.ndim)
        for n, a in feeds.items()
        if a is not None
    ]
    results = [
        helper.make_tensor_value_info(n, F, None) if n in UNTOLD else onnx.ValueInfoProto(name=n) for n in outs if n
    ]
    graph = helper.make_graph([node], "g", inputs, results)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(
    op: str,
    cases: list[dict[str, np.ndarray | None]],
    outputs: str = "y",
    tolerance: float = 2e-5,
    domain: str = "com.microsoft",
    **attributes: Any,
) -> None:
    """Raises where one compiled model differs from onnxruntime at the shapes of a case."""
    proto = model_of(op, cases[0], outputs, domain, **attributes)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = anyshape.compile(proto)
    for case in (*cases, cases[0]):
        feed = {n: a for n, a in case.items() if a is not None}
        for got, want in zip(ours.run(feed), session.run(None, feed), strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test draws the same numbers, whichever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(SEED).bit_generator.state
