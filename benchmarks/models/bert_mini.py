"""bert_mini: 4 layers, 256 hidden, 4 heads; batch and length dynamic; opset 17, as torch exports it.

Comes in: the committed structure and a seed. Goes out: an ONNX file of 45 MB with outputs last_hidden_state and
pooler_output.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.models import Arrays, structure
from benchmarks.models.token_inputs import token_inputs

SHAPES = [
    (1, 1), (1, 2), (1, 7), (1, 16), (1, 33), (1, 64), (1, 100), (1, 128), (1, 255), (1, 512),
    (2, 1), (2, 31), (3, 77), (4, 17), (4, 128), (4, 384), (7, 50), (8, 64), (16, 33), (32, 12),
]  # fmt: skip


def build(path: Path) -> Path:
    """Write the model with its seeded weights."""
    return structure.build("bert_mini", path, seed=2024)


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Ids, mask and segments of [batch, length]; length at most 512."""
    return token_inputs(batch, length, seed)
