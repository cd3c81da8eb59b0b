"""lstm: one bidirectional LSTM layer of 256 hidden over 256 features; batch and length dynamic; opset 17.

Comes in: a seed. Goes out: an ONNX file of 4 MB. Steps depend on each other: products of few rows, again and again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.models import Arrays
from benchmarks.models.network import Network

WIDTH = 256
SHAPES = [(1, 1), (1, 16), (1, 64), (2, 33), (4, 64), (16, 32), (16, 128)]


def build(path: Path) -> Path:
    """Write the model with its seeded weights."""
    net = Network(seed=2030)
    deviation = WIDTH**-0.5
    weights = [net.normal(deviation, 2, 4 * WIDTH, WIDTH) for _ in range(2)]
    net.add("LSTM", "x", *weights, net.normal(0.05, 2, 8 * WIDTH), hidden_size=WIDTH, direction="bidirectional")
    y = net.add("Identity", "v0")
    return net.write(path, {"x": ["length", "batch", WIDTH]}, {y: ["length", 2, "batch", WIDTH]})


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Sequences [length, batch, 256]."""
    rng = np.random.default_rng([seed, batch, length])
    return {"x": rng.standard_normal((length, batch, WIDTH), dtype=np.float32)}
