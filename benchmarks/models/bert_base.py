"""bert_base: 12 layers, 768 hidden, 12 heads; batch and length dynamic; opset 17, as torch exports it.

Comes in: the committed structure and a seed. Goes out: an ONNX file of 440 MB. The structure by itself
(`structure.FOLDER`) is enough to measure import and type inference on a 12-layer graph.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.models import Arrays, structure
from benchmarks.models.token_inputs import token_inputs

SHAPES = [(1, 1), (1, 7), (1, 128), (2, 33), (4, 128)]


def build(path: Path) -> Path:
    """Write the model with its seeded weights."""
    return structure.build("bert_base", path, seed=2025)


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Ids, mask and segments of [batch, length]; length at most 512."""
    return token_inputs(batch, length, seed)
