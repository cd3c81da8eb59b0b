"""The vector that values are computed as: which variable runs along the lanes, how many copies there are, and which of their lanes exist.

In: a loop variable. Out: data alone, which `value` and `loads` read.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.lower.ir.dag import LoopVar
from anyshape.lower.llvm.types import Val


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """The place of a vector in rows that have more elements than there are positions: its first lane is `start` elements behind the base of
    all vectors, and the lanes of `following`, which are in the next row (None: none is), `gap` elements further on."""

    start: Val
    gap: Val
    following: Val | None


@dataclass(frozen=True, slots=True)
class Vector:
    """Lane l of copy u is position base + u * lanes + l of `variable`; `masks` tell which lanes exist (None: all). `places`: those of the
    copies instead, for reads alone."""

    variable: LoopVar
    lanes: int
    masks: tuple[Val | None, ...]
    places: tuple[VectorPlace, ...] = ()

    @property
    def copies(self) -> int:
        return len(self.masks)
