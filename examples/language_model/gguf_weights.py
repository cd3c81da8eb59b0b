"""Weights of models like Llama in GGUF files: of such a file as those of the model here, and of the model as a file for llama.cpp.

Codes are the same numbers in both. A block has the codes of 32 elements, of 4 bits the first 16 in the low halves of its bytes and the
others in the high ones, where the model has neighbours in a byte. llama.cpp rotates elements that are neighbours where the model rotates
halves of a head, so that rows of the weights of queries and keys are in that order there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from builder import Size  # type: ignore[import-not-found]  # files beside this one
from gguf_file import GgufError, GgufFile, GgufTensor, read_gguf, write_gguf  # type: ignore[import-not-found]
from numpy.typing import NDArray
from onnx import numpy_helper
from weights import GROUP, Codes, Floats, ProductWeights  # type: ignore[import-not-found]

PRODUCTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
"""Names of a layer's products, in the order in which the model has them."""


def size_of(file: GgufFile) -> Size:
    """The size of a model. Raises GgufError for one that is not like Llama."""
    kind = file.metadata.get("general.architecture")
    if kind != "llama":
        raise GgufError(f"a model of the architecture {kind}, and not llama")
    of = {key.removeprefix("llama."): value for key, value in file.metadata.items() if key.startswith("llama.")}
    heads = of["attention.head_count"]
    return Size(
        words=file.tensors["token_embd.weight"].shape[0],
        width=of["embedding_length"],
        inner=of["feed_forward_length"],
        layers=of["block_count"],
        heads=heads,
        cached_heads=of.get("attention.head_count_kv", heads),
        longest=of["context_length"],
        base=of.get("rope.freq_base", 10_000.0),
        epsilon=of["attention.layer_norm_rms_epsilon"],
    )


class GgufWeights:
    """The weights of a file."""

    def __init__(self, file: GgufFile) -> None:
        self._file, self._size = file, size_of(file)
        layers = range(self._size.layers)
        self._products = iter([*(f"blk.{n}.{name}.weight" for n in layers for name in PRODUCTS), "output.weight"])
        norms = (f"blk.{n}.{name}.weight" for n in layers for name in ("attn_norm", "ffn_norm"))
        self._norms = iter([*norms, "output_norm.weight"])

    def table(self) -> NDArray[np.float32]:
        return floats_of(self._file.tensors["token_embd.weight"])

    def norm(self) -> NDArray[np.float32]:
        return floats_of(self._file.tensors[next(self._norms)])

    def product(self, k: int, n: int) -> ProductWeights:
        name = next(self._products)
        tensor = (
            self._file.tensors.get(name) or self._file.tensors["token_embd.weight"]
        )  # both are one, where there is no other
        if tensor.shape != (n, k):
            raise GgufError(f"{name} is of {tensor.shape}, and not {(n, k)}")
        heads = {"attn_q": self._size.heads, "attn_k": self._size.cached_heads}.get(name.split(".")[-2])
        rows = tensor.data if heads is None else by_halves(tensor.data, heads)
        return weights_of(GgufTensor(tensor.format, tensor.shape, rows))


def weights_of(tensor: GgufTensor) -> ProductWeights:
    """The weights of a product whose rows are those of a tensor."""
    n, k = tensor.shape
    if tensor.format in ("F32", "F16"):
        return Floats(np.ascontiguousarray(floats_of(tensor).T))
    blocks = tensor.data.reshape(n, k // GROUP, -1)
    scales = _f16(blocks, 0)
    if tensor.format == "Q8_0":
        return Codes(bits=8, codes=blocks[..., 2:] ^ np.uint8(128), scales=scales)
    raw = blocks[..., -GROUP // 2 :]
    codes = _with_neighbours(np.concatenate([raw & 15, raw >> 4], axis=-1))
    offsets = _f16(blocks, 1) + 8 * scales if tensor.format == "Q4_1" else None
    return Codes(bits=4, codes=codes, scales=scales, offsets=offsets)


def floats_of(tensor: GgufTensor) -> NDArray[np.float32]:
    """The elements of a tensor in f32."""
    if tensor.format in ("F32", "F16"):
        kind = np.float32 if tensor.format == "F32" else np.float16
        return np.ascontiguousarray(tensor.data).view(kind).astype(np.float32)
    w = weights_of(tensor)
    assert isinstance(w, Codes)
    raw = w.codes if w.bits == 8 else np.stack([w.codes & 15, w.codes >> 4], axis=-1).reshape(*w.codes.shape[:2], GROUP)
    values = (raw.astype(np.float32) - (1 << (w.bits - 1))) * w.scales[..., None]
    return (values if w.offsets is None else values + w.offsets[..., None]).reshape(tensor.shape)


def _f16(blocks: NDArray[np.uint8], place: int) -> NDArray[np.float32]:
    """The f16 at a place at the beginning of each block."""
    return np.ascontiguousarray(blocks[..., 2 * place : 2 * place + 2]).view(np.float16)[..., 0].astype(np.float32)


def _with_neighbours(each: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes of 4 bits, neighbours in one byte."""
    packed: NDArray[np.uint8] = each[..., ::2] | each[..., 1::2] << 4
    return packed


def by_halves(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of each head, of which neighbours are rotated together, with those of two halves so."""
    return np.ascontiguousarray(rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape))


def by_neighbours(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows of each head, of which halves are rotated together, with those of neighbours so."""
    return np.ascontiguousarray(rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape))


def for_llama_cpp(path: Path, size: Size) -> Path:
    """Writes the weights of a model's file beside it."""
    out = path.with_suffix(".gguf")
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": size.longest,
        "llama.embedding_length": size.width,
        "llama.block_count": size.layers,
        "llama.feed_forward_length": size.inner,
        "llama.attention.head_count": size.heads,
        "llama.attention.head_count_kv": size.cached_heads,
        "llama.rope.dimension_count": size.head,
        "llama.rope.freq_base": float(size.base),
        "llama.attention.layer_norm_rms_epsilon": size.epsilon,
        "llama.vocab_size": size.words,
        "tokenizer.ggml.model": "no_vocab",
    }
    write_gguf(out, metadata, _tensors(onnx.load(path), size))
    return out


def _tensors(model: onnx.ModelProto, size: Size) -> Iterator[tuple[str, str, NDArray[Any]]]:
    """The tensors by the names that GGUF has for them."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    products, norms = [], []
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            products.append(("Q4_0", q4_0(arrays[node.input[1]], arrays[node.input[2]])))
        elif node.op_type == "MatMul" and node.input[1] in arrays:
            products.append(("F32", np.ascontiguousarray(arrays[node.input[1]].T)))
        elif node.op_type == "SimplifiedLayerNormalization":
            norms.append(arrays[node.input[1]])
        elif node.op_type == "Gather" and node.input[1] == "ids":
            yield "token_embd.weight", "F32", arrays[node.input[0]]
    for layer in range(size.layers):
        own = products[layer * len(PRODUCTS) : (layer + 1) * len(PRODUCTS)]
        for name, (form, weights) in zip(PRODUCTS, own, strict=True):
            heads = {"attn_q": size.heads, "attn_k": size.cached_heads}.get(name)
            yield f"blk.{layer}.{name}.weight", form, weights if heads is None else by_neighbours(weights, heads)
        yield f"blk.{layer}.attn_norm.weight", "F32", norms[2 * layer]
        yield f"blk.{layer}.ffn_norm.weight", "F32", norms[2 * layer + 1]
    yield "output_norm.weight", "F32", norms[-1]
    yield "output.weight", *products[-1]


def q4_0(codes: NDArray[np.uint8], scales: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Codes [n, groups, 16] and their scales as rows of blocks, [n, groups * 18]. Raises ValueError for scales that f16 does not have."""
    n, groups, _ = codes.shape
    wide = scales.reshape(n, groups, 1)
    narrow = wide.astype(np.float16)
    if (narrow.astype(np.float32) != wide).any():
        raise ValueError("a scale of Q4_0 is an f16, and one of the model's is none")
    each = np.stack([codes & 15, codes >> 4], axis=-1).reshape(n, groups, GROUP)
    packed = each[..., : GROUP // 2] | each[..., GROUP // 2 :] << 4
    return np.concatenate([narrow.view(np.uint8), packed], axis=-1).reshape(n, -1)


def read_weights(path: Path) -> tuple[GgufFile, Size]:
    """A file, and the size of its model."""
    file = read_gguf(path)
    return file, size_of(file)
