"""mobilenet: inverted residuals with depthwise convolutions, as MobileNetV2 (Sandler et al., 2018); batch, height, width dynamic.

Comes in: a seed. Goes out: an ONNX file of 14 MB of opset 17, the normalisations folded into the convolutions as exporters do.
`length` of SHAPES is the height and width of the images.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.models import Arrays
from benchmarks.models.network import Network

SHAPES = [(1, 64), (1, 97), (1, 160), (1, 224), (2, 128), (4, 96)]
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
"""Expansion, channels, blocks, stride of the first block."""


def _clipped(net: Network, x: str) -> str:
    return net.add("Clip", x, net.constant(np.array(0, np.float32)), net.constant(np.array(6, np.float32)))


def _block(net: Network, x: str, c: int, m: int, expansion: int, stride: int) -> str:
    wide = c * expansion
    y = _clipped(net, net.conv(x, c, wide, 1)) if expansion > 1 else x
    y = _clipped(net, net.conv(y, wide, wide, 3, stride, groups=wide))
    y = net.conv(y, wide, m, 1, gain=1.0)
    return net.add("Add", x, y) if c == m and stride == 1 else y


def build(path: Path) -> Path:
    """Write the model with its seeded weights."""
    net = Network(seed=2029)
    x, c = _clipped(net, net.conv("x", 3, 32, 3, 2)), 32
    for expansion, m, blocks, stride in STAGES:
        for k in range(blocks):
            x, c = _block(net, x, c, m, expansion, stride if k == 0 else 1), m
    x = _clipped(net, net.conv(x, c, 1280, 1))
    flat = net.add("Flatten", net.add("GlobalAveragePool", x))
    y = net.add("Gemm", flat, net.normal(1280**-0.5, 1000, 1280), net.normal(0.02, 1000), transB=1)
    return net.write(path, {"x": ["batch", 3, "height", "width"]}, {y: ["batch", 1000]})


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Images [batch, 3, length, length]."""
    rng = np.random.default_rng([seed, batch, length])
    return {"x": rng.standard_normal((batch, 3, length, length), dtype=np.float32)}
