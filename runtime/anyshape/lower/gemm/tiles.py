"""The register tile and the cache blocks of the matrix product, derived from the target.

In: a `Target` and an element type. Out: `Tiles`: how many rows and columns are computed at once, and how much of A and
B is held packed; and the size of the scratch memory as a formula that takes ints and dims alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..llvm.matrix_tiles import ROWS
from ..llvm.types import Type
from ..target import Target
from .matrix_tiles import TALLEST, whole_steps

_FEW_ROWS = 4
_FEW_PANELS = 4
_ROWS_IN_PLACE = 8
ALIGN = 64


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Sizes of tiles and blocks: `rows` x `columns` accumulators (`columns` = two vectors) fit the registers beside the operands.

    `a_block` and `b_block` bound, in elements, the packed part of A (half of L2) and of B (a quarter of L3); `computed_block` bounds a B
    that is computed while it is packed (twice L2: A is read, and packed, once for each block), `near_block` what several tiles read again
    while it stays in L2 (a quarter of it). `near`: bytes of a B that stays in L2 for the most part; `line`: bytes of a cache
    line; `lines_ahead`: how many lines ahead kernels of few rows prefetch a B of more than `unfetched` bytes (that, or, where few lines are
    prefetched, twice L1), or 0. `strip` is how many sums of a single row are kept in memory (half of L1). `tallest`: rows of the largest
    kernel, those of matrix tiles included. Blocks do not cut K: at 14 rows a tile reads B slowly enough for any cache.
    """

    element: Type
    lanes: int
    vectors: int
    rows: int
    tallest: int
    columns: int
    a_block: int
    b_block: int
    computed_block: int
    near_block: int
    strip: int
    near: int
    unfetched: int
    line: int
    lines_ahead: int

    def panels(self, rows: int) -> int:
        """How many column panels one call takes: few rows alone would leave the multipliers idle."""
        return self._panels_of.get(rows, 1)

    @property
    def _panels_of(self) -> dict[int, int]:
        limit = self.rows * self.vectors
        panels = {}
        for rows in range(1, min(_FEW_ROWS, self.rows) + 1):
            fitting = [p for p in (4, 2) if (rows + 1) * self.vectors * p <= limit]
            panels[rows] = fitting[0] if fitting else 1
        return panels

    @property
    def few_rows(self) -> int:
        """The number of rows of A up to which columns of B are multiplied in place rather than packed."""
        return min(_FEW_ROWS, self.rows)

    @property
    def rows_in_place(self) -> int:
        """The number of rows of A up to which a B is read in place that has to be packed for more."""
        return min(_ROWS_IN_PLACE, self.rows)

    def least_rows(self, tiles: int) -> int:
        """Rows of the smallest tile where so many or more are split evenly: with one row less, there would be fewer."""
        return ((tiles - 1) * self.rows + 1) // tiles

    @property
    def shared_strip(self) -> int:
        """How many sums of each of several rows are kept in memory."""
        return max(self.strip // self.rows_in_place // self.lanes, 1) * self.lanes

    @property
    def temporary(self) -> int:
        """Elements of the sums between a micro-kernel and the epilogue."""
        return max(self.tallest * self.columns, self.strip)

    @property
    def few_panels(self) -> int:
        """The number of panels of B up to which packing an A that is contiguous along its rows does not pay."""
        return _FEW_PANELS

    @property
    def page(self) -> int:
        """Elements in 4 KiB: memory that far apart maps to the same few lines of L1."""
        return 4096 // self.element.bytes

    def pitch(self, k: Any) -> Any:
        """How far apart gathered rows of k elements are, as an int or a dim: an odd number of lines, since rows whose distance is a power
        of two map to few sets of L1."""
        line = self.line // self.element.bytes
        return (k + (2 * line - 1)) // (2 * line) * (2 * line) + line

    @property
    def slack(self) -> int:
        """Elements that packing may write past its end."""
        return 2 * self.lanes * max(self.rows, self.columns)


@cache
def tiles_for(target: Target, element: Type) -> Tiles:
    """Chooses the tiles: rows * vectors + vectors + 1 registers, one being left to the compiler."""
    lanes = target.lanes(element.bytes)
    vectors = 2
    rows = (target.vector_registers - 2 - vectors) // vectors
    return Tiles(
        element=element,
        lanes=lanes,
        vectors=vectors,
        rows=rows,
        tallest=rows if target.matrix_tiles is None else max(rows, TALLEST),
        columns=vectors * lanes,
        a_block=target.l2_bytes // 2 // element.bytes,
        strip=target.l1_bytes // 2 // element.bytes // lanes * lanes,
        near=target.l2_bytes * 3 // 2,
        unfetched=target.l2_bytes * 3 // 2 if target.has_buffers_to_prefetch else target.l1_bytes * 2,
        line=target.line_bytes,
        lines_ahead=target.lines_ahead,
        computed_block=target.l2_bytes * 2 // element.bytes,
        near_block=target.l2_bytes // 4 // element.bytes,
        b_block=max(target.l3_bytes // 4, target.l2_bytes) // element.bytes,
    )


def scratch_bytes(
    tiles: Tiles,
    m: Any,
    n: Any,
    k: Any,
    packs_b: bool,
    minimum: Callable[..., Any] = min,
    maximum: Callable[..., Any] = max,
    block: int = 0,
    gathered: bool = False,
    by_tiles: bool = False,
    once: bool = False,
) -> Any:
    """Scratch of one part, in bytes. Sizes may be ints or dims (then pass `dims.minimum` and `dims.maximum`).

    `packs_b`: B is neither prepacked nor known to have a unit column stride, or it is widened. `block`: elements of it that are packed at
    once (0: `b_block`). `gathered`: A is. `by_tiles`: matrix tiles may multiply, so that A is whole tiles of rows, and a strip of it is
    packed before it is transposed. `once`: all batches share A, and it is packed ahead of them (`ContractionSpec.packs_a_once`).
    """
    size = tiles.element.bytes
    row = tiles.pitch(k) if gathered or by_tiles else k
    rows, tallest = (m + (ROWS - 1), tiles.tallest) if by_tiles else (m, tiles.rows)
    k = whole_steps(k) if by_tiles else k
    total = (
        minimum(rows * row, maximum(tallest * row, tiles.b_block if once else tiles.a_block)) + tiles.slack
    ) * size + ALIGN
    if by_tiles:
        total = total + (k * ROWS + tiles.slack) * size + ALIGN
    if packs_b:
        columns = n + (tiles.columns - 1)
        total = (
            total
            + (minimum(columns * k, maximum(tiles.columns * k, block or tiles.b_block)) + tiles.slack) * size
            + ALIGN
        )
    return total


def panel_bytes(tiles: Tiles, n: Any, k: Any, stored: Type | None = None) -> Any:
    """Bytes that `emit_panels` writes of elements that memory has as `stored`, as an int or a dim."""
    return ((n + (tiles.columns - 1)) * k + tiles.slack) * (stored or tiles.element).bytes
