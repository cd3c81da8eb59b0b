"""Precisions that a model may be compiled for: what contractions of f32 multiply.

"exact": their operands, as the model says. "bf16", "f16": their operands, rounded to the nearest number of that dtype; sums are of f32, and
nothing else changes (docs/precision.md). "f16-chunked": as "f16", but that sums of some products are of f16 where the processor multiplies
f16, and those of these sums of f32. `Within`: one of these for as many nodes as a bound of the error of results allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from anyshape.errors import ArgumentError
from anyshape.public import fits, short

Narrow = Literal["bf16", "f16", "f16-chunked"]
Precision = Literal["exact", Narrow]
NARROW: tuple[Narrow, ...] = get_args(Narrow)
CHUNKED: Narrow = "f16-chunked"
PRECISIONS: tuple[Precision, ...] = ("exact", *NARROW)


@dataclass(frozen=True, kw_only=True)
class Within:
    """A narrow precision as far as results stay near those of the exact model: of each result, the largest difference is at most
    `max_relative_error` of the largest element. It is judged on `inputs`, arguments of calls by name, as `Executable.run` takes them."""

    max_relative_error: float
    inputs: Sequence[Mapping[str, Any]]
    precision: Narrow = "bf16"

    def __post_init__(self) -> None:
        """Raises ArgumentError for a bound that is no number of at least 0, for inputs that are none, and for another precision."""
        if self.precision not in NARROW:
            raise ArgumentError(f"Within: precision must be one of {', '.join(NARROW)}, got {short(self.precision)}")
        if not fits(self.max_relative_error, float) or not self.max_relative_error >= 0:
            raise ArgumentError(
                f"Within: max_relative_error must be a number of at least 0, got {short(self.max_relative_error)}"
            )
        if not fits(self.inputs, Sequence[Mapping[str, Any]]) or not self.inputs:
            raise ArgumentError(
                f"Within: inputs must be at least one mapping from names to arrays, got {short(self.inputs)}"
            )
