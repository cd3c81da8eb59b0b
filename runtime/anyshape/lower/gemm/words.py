"""Words of 32 bits: elements of fewer bits that are adjacent along k, multiplied and added up as one.

To the driver and the micro-kernels a product of words is one of elements of 32 bits whose k counts words. What words are made of differs:
bytes (`codes.py`), pairs of bf16 (`pairs.py`). In: what a product says of its words. Out: names, steps, panels of constants.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..llvm.types import Type
from ..target import Target
from .background_packing import zeros
from .matrix_tiles import TileNames, whole_steps
from .tiles import Tiles


class OperandWords(Protocol):
    """What the words of both operands of a product are."""

    @property
    def source(self) -> Type:
        """The type of elements of operands in memory that are not packed yet."""

    @property
    def table(self) -> str:
        """The name of the table of kernels."""

    @property
    def narrow_table(self) -> str:
        """The name of the table of kernels for words of a `Prepacked` B that are stored in fewer bits, where `stored_b` says so."""

    @property
    def packers(self) -> tuple[str, str]:
        """The names of the packers of A and of B."""

    @property
    def reads_b(self) -> bool:
        """Whether few rows are multiplied by a B in place, whose elements become words as they are read."""

    def per(self, target: Target) -> int:
        """Elements of a word."""

    def reads_a(self, target: Target) -> bool:
        """Whether rows of A that are whole words may be read in place."""

    def stored_b(self, target: Target, elements: int) -> Type | None:
        """What a word of a `Prepacked` B of so many elements is in memory, if it is widened as it is read: a single element, or narrower
        ones side by side."""

    def tiles(self, target: Target) -> TileNames | None:
        """What multiplies by matrix tiles, if the target has these for such words."""

    def least_rows(self, target: Target) -> int:
        """Rows of a product from which on matrix tiles multiply, which the target has."""

    def prepacked(self, array: npt.NDArray[Any], tiles: Tiles, target: Target) -> npt.NDArray[Any]:
        """A constant B, [..., K, N], as panels of words."""


def by_matrix_tiles(words: OperandWords | None, target: Target) -> bool:
    """Whether matrix tiles multiply where there are rows enough."""
    return words is not None and words.tiles(target) is not None


def panel_steps(words: OperandWords, target: Target, k: Any) -> Any:
    """Steps of k elements, an int or a dim, as panels and packed rows have them: whole matrix tiles where these multiply."""
    per = words.per(target)
    steps = k if per == 1 else (k + (per - 1)) // per
    return steps if words.tiles(target) is None else whole_steps(steps)


def word_panels(array: npt.NDArray[Any], width: int, per: int, steps: int) -> npt.NDArray[Any]:
    """Lays out elements, [..., K, N], as panels of so many words, [..., ceil(N / width), steps, width]; what is missing is 0."""
    *batch, k, n = array.shape
    words, panels = steps, -(-n // width)
    room = np.zeros((*batch, words * per, panels * width), array.dtype)
    room[..., :k, :n] = array
    laid = room.reshape(*batch, words, per, panels, width)
    order = (*range(len(batch)), *(len(batch) + axis for axis in (2, 0, 3, 1)))
    result = zeros((*batch, panels, words, width, per), array.dtype)
    result[...] = laid.transpose(order)
    return result.view(f"i{per * array.itemsize}").reshape(*batch, panels, words, width)
