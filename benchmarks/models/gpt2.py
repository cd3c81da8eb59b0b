"""gpt2: one step of a decoder of 4 layers, 256 hidden, 4 heads, with its cache of keys and values; opset 17, as torch exports it.

Comes in: the committed structure and a seed. Goes out: an ONNX file of 13 MB with logits and the cache with the step's own
entries. `length` of SHAPES is how many words came before: one new word each is written.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.models import Arrays, structure
from benchmarks.models.zoo.arguments import step

LAYERS, HEADS, WIDTH = 4, 4, 64
SHAPES = [(1, 1), (1, 10), (1, 100), (1, 333), (1, 1000), (2, 50), (4, 1), (4, 100), (4, 500), (4, 1000)]


def build(path: Path) -> Path:
    """Write the model with its seeded weights."""
    return structure.build("zoo_gpt2", path, seed=2027)


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Draws one id a row, a mask over all words, keys and values [batch, heads, length, width] of each layer."""
    arguments = step(np.random.default_rng([seed, batch, length]), LAYERS, HEADS, WIDTH, batch, 1, length)
    del arguments["positions"]
    return arguments
