"""ConvTranspose at sizes that no compiler knows: what onnxruntime computes, and the form that each call takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper

import anyshape
from anyshape import ops
from anyshape.passes import optimise
from tests.frontends.models import tensor

Array = np.ndarray[Any, Any]
BY_PHASE, OF_PRODUCTS = {"conv"}, {"window_products", "phase_sums"}
IN_ORDER = {"window_products", "overlap_add"}
"""The ops that a call becomes that are more than moves: a convolution for each position modulo the strides; products of windows, which are
added up for each such position; and products that are added one after the other, where a window has gaps."""
SIZES: dict[int, list[tuple[int, ...]]] = {1: [(1,), (7,)], 2: [(5, 4), (1, 9)], 3: [(3, 2, 4)]}
# channels, results, taps, attributes, the form with weights that are known
TABLE: dict[str, tuple[int, int, list[int], dict[str, Any], set[str]]] = {
    "4 taps by 2": (3, 2, [4, 4], {"strides": [2, 2], "pads": [1, 1, 1, 1]}, BY_PHASE),
    "2 taps by 2": (2, 3, [2, 2], {"strides": [2, 2]}, BY_PHASE),
    "3 taps by 2": (3, 2, [3, 3], {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}, OF_PRODUCTS),
    "5 taps by 2": (2, 2, [5, 5], {"strides": [2, 2], "pads": [2, 1, 0, 2]}, OF_PRODUCTS),
    "fewer taps than the stride": (2, 2, [2, 1], {"strides": [3, 2]}, OF_PRODUCTS),
    "a tap by 2": (2, 2, [1], {"strides": [2], "output_padding": [1]}, OF_PRODUCTS),
    "3 taps by 1": (2, 3, [3, 3], {"pads": [1, 0, 1, 2]}, BY_PHASE),
    "dilated by 1": (2, 3, [3, 2], {"dilations": [2, 3]}, BY_PHASE),
    "dilated by 2": (2, 2, [3, 4], {"dilations": [2, 1], "strides": [2, 2], "pads": [1] * 4}, IN_ORDER),
    "dilated by 3": (2, 2, [4], {"dilations": [2], "strides": [3], "pads": [4, 1]}, IN_ORDER),
    "groups": (4, 6, [4, 2], {"strides": [2, 1], "group": 2}, BY_PHASE),
    "groups of 3 taps": (4, 2, [3, 3], {"strides": [2, 2], "group": 2}, OF_PRODUCTS),
    "depthwise": (5, 5, [4, 4], {"strides": [2, 2], "group": 5, "pads": [1] * 4}, BY_PHASE),
    "one axis": (3, 2, [6], {"strides": [3], "pads": [2, 3]}, BY_PHASE),
    "three axes": (2, 2, [2, 4, 2], {"strides": [2, 2, 1], "pads": [0, 1, 0, 0, 1, 1]}, BY_PHASE),
    "three axes of 3 taps": (2, 2, [3, 3, 3], {"strides": [2, 2, 2], "pads": [1] * 6, "output_padding": [1, 0, 1]}, OF_PRODUCTS),
    "pads of whole strides": (2, 2, [4], {"strides": [2], "pads": [1, 2]}, BY_PHASE),
    "VALID": (2, 2, [4, 4], {"strides": [2, 2], "auto_pad": "VALID"}, BY_PHASE),
    "SAME_UPPER": (2, 2, [4, 4], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, BY_PHASE),
    "SAME_LOWER": (2, 2, [3, 4], {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, OF_PRODUCTS),
}  # fmt: skip


def model(name: str, weights: Array | None, bias: Array) -> ModelProto:
    channels, results, taps, attributes, _ = TABLE[name]
    rank = len(taps)
    shape = [channels, results // attributes.get("group", 1), *taps]
    inputs = [tensor("x", ["b", channels, *[f"n{k}" for k in range(rank)]])]
    inputs += [tensor("w", shape)] if weights is None else []
    held = [numpy_helper.from_array(bias, "bias")]
    held += [] if weights is None else [numpy_helper.from_array(weights, "w")]
    node = helper.make_node("ConvTranspose", ["x", "w", "bias"], ["y"], kernel_shape=taps, **attributes)
    graph = helper.make_graph([node], "g", inputs, [tensor("y", None)], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def drawn(name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    channels, results, taps, attributes, _ = TABLE[name]
    weights = rng.normal(size=(channels, results // attributes.get("group", 1), *taps)).astype(np.float32)
    return weights, rng.normal(size=results).astype(np.float32)


def outlying(x: Array, rng: np.random.Generator) -> Array:
    """The array with an infinity of either sign and NaN at places of their own."""
    x = x.copy()
    x.reshape(-1)[rng.choice(x.size, 3, replace=x.size < 3)] = [np.inf, -np.inf, np.nan]
    return x


def agree(source: ModelProto, feeds: list[dict[str, Array]]) -> None:
    ours = anyshape.compile(source.SerializeToString())
    theirs = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    for feed in feeds:
        (want,), (got,) = theirs.run(None, feed), ours.run(feed)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TABLE)
def test_weights_of_a_model(name: str) -> None:
    rng = np.random.default_rng(7)
    weights, bias = drawn(name, rng)
    xs = [rng.normal(size=(2, weights.shape[0], *n)).astype(np.float32) for n in SIZES[weights.ndim - 2]]
    agree(model(name, weights, bias), [{"x": a} for x in xs for a in (x, outlying(x, rng))])


@pytest.mark.parametrize("name", TABLE)
def test_weights_that_are_passed(name: str) -> None:
    rng = np.random.default_rng(8)
    weights, bias = drawn(name, rng)
    xs = [rng.normal(size=(2, weights.shape[0], *n)).astype(np.float32) for n in SIZES[weights.ndim - 2]]
    feeds = [{"x": x, "w": w} for x in xs for w in (weights, outlying(weights, rng))]
    agree(model(name, None, bias), feeds)


@pytest.mark.parametrize("name", ["4 taps by 2", "3 taps by 2", "dilated by 1"])
def test_infinite_weights_of_a_model(name: str) -> None:
    """What is outside of x is no zero that they are multiplied with."""
    rng = np.random.default_rng(9)
    weights, bias = drawn(name, rng)
    agree(model(name, outlying(weights, rng), bias), [{"x": np.ones((1, weights.shape[0], 3, 4), np.float32)}])


def form(weights: Any, **params: Any) -> set[str]:
    """The ops of the graph that a call becomes which are no moves."""
    x = anyshape.input("x", f"f32[b, 2, {', '.join(f'n{k}' for k in range(len(weights.shape) - 2))}]")
    inputs = [x] if isinstance(weights, np.ndarray) else [x, weights]
    f = optimise(anyshape.function(inputs, ops.conv_transpose(x, weights, **params)))
    return {n.op.name for n in f.nodes} & (BY_PHASE | OF_PRODUCTS | IN_ORDER)


@pytest.mark.parametrize("name", TABLE)
def test_the_form_of_weights_that_are_known(name: str) -> None:
    _, _, taps, attributes, want = TABLE[name]
    params = {("groups" if k == "group" else k): v for k, v in attributes.items()}
    weights = np.ones((2, 2 // params.get("groups", 1) or 1, *taps), np.float32)
    params |= {"groups": 2} if "groups" in params else {}
    assert form(weights, **params) == want


def test_the_form_of_other_weights() -> None:
    params: dict[str, Any] = {"strides": [2, 2]}
    known = np.ones((2, 3, 4, 4), np.float32)
    assert form(known, **params) == BY_PHASE
    known[0, 0, 0, 0] = np.inf
    assert form(known, **params) == OF_PRODUCTS
    assert form(anyshape.input("w", "f32[2, 3, 4, 4]"), **params) == OF_PRODUCTS
    assert form(anyshape.input("w", "f32[2, 3, k, k]"), **params) == OF_PRODUCTS
    assert form(anyshape.input("w", "f32[2, 3, k, k]"), **params, dilations=[2, 2]) == IN_ORDER


def test_weights_that_are_known_are_rearranged_once() -> None:
    """The filters of the phases are a constant: no call of the program rearranges them."""
    x = anyshape.input("x", "f32[1, 2, h, w]")
    known = np.arange(2 * 3 * 16, dtype=np.float32).reshape(2, 3, 4, 4)
    f = optimise(anyshape.function([x], ops.conv_transpose(x, known, np.ones(3, np.float32), strides=[2, 2])))
    (conv,) = [n for n in f.nodes if n.op.name == "conv"]
    filters, bias = conv.inputs[1], conv.inputs[2]
    assert filters is not None and filters.constant is not None and filters.constant.shape == (12, 2, 2, 2)
    assert bias is not None and bias.constant is not None and bias.constant.shape == (12,)


def test_strides_that_only_the_call_tells() -> None:
    x, w = anyshape.input("x", "f32[b, 2, n]"), anyshape.input("w", "f32[2, 3, 3]")
    strides, dilations = anyshape.input("s", "i64[1]"), anyshape.input("d", "i64[1]")
    e = anyshape.compile(
        anyshape.function([x, w, strides, dilations], ops.conv_transpose(x, w, strides=strides, dilations=dilations))
    )
    rng = np.random.default_rng(10)
    a, f = rng.normal(size=(2, 2, 4)).astype(np.float32), rng.normal(size=(2, 3, 3)).astype(np.float32)
    for s in (1, 2, 5):
        for d in (1, 3):
            want = np.zeros((2, 3, 3 * s + 2 * d + 1), np.float32)
            for n in range(4):
                for k in range(3):
                    want[:, :, n * s + k * d] += a[:, :, n] @ f[:, :, k]
            np.testing.assert_allclose(e(a, f, np.array([s]), np.array([d])), want, rtol=1e-4, atol=1e-5)
