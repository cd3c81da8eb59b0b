"""The models that benchmarks and whole-model tests run: built from seeds on any machine, weights never committed.

Every module of MODELS has the same three things (see `Model`), so that a benchmark or a test can go through them by
name.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float32] | NDArray[np.int64]]

MODELS = ("bert_mini", "bert_base", "gpt2", "mlp", "shape_heavy", "lstm", "resnet18", "mobilenet", "detection")


class Model(Protocol):
    """What a module of this package offers."""

    SHAPES: list[tuple[int, int]]
    """(batch, length) pairs to run it at; models without a length have 1 there, those of images the height and width."""

    PEERS: tuple[str, ...]
    """Optional: engines that are measured on this model beside the usual ones, on one thread."""

    def build(self, path: Path) -> Path:
        """Write the model with its seeded weights; the path is returned."""

    def inputs(self, batch: int, length: int, seed: int = 0) -> Arrays:
        """Seeded arguments of one call, by input name."""


def load(name: str) -> Model:
    """The model called `name`, one of MODELS."""
    if name not in MODELS:
        raise ValueError(f"no model {name!r} here; there are {', '.join(MODELS)}")
    return cast(Model, import_module(f"{__name__}.{name}"))
