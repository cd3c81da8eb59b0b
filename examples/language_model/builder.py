"""Sizes of the language model, and what writes its ONNX file node by node.

In: a size, and how weights are kept. Out: nodes, constants, and the bytes of weights that one word reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

GROUP = 32
"""Weights that share a scale."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a model of one family is measured by."""

    words: int
    width: int
    inner: int
    layers: int
    heads: int
    cached_heads: int
    longest: int = 4096

    @property
    def head(self) -> int:
        return self.width // self.heads


SIZES = {
    "tiny": Size(words=256, width=128, inner=352, layers=2, heads=4, cached_heads=2),
    "100m": Size(words=32_000, width=768, inner=2048, layers=12, heads=12, cached_heads=4),
    "1b": Size(words=32_000, width=2048, inner=8192, layers=16, heads=32, cached_heads=8),
}


@dataclass
class Builder:
    """Nodes and weights in the order in which they are written; every method gives the name of a result."""

    size: Size
    weights: str
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    weight_bytes: int = 0

    def node(self, op: str, *inputs: str, outputs: tuple[str, ...] = (), domain: str = "", **attributes: Any) -> str:
        outputs = outputs or (f"{op}_{len(self.nodes)}",)
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, array: NDArray[Any]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *numbers: int) -> str:
        """A vector of i64."""
        return self.constant(np.array(numbers, np.int64))

    def scalar(self, number: float, dtype: type = np.float32) -> str:
        return self.constant(np.array(number, dtype))

    def product(self, x: str, k: int, n: int) -> str:
        """x [..., k] times weights [k, n] of standard deviation 1 / sqrt(k)."""
        if self.weights == "f32":
            w = (self.rng.standard_normal((k, n), np.float32) / np.float32(np.sqrt(k))).astype(np.float32)
            self.weight_bytes += w.nbytes
            return self.node("MatMul", x, self.constant(w))
        codes = self.rng.integers(0, 256, (n, k // GROUP, GROUP // 2), np.uint8)
        spread = np.sqrt((16**2 - 1) / 12)  # of codes that are uniform in 0..15
        scales = np.full(
            n * k // GROUP, np.float16(1 / (spread * np.sqrt(k))), np.float32
        )  # any format has a number of f16
        self.weight_bytes += codes.nbytes + scales.nbytes
        form = {"K": k, "N": n, "bits": 4, "block_size": GROUP}
        return self.node("MatMulNBits", x, self.constant(codes), self.constant(scales), domain="com.microsoft", **form)

    def norm(self, x: str) -> str:
        scale = self.constant(1 + self.rng.standard_normal(self.size.width, np.float32) / 10)
        return self.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5)
