"""The first step of a decoder has an empty past: what was compiled takes it as any other, and nothing is compiled when it comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import anyshape
from anyshape import ops
from benchmarks.models import load

Arrays = dict[str, np.ndarray]
F, B = TensorProto.FLOAT, TensorProto.BOOL
HEADS, SIZE = 2, 8


def info(name: str, kind: int, shape: list[int | str] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: str, weights: Arrays | None = None
) -> onnx.ModelProto:
    results = [onnx.ValueInfoProto(name=n) for n in outputs.split()]
    held = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, results, held), opset_imports=opsets, ir_version=10)


PAST = ["batch", HEADS, "past", SIZE]


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def caches(past: int) -> Arrays:
    return {"pk": numbers(1, 2, HEADS, past, SIZE), "pv": numbers(2, 2, HEADS, past, SIZE)}


def tokens(length: int) -> Arrays:
    return {n: numbers(k, 2, HEADS, length, SIZE) for k, n in enumerate("qkv")}


def rows(length: int) -> Arrays:
    return {n: numbers(k, 2, length, HEADS * SIZE) for k, n in enumerate("qkv")}


def by_hand() -> tuple[onnx.ModelProto, Callable[[int, int], Arrays]]:
    """Concat, and attention of plain operators."""
    node = helper.make_node
    nodes = [
        node("Concat", ["pk", "k"], ["ak"], axis=2), node("Concat", ["pv", "v"], ["av"], axis=2),
        node("Transpose", ["ak"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "t"], ["s"]), node("Softmax", ["s"], ["w"], axis=-1), node("MatMul", ["w", "av"], ["y"]),
    ]  # fmt: skip
    inputs = [info(n, F, ["batch", HEADS, "length", SIZE]) for n in "qkv"] + [info(n, F, PAST) for n in ("pk", "pv")]
    return model(nodes, inputs, "y ak av"), lambda past, length: {**tokens(length), **caches(past)}


def one_token() -> tuple[onnx.ModelProto, Callable[[int, int], Arrays]]:
    """Makes the decoder by hand for one new token at a time, whose length is no symbol."""
    proto, feed = by_hand()
    for i in proto.graph.input[:3]:
        i.type.tensor_type.shape.dim[2].dim_value = 1
    return proto, lambda past, _: feed(past, 1)


def of_onnx() -> tuple[onnx.ModelProto, Callable[[int, int], Arrays]]:
    """ONNX's operator."""
    names = ["q", "k", "v", "", "pk", "pv"]
    nodes = [helper.make_node("Attention", names, ["y", "ak", "av"])]
    inputs = [info(n, F, ["batch", HEADS, "length", SIZE]) for n in "qkv"] + [info(n, F, PAST) for n in ("pk", "pv")]
    return model(nodes, inputs, "y ak av"), lambda past, length: {**tokens(length), **caches(past)}


def multi_head() -> tuple[onnx.ModelProto, Callable[[int, int], Arrays]]:
    """com.microsoft's MultiHeadAttention."""
    names = ["q", "k", "v", "", "", "", "pk", "pv"]
    nodes = [helper.make_node("MultiHeadAttention", names, ["y", "ak", "av"], domain="com.microsoft", num_heads=HEADS)]
    inputs = [info(n, F, ["batch", "length", HEADS * SIZE]) for n in "qkv"] + [info(n, F, PAST) for n in ("pk", "pv")]
    return model(nodes, inputs, "y ak av"), lambda past, length: {**rows(length), **caches(past)}


def grouped_query() -> tuple[onnx.ModelProto, Callable[[int, int], Arrays]]:
    """com.microsoft's GroupQueryAttention, whose past is as long as it is filled."""
    names = ["q", "k", "v", "pk", "pv", "lengths", "total"]
    attributes = {"num_heads": HEADS, "kv_num_heads": HEADS, "domain": "com.microsoft"}
    nodes = [helper.make_node("GroupQueryAttention", names, ["y", "ak", "av"], **attributes)]
    inputs = [info(n, F, ["batch", "length", HEADS * SIZE]) for n in "qkv"] + [info(n, F, PAST) for n in ("pk", "pv")]
    inputs += [info("lengths", TensorProto.INT32, ["batch"]), info("total", TensorProto.INT32, [])]

    def feed(past: int, length: int) -> Arrays:
        total = past + length
        return {
            **rows(length),
            **caches(past),
            "lengths": np.full(2, total - 1, np.int32),
            "total": np.array(total, np.int32),
        }

    return model(nodes, inputs, "y ak av"), feed


def merged() -> tuple[onnx.ModelProto, Callable[[int, int], Arrays]]:
    """Makes both steps in one file, as exporters write it: the first branch reads the past of the decoder and that of the encoder, the
    other computes the latter."""
    node = helper.make_node
    with_past = [node("Concat", ["pk", "k"], ["ak"], axis=2), node("Identity", ["pv"], ["e"])]
    without = [node("Identity", ["k"], ["bk"]), node("Mul", ["encoded", "two"], ["f"])]
    branches = (
        helper.make_graph(n, "b", [], [onnx.ValueInfoProto(name=o) for o in names])
        for n, names in ((with_past, ("ak", "e")), (without, ("bk", "f")))
    )
    then, other = branches
    nodes = [
        node("If", ["use"], ["ck", "ce"], then_branch=then, else_branch=other),
        node("ReduceSum", ["ce", "axes"], ["y"], keepdims=0),
    ]
    inputs = [
        info("k", F, ["batch", HEADS, "length", SIZE]), info("pk", F, PAST), info("pv", F, ["batch", HEADS, "encoder_past", SIZE]),
        info("encoded", F, ["batch", HEADS, "encoder", SIZE]), info("use", B, []),
    ]  # fmt: skip

    def feed(past: int, length: int) -> Arrays:
        encoded = numbers(3, 2, HEADS, 5, SIZE)
        kept = encoded * np.float32(2) if past else encoded[:, :, :0]
        return {
            "k": tokens(length)["k"],
            "pk": caches(past)["pk"],
            "pv": kept,
            "encoded": encoded,
            "use": np.array(past > 0),
        }

    weights = {"two": np.float32(2), "axes": np.array([2])}
    return model(nodes, inputs, "y ck", {n: np.asarray(a) for n, a in weights.items()}), feed


DECODERS = {f.__name__: f for f in (by_hand, one_token, of_onnx, multi_head, grouped_query, merged)}


@pytest.mark.parametrize("name", DECODERS)
def test_nothing_is_compiled_for_an_empty_past(name: str) -> None:
    proto, feed = DECODERS[name]()
    exe = anyshape.compile(proto)
    theirs = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for past, length in ((0, 3), (3, 1), (0, 1), (7, 1)):
        inputs = feed(past, length)
        got = exe.run(inputs)
        assert exe.compiled_after_first_call == 0 and len(exe.plan.programs) == 1, (past, length)
        for a, b in zip(got, theirs.run(None, inputs), strict=True):
            np.testing.assert_allclose(a, b, 2e-5, 1e-6)


def test_gpt2_begins_with_an_empty_past(tmp_path: Path) -> None:
    """The last of two tokens has the same logits in one step as after a step of the first."""
    gpt2 = load("gpt2")
    exe = anyshape.compile(gpt2.build(tmp_path / "m.onnx"))
    feed = {n: a[:, :, :0] if a.ndim == 4 else a for n, a in gpt2.inputs(1, 1).items()}
    ids = np.array([[5, 9]])
    whole = exe.run({**feed, "ids": ids, "mask": np.ones((1, 2), np.int64)})
    first = dict(zip(exe.output_names, exe.run({**feed, "ids": ids[:, :1], "mask": np.ones((1, 1), np.int64)})))
    kept = dict(
        zip(
            sorted(n for n in feed if feed[n].ndim == 4),
            [first[n] for n in sorted(n for n in first if first[n].ndim == 4)],
        )
    )
    assert {a.shape for a in kept.values()} == {(1, 4, 1, 64)}
    second = exe.run({**kept, "ids": ids[:, 1:], "mask": np.ones((1, 2), np.int64)})
    np.testing.assert_allclose(second[0][:, -1], whole[0][:, -1], 1e-3, 1e-4)
    assert exe.compiled_after_first_call == 0


KEPT = {
    "the last ones": lambda kv, p: kv[:, -16:],
    "the first ones": lambda kv, p: kv[:, :16],
    "every other one": lambda kv, p: kv[:, ::2],
    "the last ones, before there are more": lambda kv, p: ops.concat([p[:, -15:], kv[:, p.shape[1] :]], axis=1),
    "rows of all": lambda kv, p: kv.reshape(-1, 8),
}


@pytest.mark.parametrize("name", KEPT)
def test_part_of_what_is_kept_may_be_all_that_comes_out(name: str) -> None:
    p, x = anyshape.input("p", "f32[b, past, 8]"), anyshape.input("x", "f32[b, t, 8]")
    exe = anyshape.compile(anyshape.function([p, x], KEPT[name](ops.concat([p, x], axis=1), p)))
    exe(np.zeros((2, 0, 8), np.float32), np.zeros((2, 3, 8), np.float32))
    assert exe.compiled_after_first_call == 0


def test_a_size_that_makes_a_result_empty_is_assumed_not_to_be_0() -> None:
    x, k = anyshape.input("x", "f32[n, m]"), anyshape.input("k", "f32[k]")
    exe = anyshape.compile(anyshape.function([x, k], ops.reshape(x, (-1,))[: k.shape[0]]))
    exe(np.zeros((0, 3), np.float32), np.zeros(2, np.float32))
    assert exe.compiled_after_first_call == 1


def test_what_is_not_put_behind_another_is_assumed_not_to_be_empty() -> None:
    """Batches and lengths stay so, which keeps their programs as simple as they were."""
    x, p = anyshape.input("x", "f32[batch, n]"), anyshape.input("p", "f32[batch, past]")
    exe = anyshape.compile(anyshape.function([x, p], ops.concat([p, ops.exp(x)], axis=1)))
    assert exe(np.ones((2, 3), np.float32), np.ones((2, 0), np.float32)).shape == (2, 3)
    assert exe.compiled_after_first_call == 0
    assert exe(np.ones((0, 3), np.float32), np.ones((0, 1), np.float32)).shape == (0, 4)
    assert exe.compiled_after_first_call == 1
    lone = anyshape.compile(anyshape.function([x], ops.concat([x, x], axis=1)))
    assert lone(np.ones((2, 0), np.float32)).shape == (2, 0) and lone.compiled_after_first_call == 1
