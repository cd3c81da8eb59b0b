"""What `export` needs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn


class Exported(NamedTuple):
    """A module, arguments to trace it with, names of its inputs and outputs, and the names of their dynamic axes."""

    module: nn.Module
    arguments: tuple[Tensor, ...]
    inputs: Sequence[str]
    outputs: Sequence[str]
    axes: dict[str, dict[int, str]]
