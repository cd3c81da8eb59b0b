"""Where the loops of the driver are: operands of one batch, panels of B, tiles of rows, a block of A.

In: values of the kernel under construction. Out: frozen records of them, so that the driver's steps can be read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.builder import Function
from ..llvm.types import Val
from .spec import Tile


@dataclass(frozen=True)
class Operands:
    """The operands of one batch."""

    tile: Tile
    a: Val | None
    b: Val | None
    c: Val | None


@dataclass(frozen=True)
class Panels:
    """B for some columns as the kernels read it: column j - first at base + (j - first) * column_step."""

    base: Val
    first: Val
    end: Val
    step: Val
    column_step: Val
    dot: Val | None = None
    """Columns contiguous along k, and few rows of A likewise: neither operand is packed."""
    in_place: Val | None = None
    """B as it lies, its columns adjacent."""


@dataclass(frozen=True)
class Rows:
    """The split of the part's rows into tiles of nearly equal height."""

    first: Val
    tiles: Val
    height: Val
    taller: Val

    def start(self, f: Function, tile: Val) -> Val:
        return f.add(f.add(self.first, f.mul(tile, self.height)), f.smin(tile, self.taller))


@dataclass(frozen=True)
class Block:
    """Some tiles whose rows of A are packed together, or read in place.

    The first tile begins at `a`, a tile r rows further down at a + r * tile_step; in a tile, rows are `row_step` apart
    and steps of k `k_step`, or the height of the tile where A is packed (not `in_place`).
    """

    rows: Rows
    first: Val
    end: Val
    row: Val
    count: Val
    a: Val
    tile_step: Val
    row_step: Val
    k_step: Val
    in_place: Val | None
