"""Models with constant weights for tests of `quantise`, and what their weights stand for, decoded element by element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tests.frontends.models import model, node, tensor

Array = NDArray[Any]
CONTRIB = "com.microsoft"


def drawn(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def one_product(k: int = 40, n: int = 24, dtype: Any = np.float32) -> onnx.ModelProto:
    """Rows times a matrix."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = tensor("x", ["rows", k], kind)
    return versioned(model([node("MatMul", "x w", "y", "dense")], [x], "y", {"w": drawn(k, n, dtype=dtype)}))


def versioned(proto: onnx.ModelProto, ir: int = 8) -> onnx.ModelProto:
    """Gives a model a version of the file format that onnxruntime reads."""
    proto.ir_version = ir
    return proto


def operators(proto: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in proto.graph.node]


def initializers(proto: onnx.ModelProto) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}


def decoded(proto: onnx.ModelProto, name: str, bits: int, size: int) -> Array:
    """What the rows of a weight stand for: (code - zero point) * scale, one element after the other."""
    held = initializers(proto)
    codes, scales = held[f"{name}_codes"], held[f"{name}_scales"]
    rows = len(codes)
    (width,) = {a.i for n in proto.graph.node for a in n.attribute if a.name == "block_size"}
    values = np.zeros((rows, size), np.float32)
    for j in range(rows):
        for k in range(size):
            group = k // width
            zero = code_at(held[f"{name}_zeros"][j], group, bits) if f"{name}_zeros" in held else 1 << bits - 1
            values[j, k] = (code_at(codes[j].reshape(-1), k, bits) - zero) * np.float32(scales[j, group])
    return values


def code_at(packed: Array, k: int, bits: int) -> int:
    per = 8 // bits
    return int(packed[k // per]) >> k % per * bits & (1 << bits) - 1


def in_onnxruntime(proto: onnx.ModelProto, feed: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, dict(feed))
    return results


def apart_from(expected: Array, got: Array) -> float:
    """The largest difference as a share of the largest element."""
    a, b = expected.astype(np.float64), got.astype(np.float64)
    assert a.shape == b.shape and np.isfinite(b).all()
    return float(np.abs(a - b).max(initial=0) / (np.abs(a).max(initial=0) or 1))
