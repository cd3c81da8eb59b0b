"""resnet18: 18 layers of convolutions with shortcuts (He et al., 2015); batch, height and width dynamic; opset 17.

Comes in: a seed. Goes out: an ONNX file of 47 MB, the normalisations folded into the convolutions as exporters do.
`length` of SHAPES is the height and width of the images.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.models import Arrays
from benchmarks.models.network import Network

SHAPES = [(1, 64), (1, 97), (1, 160), (1, 224), (2, 128), (4, 96)]
STAGES = [(64, 1), (128, 2), (256, 2), (512, 2)]
BLOCKS = 2


def _block(net: Network, x: str, c: int, m: int, stride: int) -> str:
    y = net.add("Relu", net.conv(x, c, m, 3, stride))
    y = net.conv(y, m, m, 3, gain=0.5)
    short = x if c == m and stride == 1 else net.conv(x, c, m, 1, stride, gain=1.0)
    return net.add("Relu", net.add("Add", y, short))


def build(path: Path) -> Path:
    """Write the model with its seeded weights."""
    net = Network(seed=2028)
    x = net.add("Relu", net.conv("x", 3, 64, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    c = 64
    for m, stride in STAGES:
        for k in range(BLOCKS):
            x, c = _block(net, x, c, m, stride if k == 0 else 1), m
    flat = net.add("Flatten", net.add("GlobalAveragePool", x))
    y = net.add("Gemm", flat, net.normal(c**-0.5, 1000, c), net.normal(0.02, 1000), transB=1)
    return net.write(path, {"x": ["batch", 3, "height", "width"]}, {y: ["batch", 1000]})


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Images [batch, 3, length, length]."""
    rng = np.random.default_rng([seed, batch, length])
    return {"x": rng.standard_normal((batch, 3, length, length), dtype=np.float32)}
