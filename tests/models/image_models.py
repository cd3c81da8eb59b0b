"""Small image networks of the three usual shapes, built with onnx.helper: seeded weights, batch, height and width unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Nodes and weights, one after the other; a value is its name."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape) * (2 / np.prod(shape[1:])) ** 0.5)

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def norm(self, x: str, n: int) -> str:
        scale, bias, mean = (self.constant(self.rng.normal(size=n) * 0.1 + k) for k in (1, 0, 0))
        return self("BatchNormalization", x, scale, bias, mean, self.constant(self.rng.uniform(0.5, 1.5, n)))

    def conv(self, x: str, c: int, m: int, k: int = 3, act: str = "Relu", **attributes: Any) -> str:
        groups = attributes.get("group", 1)
        y = self("Conv", x, self.weight(m, c // groups, k, k), pads=[k // 2] * 4, **attributes)
        y = self.norm(y, m)
        return self(act, y) if act else y

    def head(self, x: str, c: int, classes: int = 10) -> str:
        y = self("Flatten", self("GlobalAveragePool", x))
        return self("Gemm", y, self.weight(classes, c), self.constant(np.zeros(classes)), transB=1)

    def model(self, result: str, rank: int) -> bytes:
        sizes = ["n", 10] if rank == 2 else ["n", 2, "p", "q"]
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, sizes)],
            self.weights,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(proto)
        return proto.SerializeToString()


def resnet(seed: int = 0) -> bytes:
    """A stem with max pooling, then residual blocks, one of them with a stride and a projection."""
    net = Net(seed)
    x = net.conv("x", 3, 8, 7, strides=[2, 2])
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for c, m, stride in ((8, 8, 1), (8, 16, 2)):
        y = net.conv(net.conv(x, c, m, strides=[stride] * 2), m, m, act="")
        short = x if c == m else net.conv(x, c, m, 1, act="", strides=[stride] * 2)
        x = net("Relu", net("Add", y, short))
    return net.model(net.head(x, 16), 2)


def mobilenet(seed: int = 1) -> bytes:
    """Inverted residuals: wide, depthwise, narrow."""
    net = Net(seed)
    x = net.conv("x", 3, 8, strides=[2, 2], act="HardSwish")
    for c, m, stride in ((8, 8, 1), (8, 12, 2), (12, 12, 1)):
        y = net.conv(x, c, 4 * c, 1, act="HardSwish")
        y = net.conv(y, 4 * c, 4 * c, 3, act="HardSwish", group=4 * c, strides=[stride] * 2)
        y = net.conv(y, 4 * c, m, 1, act="")
        x = net("Add", x, y) if c == m and stride == 1 else y
    return net.model(net.head(x, 12), 2)


def unet(seed: int = 2) -> bytes:
    """Down by average pooling, up by transposed convolution and by resizing to the size of what is joined."""
    net = Net(seed)
    high = net.conv("x", 3, 6)
    middle = net.conv(
        net("AveragePool", high, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), 6, 8, dilations=[1, 1]
    )
    low = net.conv(net("MaxPool", middle, kernel_shape=[2, 2], strides=[2, 2]), 8, 8)
    up = net("ConvTranspose", low, net.weight(8, 8, 2, 2), strides=[2, 2])
    up = _resized(net, up, middle, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = net.conv(net("Concat", up, middle, axis=1), 16, 8)
    x = _resized(net, x, high, mode="linear", coordinate_transformation_mode="half_pixel")
    x = net.conv(net("Concat", x, high, axis=1), 14, 6)
    return net.model(net("Conv", x, net.weight(2, 6, 1, 1), net.constant(np.zeros(2))), 4)


def _resized(net: Net, x: str, like: str, **attributes: Any) -> str:
    """x to the height and width of another tensor."""
    channels = net("Shape", x, end=2)
    sizes = net("Concat", channels, net("Shape", like, start=2), axis=0)
    return net("Resize", x, "", "", sizes, **attributes)


NETS = {"resnet": resnet, "mobilenet": mobilenet, "unet": unet}
