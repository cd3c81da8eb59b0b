"""A decoder like Llama as an ONNX file: root-mean-square norms, rotary positions, grouped heads, gated MLPs.

In: a size, weights, seeded ones in `int4` (codes in groups of 32 with a scale each) or `f32` or those of a file, and how keys and values
are kept. Out: a file with its weights beside it. The model takes ids of any number of new words, and a cache of keys and values, and gives
scores and the cache with the new words. Any engine that has the operators of the domain com.microsoft runs it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from attention import ONNX, Cache, GroupedAttention, WrittenAttention  # type: ignore[import-not-found]  # files beside this one
from builder import SIZES, Builder, Size  # type: ignore[import-not-found]
from onnx import TensorProto, helper
from weights import SeededWeights, WeightSource  # type: ignore[import-not-found]

__all__ = ["SIZES", "Cache", "Size", "build"]


def build(
    path: Path,
    size: Size,
    weights: str | WeightSource = "int4",
    seed: int = 0,
    cache: Cache | None = None,
    of_bytes: bool = False,
) -> int:
    """Writes the model to `path` and its weights beside it; returns the bytes of weights that one word reads. `of_bytes`: products may
    round what they multiply codes with to 8 bits."""
    source = SeededWeights(size.words, size.width, weights, seed) if isinstance(weights, str) else weights
    b, cache = Builder(size, source, of_bytes), cache or Cache()
    x = b.node("Gather", b.constant(source.table()), "ids")
    angles = np.arange(size.longest)[:, None] / size.base ** (np.arange(size.head // 2) * 2 / size.head)
    cosines, sines = b.constant(np.cos(angles).astype(np.float32)), b.constant(np.sin(angles).astype(np.float32))
    attention = (GroupedAttention if cache.grows else WrittenAttention)(b, cache, cosines, sines)
    for layer in range(size.layers):
        x = b.node("Add", x, _attended(b, attention, b.norm(x), layer))
        x = b.node("Add", x, _gated(b, b.norm(x)))
    x = b.product(b.norm(x), size.width, size.words)
    b.node("Identity", x, outputs=("scores",))
    beside = path.with_name(f"{path.name}.weights")
    beside.unlink(missing_ok=True)  # what is there would be added to
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(_model(b, cache), path, save_as_external_data=True, location=beside.name, size_threshold=1024)
    return b.weight_bytes


def _attended(b: Builder, attention: GroupedAttention | WrittenAttention, x: str, layer: int) -> str:
    size, k = b.size, b.size.cached_heads * b.size.head
    q, keys, values = b.product(x, size.width, size.width), b.product(x, size.width, k), b.product(x, size.width, k)
    return b.product(attention.read(q, keys, values, layer), size.width, size.width)


def _gated(b: Builder, x: str) -> str:
    gate, up = (b.product(x, b.size.width, b.size.inner) for _ in range(2))
    silu = b.node("Mul", gate, b.node("Sigmoid", gate))
    return b.product(b.node("Mul", silu, up), b.size.inner, b.size.width)


def _model(b: Builder, cache: Cache) -> onnx.ModelProto:
    info, i32, i64, f32 = helper.make_tensor_value_info, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT
    inputs = [info("ids", i64, ["batch", "new"]), info("last", i32, ["batch"]), info("total", i32, [])]
    outputs = [info("scores", f32, ["batch", "new", b.size.words])]
    after = "total" if cache.grows else "past"
    for t in cache.tensors(b.size):
        inputs.append(info(f"past_{t.name}", ONNX[t.dtype], ["batch", t.heads, "past", t.width]))
        outputs.append(info(f"present_{t.name}", ONNX[t.dtype], ["batch", t.heads, after, t.width]))
    graph = helper.make_graph(b.nodes, "language_model", inputs, outputs, b.constants)
    opsets = [helper.make_opsetid("", 21 if cache.grows else 24), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10 if cache.grows else 11)
