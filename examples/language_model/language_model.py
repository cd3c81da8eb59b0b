"""A decoder like Llama with seeded weights, as an ONNX file: root-mean-square norms, rotary positions, grouped heads, gated MLPs.

Comes in: a size, and how weights are kept, `int4` (codes in groups of 32 with a scale each) or `f32`. Goes out: a file with its weights
beside it. The model takes ids of any number of new words, and a cache of keys and values of any length, and gives scores and the cache with
the new words. Any engine that has the operators of the domain com.microsoft runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

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

    @property
    def caches(self) -> list[str]:
        """The names of the caches, without `past_` or `present_`."""
        return [f"{kind}_{layer}" for layer in range(self.layers) for kind in ("keys", "values")]


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

    def product(self, x: str, k: int, n: int) -> str:
        """x [..., k] times weights [k, n] of standard deviation 1 / sqrt(k)."""
        if self.weights == "f32":
            w = (self.rng.standard_normal((k, n), np.float32) / np.float32(np.sqrt(k))).astype(np.float32)
            self.weight_bytes += w.nbytes
            return self.node("MatMul", x, self.constant(w))
        codes = self.rng.integers(0, 256, (n, k // GROUP, GROUP // 2), np.uint8)
        spread = np.sqrt((16**2 - 1) / 12)  # of codes that are uniform in 0..15
        scales = np.full(n * k // GROUP, 1 / (spread * np.sqrt(k)), np.float32)
        self.weight_bytes += codes.nbytes + scales.nbytes
        form = {"K": k, "N": n, "bits": 4, "block_size": GROUP}
        return self.node("MatMulNBits", x, self.constant(codes), self.constant(scales), domain="com.microsoft", **form)

    def norm(self, x: str) -> str:
        scale = self.constant(1 + self.rng.standard_normal(self.size.width, np.float32) / 10)
        return self.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5)

    def attention(self, x: str, layer: int, cosines: str, sines: str) -> str:
        s, k = self.size, self.size.cached_heads * self.size.head
        q, keys, values = self.product(x, s.width, s.width), self.product(x, s.width, k), self.product(x, s.width, k)
        names = [f"keys_{layer}", f"values_{layer}"]
        inputs = [q, keys, values, *(f"past_{n}" for n in names), "last", "total", cosines, sines]
        outputs = (f"attended_{layer}", *(f"present_{n}" for n in names))
        heads = {"num_heads": s.heads, "kv_num_heads": s.cached_heads, "do_rotary": 1}
        y = self.node("GroupQueryAttention", *inputs, outputs=outputs, domain="com.microsoft", **heads)
        return self.product(y, s.width, s.width)

    def mlp(self, x: str) -> str:
        gate, up = (self.product(x, self.size.width, self.size.inner) for _ in range(2))
        silu = self.node("Mul", gate, self.node("Sigmoid", gate))
        return self.product(self.node("Mul", silu, up), self.size.inner, self.size.width)


def build(path: Path, size: Size, weights: str = "int4", seed: int = 0) -> int:
    """Writes the model to `path` and its weights beside it; reangles the bytes of weights that one word reads."""
    b = Builder(size, weights, np.random.default_rng(seed))
    x = b.node("Gather", b.constant(b.rng.standard_normal((size.words, size.width), np.float32)), "ids")
    angles = np.arange(size.longest)[:, None] / 10_000.0 ** (np.arange(size.head // 2) * 2 / size.head)
    cosines, sines = b.constant(np.cos(angles).astype(np.float32)), b.constant(np.sin(angles).astype(np.float32))
    for layer in range(size.layers):
        x = b.node("Add", x, b.attention(b.norm(x), layer, cosines, sines))
        x = b.node("Add", x, b.mlp(b.norm(x)))
    x = b.product(b.norm(x), size.width, size.words)
    b.node("Identity", x, outputs=("scores",))
    beside = path.with_name(f"{path.name}.weights")
    beside.unlink(missing_ok=True)  # what is there would be added to
    onnx.save_model(_model(b), path, save_as_external_data=True, location=beside.name, size_threshold=1024)
    return b.weight_bytes


def _model(b: Builder) -> onnx.ModelProto:
    cache = ["batch", b.size.cached_heads, "past", b.size.head]
    info, i32, i64, f32 = helper.make_tensor_value_info, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT
    inputs = [info("ids", i64, ["batch", "new"]), info("last", i32, ["batch"]), info("total", i32, [])]
    inputs += [info(f"past_{n}", f32, cache) for n in b.size.caches]
    outputs = [info("scores", f32, ["batch", "new", b.size.words])]
    outputs += [info(f"present_{n}", f32, [*cache[:2], "total", cache[3]]) for n in b.size.caches]
    graph = helper.make_graph(b.nodes, "language_model", inputs, outputs, b.constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
