"""mlp: 512 -> 1024 -> 512 with GELU and LayerNorm; batch dynamic; opset 20, so that Gelu is one node.

Comes in: a seed. Goes out: an ONNX file of 4 MB. Almost all of its time is two matrix products, their epilogues and
one row operation: what a fused compiler should be best at.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.models import Arrays

WIDTH, INNER = 512, 1024
SHAPES = [(1, 1), (2, 1), (7, 1), (16, 1), (33, 1), (64, 1), (100, 1), (256, 1)]


def _weights(seed: int) -> list[onnx.TensorProto]:
    rng = np.random.default_rng(seed)

    def normal(mean: float, deviation: float, *dims: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return (mean + deviation * rng.standard_normal(dims, dtype=np.float32)).astype(np.float32)

    arrays = {
        "up": normal(0, WIDTH**-0.5, WIDTH, INNER),
        "up_bias": normal(0, 0.02, INNER),
        "down": normal(0, INNER**-0.5, INNER, WIDTH),
        "down_bias": normal(0, 0.02, WIDTH),
        "gain": normal(1, 0.1, WIDTH),
        "shift": normal(0, 0.02, WIDTH),
    }
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def build(path: Path) -> Path:
    """Write the model with its seeded weights."""
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["raised"]),
        helper.make_node("Add", ["raised", "up_bias"], ["biased"]),
        helper.make_node("Gelu", ["biased"], ["bent"]),
        helper.make_node("MatMul", ["bent", "down"], ["lowered"]),
        helper.make_node("Add", ["lowered", "down_bias"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "gain", "shift"], ["y"], axis=-1, epsilon=1e-5),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", WIDTH])],
        _weights(seed=2026),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def inputs(batch: int, length: int = 1, seed: int = 0) -> Arrays:
    """Rows [batch, 512]; there is no length."""
    if length != 1:
        raise ValueError(f"mlp has no length dim: length must be 1, got {length}")
    return {"x": np.random.default_rng([seed, batch]).standard_normal((batch, WIDTH), dtype=np.float32)}
