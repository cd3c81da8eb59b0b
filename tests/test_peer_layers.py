"""Networks as layers for engines that read no ONNX: what is a layer, what is part of one, and ncnn's text of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks import ncnn_engine
from benchmarks.layers import network

W = np.arange(4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)


def model(*nodes: Any, shape: tuple[Any, ...] = ("n", 3, "h", "w"), w: Any = W) -> onnx.ModelProto:
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [*nodes],
        "g",
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in {"w": w, "low": 0, "high": 6}.items()],
    )
    return helper.make_model(graph)


def conv(output: str, **attributes: Any) -> Any:
    return helper.make_node("Conv", ["x", "w"], [output], pads=[1, 1, 1, 1], **attributes)


def test_an_activation_is_part_of_the_convolution_before_it() -> None:
    (layer,) = network(model(conv("a"), helper.make_node("Clip", ["a", "low", "high"], ["y"]))).layers
    assert (layer.operator, layer.output, layer.range, layer.pads) == ("Conv", "y", (0.0, 6.0), (1, 1, 1, 1))
    assert layer.bias is not None and not layer.bias.any() and len(layer.bias) == 4


def test_what_another_layer_reads_is_no_part_of_it() -> None:
    relu, add = helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["a", "b"], ["y"])
    assert [layer.operator for layer in network(model(conv("a"), relu, add)).layers] == ["Conv", "Relu", "Add"]


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (model(helper.make_node("Softmax", ["x"], ["y"])), "Softmax is no layer"),
        (model(helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER")), "padded by a rule"),
        (model(conv("y"), shape=("n", "c", "h", "w")), "input x is no picture"),
        (model(helper.make_node("Conv", ["x", "x"], ["y"])), "Conv is no layer"),
    ],
)
def test_what_is_no_layer_is_refused(refused: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network(refused)


def test_the_text_of_layers() -> None:
    """A value with two readers is split; a convolution of groups has a kind of its own; weights have a word ahead of them."""
    relu, add = helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Add", ["a", "b"], ["y"])
    text, weights = ncnn_engine.written(network(model(conv("a", strides=[1, 2]), relu, add)))
    assert text.splitlines() == [
        "7767517",
        "5 6",
        "Input x 0 1 x",
        "Convolution a 1 1 x a 0=4 1=3 11=3 2=1 12=1 3=2 13=1 4=1 14=1 15=1 16=1 5=1 6=108",
        "Split split/a 1 2 a a/1 a/2",
        "ReLU b 1 1 a/1 b",
        "BinaryOp y 2 1 a/2 b y 0=0",
    ]
    assert weights == np.zeros(1, np.int32).tobytes() + W.tobytes() + np.zeros(4, np.float32).tobytes()
    depthwise, _ = ncnn_engine.written(network(model(conv("y", group=3), w=W[:3, :1])))
    assert "ConvolutionDepthWise y 1 1 x y 0=3" in depthwise and "6=27 7=3" in depthwise


def test_a_form_that_is_not_written_is_refused() -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2])
    with pytest.raises(ValueError, match="MaxPool of this form"):
        ncnn_engine.written(network(model(pool)))
