"""Small models that are valid for some sizes only, and calls of them at any sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import anyshape
from anyshape.errors import AnyshapeError
from anyshape.frontends.symbolic_shapes import Shapes
from tests.frontends.models import model, node, tensor

I64 = onnx.TensorProto.INT64
BOOL = onnx.TensorProto.BOOL


def _ints(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers)


def _halves() -> onnx.ModelProto:
    """Halves rows, of which there must be an even number, and adds the halves."""
    nodes = [node("Reshape", "x pairs", "p"), node("ReduceSum", "p one", "y", keepdims=0)]
    return model(nodes, [tensor("x", ["n", "m"])], "y", {"pairs": _ints(2, -1, 3), "one": _ints(0)})


def _cache() -> onnx.ModelProto:
    """Appends keys to a cache, and adds a mask."""
    nodes = [node("Concat", "past new", "all", axis=1), node("Add", "all mask", "y")]
    inputs = [tensor("past", ["b", "past", 2]), tensor("new", ["b", "seq", 2]), tensor("mask", ["b", "total", 1])]
    return model(nodes, inputs, "y")


def _windows() -> onnx.ModelProto:
    nodes = [node("Conv", "x w", "c", strides=[2]), node("MaxPool", "c", "y", kernel_shape=[3])]
    return model(nodes, [tensor("x", [1, 1, "n"])], "y", {"w": np.ones((1, 1, 4), np.float32)})


def _computed() -> onnx.ModelProto:
    """Reshapes to a shape that the model computes of another input's."""
    nodes = [
        node("Shape", "like", "s"), node("Gather", "s zero", "first"), node("Concat", "first rest", "shape", axis=0),
        node("Reshape", "x shape", "r"), node("MatMul", "r w", "y"),
    ]  # fmt: skip
    constants = {"zero": _ints(0), "rest": _ints(-1)}
    return model(nodes, [tensor("x", ["n"]), tensor("like", ["m", 2]), tensor("w", ["k", 2])], "y", constants)


def _asked() -> onnx.ModelProto:
    """The shape is an input."""
    return model([node("Expand", "x s", "y")], [tensor("x", ["n", 1]), tensor("s", [2], I64)], "y")


def _split() -> onnx.ModelProto:
    nodes = [node("Split", "x parts", "a b"), node("Add", "a u", "y"), node("Sub", "b v", "z")]
    return model(nodes, [tensor("x", ["n"]), tensor("u", ["m"]), tensor("v", ["m"])], "y z", {"parts": _ints(2, 3)})


def _branches() -> onnx.ModelProto:
    """One branch has a condition of its own."""
    then = onnx.helper.make_graph([node("Add", "x w", "t")], "then", [], [tensor("t", None)])
    otherwise = onnx.helper.make_graph([node("Neg", "x", "e")], "otherwise", [], [tensor("e", None)])
    nodes = [node("If", "c", "y", then_branch=then, else_branch=otherwise)]
    return model(nodes, [tensor("x", ["n"]), tensor("w", ["m"]), tensor("c", [], BOOL)], "y")


def _counted() -> onnx.ModelProto:
    """Adds to what is not 0, whose number must be that of another input, or one of them is 1."""
    nodes = [
        node("NonZero", "x", "p"),
        node("Squeeze", "p zero", "i"),
        node("Cast", "i", "f", to=1),
        node("Add", "f v", "y"),
    ]
    return model(nodes, [tensor("x", ["n"]), tensor("v", ["m"])], "y", {"zero": _ints(0)})


MODELS = {f.__name__.strip("_"): f for f in (_halves, _cache, _windows, _computed, _asked, _split, _branches, _counted)}


@cache
def compiled(name: str) -> anyshape.Executable:
    return anyshape.compile(MODELS[name]())


@cache
def inferred(name: str) -> Shapes:
    return anyshape.shapes(MODELS[name]())


def feed_of(shapes: Shapes, sizes: Mapping[str, int], **values: Any) -> dict[str, NDArray[Any]]:
    """Ones for all inputs, at these sizes; elements of inputs that sizes name, and `values` of inputs."""
    feed: dict[str, NDArray[Any]] = {}
    for name in shapes.inputs:
        t = shapes.values[name].type
        assert t is not None and t.shape is not None
        dims = [n if isinstance(n, int) else sizes.get(str(n), 1) for n in t.shape]
        feed[name] = np.ones(dims, t.dtype.numpy)
        for k in range(feed[name].size if t.rank == 1 else 0):
            feed[name][k] = sizes.get(f"{name}[{k}]", feed[name][k])
    return feed | {n: np.array(v) for n, v in values.items()}


def refusal(name: str, feed: Mapping[str, NDArray[Any]]) -> str:
    """What a run says that fails; empty for one that does not."""
    try:
        compiled(name).run(feed)
    except AnyshapeError as e:
        return str(e)
    return ""
