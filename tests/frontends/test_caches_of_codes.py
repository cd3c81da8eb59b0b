"""com.microsoft's GroupQueryAttention with caches of codes: products read them as bytes, and nothing so long is widened in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import anyshape
from anyshape.dims import evaluate, free_symbols
from anyshape.vm.program.memory_plan import SCRATCH

HEADS, GROUPS, WIDTH, ROOM = 8, 2, 64, 12
LONG = 20_000
CODES = GROUPS * LONG * WIDTH
"""Bytes of keys of one byte each."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """A cache of integers of so many bits, with one scale or one for each element of each head. `constant`: whether scales are."""

    bits: int = 8
    kind: str = "PER_TENSOR"
    constant: bool = True
    dtype: int = TensorProto.FLOAT
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def stored(self) -> int:
        return TensorProto.INT8 if self.bits == 8 else TensorProto.UINT8

    def model(self) -> ModelProto:
        value = helper.make_tensor_value_info
        inputs = [
            value(n, self.dtype, ["b", "s", h * WIDTH]) for n, h in zip("qkv", (HEADS, GROUPS, GROUPS), strict=True)
        ]
        inputs += [value(n, self.stored, ["b", GROUPS, "p", WIDTH * self.bits // 8]) for n in ("past_k", "past_v")]
        inputs += [value("last", TensorProto.INT32, ["b"]), value("total", TensorProto.INT32, [])]
        names = [*(i.name for i in inputs), "", "", "", "", "", "k_scale", "v_scale"]
        scales = [numpy_helper.from_array(a, n) for n, a in self.scales().items()]
        if not self.constant:
            inputs += [value(s.name, TensorProto.FLOAT, list(s.dims)) for s in scales]
        results = [value("y", self.dtype, None), value("keys", self.stored, None), value("values", self.stored, None)]
        attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "kv_cache_bit_width": self.bits, **self.attributes}
        attributes |= {"k_quant_type": self.kind, "v_quant_type": self.kind}
        node = helper.make_node(
            "GroupQueryAttention", names, ["y", "keys", "values"], domain="com.microsoft", **attributes
        )
        graph = helper.make_graph([node], "step", inputs, results, scales if self.constant else [])
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def scales(self) -> dict[str, np.ndarray]:
        shape = (1, GROUPS, 1, WIDTH) if self.kind == "PER_CHANNEL" else (1,)
        rng = np.random.default_rng(7)
        return {n: rng.uniform(0.01, 0.03, shape).astype(np.float32) for n in ("k_scale", "v_scale")}

    def arguments(self, tokens: int, past: list[int], room: int) -> dict[str, np.ndarray]:
        """Arguments of so many new tokens in each batch, behind a past of its own."""
        rng, b = np.random.default_rng(tokens + room), len(past)
        dtype = helper.tensor_dtype_to_np_dtype(self.dtype)
        low, high, dims = (-128, 128, WIDTH) if self.bits == 8 else (0, 256, WIDTH // 2)
        feeds = {
            n: rng.normal(size=(b, tokens, h * WIDTH)).astype(dtype)
            for n, h in zip("qkv", (HEADS, GROUPS, GROUPS), strict=True)
        }
        stored = helper.tensor_dtype_to_np_dtype(self.stored)
        feeds |= {n: rng.integers(low, high, (b, GROUPS, room, dims)).astype(stored) for n in ("past_k", "past_v")}
        feeds |= {"last": np.array(past, np.int32) + tokens - 1, "total": np.array(max(past) + tokens, np.int32)}
        return feeds if self.constant else {**feeds, **self.scales()}


FORMS = {
    **{f"{bits} bits, {kind}": Form(bits=bits, kind=kind) for bits in (8, 4) for kind in ("PER_TENSOR", "PER_CHANNEL")},
    "scales of the run": Form(kind="PER_CHANNEL", constant=False),
    "f16": Form(dtype=TensorProto.FLOAT16),
    "softcap": Form(attributes={"softcap": 2.0}),
    "smooth": Form(bits=4, attributes={"smooth_softmax": 1}),
    "a window": Form(attributes={"local_window_size": 3}),
    "a cache of a window": Form(attributes={"local_window_size": 3, "sliding_window_cache": 1}),
    "a cache of a window, 4 bits": Form(bits=4, attributes={"local_window_size": 3, "sliding_window_cache": 1}),
}


@pytest.mark.parametrize("name", FORMS)
def test_results(name: str) -> None:
    """One token and several, of batches of different lengths, as the interpreter has them without fusion."""
    form = FORMS[name]
    exe = anyshape.compile(form.model())
    slow = anyshape.compile(form.model(), kernels="interpret", fuse=False)
    for tokens, past in ((1, [5]), (1, [7, 2]), (3, [4, 1])):
        feeds = form.arguments(tokens, past, ROOM)
        (y, *caches), (want, *kept) = exe.run(feeds), slow.run(feeds)
        np.testing.assert_allclose(y, want, rtol=0, atol=1e-5 if form.dtype == TensorProto.FLOAT else 4e-3)
        for got, cache in zip(caches, kept, strict=True):
            np.testing.assert_array_equal(got, cache)


def dequantised(form: Form, codes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    numbers = codes.astype(np.float64)
    if form.bits == 4:
        numbers = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:3], WIDTH) - 8.0
    return numbers * (scale if scale.size > 1 else scale.item())


@pytest.mark.parametrize(
    "name", ["8 bits, PER_CHANNEL", "4 bits, PER_TENSOR", "4 bits, PER_CHANNEL", "scales of the run"]
)
def test_scores_are_those_of_dequantised_keys(name: str) -> None:
    """Keys and values of the present, dequantised in float64; with one scale of another head the results would be others."""
    form = FORMS[name]
    feeds, scales = form.arguments(1, [6], ROOM), form.scales()
    y, keys, values = anyshape.compile(form.model()).run(feeds)
    q = feeds["q"].astype(np.float64).reshape(GROUPS, HEADS // GROUPS, WIDTH)

    def attended(of_keys: np.ndarray, of_values: np.ndarray) -> np.ndarray:
        k, v = (dequantised(form, a[:, :, :7], s)[0] for a, s in ((keys, of_keys), (values, of_values)))
        e = np.exp(q @ np.swapaxes(k, 1, 2) / np.sqrt(WIDTH))
        return (e / e.sum(-1, keepdims=True) @ v).reshape(1, 1, -1)

    np.testing.assert_allclose(y, attended(scales["k_scale"], scales["v_scale"]), rtol=0, atol=1e-5)
    if form.kind == "PER_CHANNEL":
        other = scales["v_scale"][:, ::-1]
        assert np.abs(y - attended(scales["k_scale"], other)).max() > 1e-3


def held(model: ModelProto, **options: Any) -> int:
    """Bytes of the largest value in memory that is neither an argument nor a result, for one query."""
    exe = anyshape.compile(model, threads=1, **options)
    areas = [a for p in exe.plan.programs if p.memory is not None for a in p.memory.areas]
    bytes_ = [t.bytes for a in areas for c, t in zip(a.contents, a.tenants, strict=True) if c != SCRATCH]
    return max(int(evaluate(n, {s: 1 if s.name in ("b", "s") else LONG for s in free_symbols(n)})) for n in bytes_)


@pytest.mark.parametrize("name", FORMS)
def test_memory(name: str) -> None:
    """Rows of scores, and codes as bytes where the cache has two in one, or less than all of them; but no keys of four bytes an element."""
    assert held(FORMS[name].model()) < 2 * CODES


def test_keys_that_are_widened_would_be_seen() -> None:
    assert held(FORMS["8 bits, PER_TENSOR"].model(), fuse=False) >= 4 * CODES
