"""Sizes of the language model, and what writes its ONNX file node by node.

In: a size, and where weights come from. Out: nodes, constants, and the bytes of weights that one word reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from weights import GROUP, Floats, WeightSource  # type: ignore[import-not-found]  # a file beside this one


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
    base: float = 10_000.0
    """How much slower the last pair of a head rotates than the first"""
    epsilon: float = 1e-5

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
    source: WeightSource
    of_bytes: bool = False
    """Whether products may round what they multiply codes with to 8 bits"""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    weight_bytes: int = 0
    _known_sums: dict[str, str] = field(default_factory=dict)

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
        """x [batch, new, k] times the next weights, [batch, new, n]."""
        w = self.source.product(k, n)
        self.weight_bytes += w.nbytes
        if isinstance(w, Floats):
            return self.node("MatMul", x, self.constant(w.array))
        form = {"K": k, "N": n, "bits": w.bits, "block_size": GROUP}
        if self.of_bytes:
            form["accuracy_level"] = 4
        inputs = x, self.constant(w.codes), self.constant(w.scales.reshape(-1))
        y = self.node("MatMulNBits", *inputs, domain="com.microsoft", **form)
        if w.offsets is None:
            return y
        offsets = self.constant(np.ascontiguousarray(w.offsets.T))
        return self.node("Add", y, self.node("MatMul", self._sums(x, k), offsets))

    def _sums(self, x: str, k: int) -> str:
        """The sums of groups of x, with which the offsets of the weights are multiplied; the products of one x share them."""
        if x not in self._known_sums:
            groups = self.node("Reshape", x, self.ints(0, 0, k // GROUP, GROUP))
            self._known_sums[x] = self.node("ReduceSum", groups, self.ints(-1), keepdims=0)
        return self._known_sums[x]

    def norm(self, x: str) -> str:
        scale = self.constant(self.source.norm())
        return self.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=self.size.epsilon)
