"""What the networks that are written by hand share: nodes and seeded weights, one after the other, as exporters leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Every method adds a node and returns the name of its result."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value: NDArray[Any]) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def normal(self, deviation: float, *shape: int) -> str:
        return self.constant((deviation * self.rng.standard_normal(shape, dtype=np.float32)).astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def conv(self, x: str, c: int, m: int, k: int, stride: int = 1, groups: int = 1, gain: float = 2.0) -> str:
        """Adds a convolution with a bias, into which exporters fold the normalisation that follows; the size of numbers is kept where
        `gain` is 2 and half of the results are cut off."""
        fan = c // groups * k * k
        weight, bias = self.normal((gain / fan) ** 0.5, m, c // groups, k, k), self.normal(0.05, m)
        return self.add("Conv", x, weight, bias, pads=[k // 2] * 4, strides=[stride] * 2, group=groups)

    def write(self, path: Path, inputs: dict[str, list[str | int]], outputs: dict[str, list[str | int]]) -> Path:
        """An ONNX file of opset 17 with these f32 inputs and outputs."""

        def values(named: dict[str, list[str | int]]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in named.items()]

        graph = helper.make_graph(self.nodes, path.stem, values(inputs), values(outputs), self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)
        return path
