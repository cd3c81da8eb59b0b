"""One call of a model, whichever protocol it came by; and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class RequestedOutput:
    """An output that is to be in the answer, and whether as binary data."""

    name: str
    is_binary: bool


@dataclass(frozen=True, kw_only=True)
class InferRequest:
    """Arrays by input; `requested` is None for all outputs, `binary` says how these are then answered."""

    id: str
    inputs: Mapping[str, Array]
    requested: Sequence[RequestedOutput] | None = None
    binary: bool = False
