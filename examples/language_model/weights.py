"""Weights of a language model, in the order in which the model has them: seeded ones here, those of a file in `gguf_weights.py`.

A product's weights are floats, or codes of 4 or 8 bits in groups of 32 that share a scale and, in some formats, an offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

GROUP = 32
"""Weights that share a scale."""


@dataclass(frozen=True)
class Floats:
    """Weights [k, n]."""

    array: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        return self.array.nbytes


@dataclass(frozen=True, kw_only=True)
class Codes:
    """Weights scale * (code - 2^(bits - 1)) + offset. `codes`: bytes [n, k / 32, 4 * bits], the lower bits first; `scales` and `offsets`:
    [n, k / 32]."""

    bits: int
    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]
    offsets: NDArray[np.float32] | None = None

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes + (0 if self.offsets is None else self.offsets.nbytes)


ProductWeights = Floats | Codes


class WeightSource(Protocol):
    """Gives the weights one after the other: each call the next ones."""

    def table(self) -> NDArray[np.float32]:
        """A row for each word."""

    def norm(self) -> NDArray[np.float32]: ...

    def product(self, k: int, n: int) -> ProductWeights:
        """Weights of k inputs and n outputs."""


class SeededWeights:
    """Random weights of a seed, `int4` or `f32`; those of products have a standard deviation of 1 / sqrt(k)."""

    def __init__(self, words: int, width: int, kind: str, seed: int) -> None:
        self._words, self._width, self._kind, self._rng = words, width, kind, np.random.default_rng(seed)

    def table(self) -> NDArray[np.float32]:
        return self._normal(self._words, self._width)

    def norm(self) -> NDArray[np.float32]:
        return 1 + self._normal(self._width) / 10

    def product(self, k: int, n: int) -> ProductWeights:
        if self._kind == "f32":
            return Floats((self._normal(k, n) / np.float32(np.sqrt(k))).astype(np.float32))
        codes = self._rng.integers(0, 256, (n, k // GROUP, GROUP // 2), np.uint8)
        spread = np.sqrt((16**2 - 1) / 12)  # of codes that are uniform in 0..15
        scale = np.float16(1 / (spread * np.sqrt(k)))  # which any format has
        return Codes(bits=4, codes=codes, scales=np.full((n, k // GROUP), scale, np.float32))

    def _normal(self, *shape: int) -> NDArray[Any]:
        return self._rng.standard_normal(shape, np.float32)
