"""ONNX's Attention with heads of queries that share keys and values: nothing is repeated in memory for them, nor widened, in any form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import anyshape
from anyshape.dims import evaluate, free_symbols
from anyshape.vm.program.memory_plan import SCRATCH

HEADS, GROUPS, WIDTH = 8, 2, 16
LONG = 20_000
KEYS = GROUPS * LONG * WIDTH * 4
"""Bytes of keys of f32."""
SCALES = {"one": (), "of heads": (GROUPS,), "of elements": (WIDTH,)}
AXES = {"one": 0, "of heads": 1, "of elements": 3}


@dataclass(frozen=True, kw_only=True)
class Form:
    """Queries, keys and values by head (of four axes) or by token (of three); `mask`: its dtype and dims; `scores`: which of them are a
    result; `stored`: what keys and values are before they are widened, `scale` that they are dequantised by, with a `zero` point, or a
    `factor` that they are multiplied by. `copied`: keys or values are in memory once more, for each group."""

    rank: int = 4
    past: bool = False
    mask: tuple[int, tuple[Any, ...]] | None = None
    scores: int | None = None
    opset: int = 23
    dtype: int = TensorProto.FLOAT
    stored: int | None = None
    scale: str | None = None
    zero: bool = False
    factor: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    copied: bool = False

    def model(self) -> ModelProto:
        stored = self.stored or self.dtype
        inputs = [_value("q", self.dtype, self._shape(HEADS, "s"))]
        inputs += [_value(name, stored, self._shape(GROUPS, "t")) for name in "kv"]
        attributes = dict(self.attributes)
        if self.rank == 3:
            attributes.update(q_num_heads=HEADS, kv_num_heads=GROUPS)
        constants: list[TensorProto] = []
        nodes = [node for name in "kv" for node in self._before(name, inputs, constants)]
        read = ["q", *(f"{name}0" for name in "kv")] if nodes else ["q", "k", "v"]
        if self.mask is not None:
            inputs.append(_value("m", self.mask[0], list(self.mask[1])))
            read.append("m")
        results = ["y"]
        if self.past:
            inputs += [_value(name, self.dtype, ["b", GROUPS, "p", WIDTH]) for name in ("pk", "pv")]
            read += ["pk", "pv"] if self.mask is not None else ["", "pk", "pv"]
            results += ["keys", "values"]
        if self.scores is not None:
            results += [""] * (3 - len(results)) + ["scores"]
            attributes["qk_matmul_output_mode"] = self.scores
        nodes.append(helper.make_node("Attention", read, results, **attributes))
        outputs = [_value(name, self.dtype, None) for name in results if name]
        graph = helper.make_graph(nodes, "grouped", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def _shape(self, heads: int, tokens: str) -> list[Any]:
        return ["b", heads, tokens, WIDTH] if self.rank == 4 else ["b", tokens, heads * WIDTH]

    def _before(self, name: str, inputs: list[Any], constants: list[TensorProto]) -> list[Any]:
        if self.scale is not None:
            codes = np.uint8 if self.stored == TensorProto.UINT8 else np.int8
            shape = SCALES[self.scale]
            drawn = np.random.default_rng(len(shape)).uniform(0.01, 0.03, shape)
            constants.append(numpy_helper.from_array(np.asarray(drawn, np.float32), f"{name}_scale"))
            read = [name, f"{name}_scale"]
            if self.zero:
                constants.append(numpy_helper.from_array(np.zeros(shape, codes), f"{name}_zero"))
                read.append(f"{name}_zero")
            return [helper.make_node("DequantizeLinear", read, [f"{name}0"], axis=AXES[self.scale])]
        if self.factor:
            inputs.append(_value(f"{name}_factor", self.dtype, []))
            return [helper.make_node("Mul", [name, f"{name}_factor"], [f"{name}0"])]
        if self.stored is not None:
            return [helper.make_node("Cast", [name], [f"{name}0"], to=self.dtype)]
        return []

    def arguments(self, queries: int, tokens: int, past: int = 0) -> dict[str, Any]:
        rng = np.random.default_rng(queries + tokens)
        sizes = {"b": 1, "s": queries, "t": tokens, "p": past, "all": tokens + past}
        arguments = {}
        for i in self.model().graph.input:
            shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in i.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
            drawn = rng.integers(-60, 60, shape) if dtype.kind in "iu" else rng.normal(size=shape)
            arguments[i.name] = (drawn > -1).astype(dtype) if dtype.kind == "b" else np.asarray(drawn).astype(dtype)
        return arguments


def _value(name: str, dtype: int, shape: list[Any] | None) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


F32, F16, BF16, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL
FORMS = {
    "by head": Form(),
    "by token": Form(rank=3, copied=True),
    "opset 24": Form(opset=24),
    "past": Form(past=True),
    "past by token": Form(rank=3, past=True, opset=24),
    "mask": Form(mask=(F32, ("s", "t"))),
    "mask of batches": Form(mask=(BOOL, ("b", 1, "s", "t"))),
    "mask of heads and past": Form(mask=(F32, ("b", HEADS, "s", "all")), past=True),
    "causal": Form(attributes={"is_causal": 1}),
    "causal behind a past": Form(past=True, attributes={"is_causal": 1}),
    "softcap": Form(attributes={"softcap": 2.0}, past=True, rank=3),
    **{f"scores {mode}": Form(scores=mode) for mode in range(4)},
    "softmax in f16": Form(attributes={"softmax_precision": F16}),
    "f16": Form(dtype=F16),
    "bf16": Form(dtype=BF16),
    "bf16 widened": Form(stored=BF16),
    "f16 widened": Form(stored=F16, rank=3, copied=True),
    "times a number": Form(factor=True, copied=True),
    **{f"dequantised, scales: {name}": Form(stored=TensorProto.INT8, scale=name) for name in SCALES},
    "dequantised, zero points": Form(stored=TensorProto.INT8, scale="of elements", zero=True),
    "dequantised, u8": Form(stored=TensorProto.UINT8, scale="one", copied=True),
}


@pytest.mark.parametrize("name", FORMS)
def test_results(name: str) -> None:
    """One query, fewer than heads of a group, and more."""
    form = FORMS[name]
    exe = anyshape.compile(form.model())
    slow = anyshape.compile(form.model(), kernels="interpret", fuse=False)
    exact = form.dtype == F32 and not form.attributes.get("softmax_precision")
    for queries, tokens, past in ((1, 37, 5), (3, 5, 4), (7, 9, 0), (2, 1, 1)):
        arguments = form.arguments(queries, tokens, past)
        for got, want in zip(exe.run(arguments), slow.run(arguments), strict=True):
            got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
            np.testing.assert_allclose(
                got, want, rtol=0, atol=(1e-5 if exact else 0.03) * max(1, np.abs(want).max(initial=0))
            )


def held(model: ModelProto, past: bool, **options: Any) -> dict[str, int]:
    """Bytes of memory for what is neither an argument nor a result, for one query, by what it is."""
    exe = anyshape.compile(model, threads=1, **options)
    sizes = {"b": 1, "s": 1, "t": 1, "p": LONG - 1} if past else {"b": 1, "s": 1, "t": LONG}
    sizes.update(all=LONG)
    areas = [a for p in exe.plan.programs if p.memory is not None for a in p.memory.areas]
    bytes_ = [(c, t.bytes) for a in areas for c, t in zip(a.contents, a.tenants, strict=True)]
    return {c: int(evaluate(n, {s: sizes.get(s.name, 1) for s in free_symbols(n)})) for c, n in bytes_}


@pytest.mark.parametrize("name", FORMS)
def test_memory(name: str) -> None:
    """Values are no larger than keys for each group, and shorter than these where they are read in place; scratch has room for rows of
    scores and the packed keys of one head."""
    form = FORMS[name]
    memory = held(form.model(), form.past)
    values = [n for what, n in memory.items() if what != SCRATCH]
    assert max(values) <= KEYS if form.copied else max(values) < KEYS // 2
    assert sum(n for what, n in memory.items() if what == SCRATCH) < HEADS * KEYS // GROUPS


def test_keys_that_are_repeated_would_be_seen() -> None:
    assert max(held(FORMS["by head"].model(), False, fuse=False).values()) == HEADS * KEYS // GROUPS
