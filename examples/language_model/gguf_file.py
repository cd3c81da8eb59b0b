"""The language model as a GGUF file, for llama.cpp: the same weights, codes of 4 bits as blocks of Q4_0.

A block of Q4_0 is a scale in f16 and the codes of 32 elements, the first 16 in the low halves of its bytes and the others in the high ones;
an element is the scale times the code less 8, as MatMulNBits without zero points has it. llama.cpp rotates elements that are neighbours
where the model rotates halves of a head, so that rows of the weights of queries and keys are put in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from builder import GROUP  # type: ignore[import-not-found]  # files beside this one
from language_model import Size  # type: ignore[import-not-found]
from numpy.typing import NDArray
from onnx import numpy_helper

PRODUCTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
"""Names of a layer's products, in the order in which the model has them."""


def write_gguf(path: Path, size: Size) -> Path:
    """Writes the weights of a model's file beside it."""
    import gguf

    out = path.with_suffix(".gguf")
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_context_length(size.longest)
    writer.add_embedding_length(size.width)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.inner)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.cached_heads)
    writer.add_rope_dimension_count(size.head)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(size.words)
    writer.add_tokenizer_model("no_vocab")
    for name, array in _tensors(onnx.load(path), size):
        if array.dtype == np.uint8:
            writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def _tensors(model: onnx.ModelProto, size: Size) -> Iterator[tuple[str, NDArray[Any]]]:
    """The tensors by the names that GGUF has for them: those of Q4_0 as bytes, others as f32."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    products, norms = [], []
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            products.append(_blocks(arrays[node.input[1]], arrays[node.input[2]]))
        elif node.op_type == "MatMul" and node.input[1] in arrays:
            products.append(np.ascontiguousarray(arrays[node.input[1]].T))
        elif node.op_type == "SimplifiedLayerNormalization":
            norms.append(arrays[node.input[1]])
        elif node.op_type == "Gather" and node.input[1] == "ids":
            yield "token_embd.weight", arrays[node.input[0]]
    for layer in range(size.layers):
        own = products[layer * len(PRODUCTS) : (layer + 1) * len(PRODUCTS)]
        for name, weights in zip(PRODUCTS, own, strict=True):
            heads = {"attn_q": size.heads, "attn_k": size.cached_heads}.get(name)
            yield f"blk.{layer}.{name}.weight", weights if heads is None else _by_neighbours(weights, heads)
        yield f"blk.{layer}.attn_norm.weight", norms[2 * layer]
        yield f"blk.{layer}.ffn_norm.weight", norms[2 * layer + 1]
    yield "output_norm.weight", norms[-1]
    yield "output.weight", products[-1]


def _blocks(codes: NDArray[np.uint8], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Codes [n, groups, 16] and their scales as rows of blocks, [n, groups * 18]. Raises ValueError for scales that f16 does not have."""
    n, groups, _ = codes.shape
    narrow = scales.reshape(n, groups, 1).astype(np.float16)
    if (narrow.astype(np.float32) != scales.reshape(n, groups, 1)).any():
        raise ValueError("a scale of Q4_0 is an f16, and one of the model's is none")
    each = np.stack([codes & 15, codes >> 4], axis=-1).reshape(n, groups, GROUP)
    packed = each[..., : GROUP // 2] | each[..., GROUP // 2 :] << 4
    return np.concatenate([narrow.view(np.uint8), packed], axis=-1).reshape(n, -1)


def _by_neighbours(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of each head with those of its two halves in turn."""
    return np.ascontiguousarray(rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape))
