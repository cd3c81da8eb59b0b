"""The copy of lines that matrix tiles read rows of words from at the taps of windows: its size, and where gathering takes less time.

In: rows of a product that can be read so. Out: sizes, and a decision of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape import dims
from anyshape.dims import Size
from anyshape.lower import gemm
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.llvm.types import Val, const
from anyshape.lower.schedule.products import GatheredRows, RowsInPlace

FEW = 4
"""Tiles of gathered rows below which reading the weights from memory takes most of the time, and each tile more adds to it."""
COPIED, GATHERED = 5, 3
"""Tiles of rows of a copy that take as long as tiles of gathered rows, gathering included, where there are more than few."""


@dataclass(frozen=True, slots=True)
class CopiedLines:
    """Lines of what windows move over, with their pads, one image behind the other. `per`: elements of a word."""

    rows: GatheredRows
    read: RowsInPlace
    per: int

    @property
    def more(self) -> int:
        """Lines that windows of one line see besides."""
        *across, _ = zip(self.rows.over[:-1], self.read.bounds, strict=True)
        return sum(
            _number(tap.extent - 1) * (1 if b is None else _number(b.index.coefficient(tap))) for tap, b in across
        )

    @property
    def lines(self) -> Size:
        """Lines of all images, those of pads between them included."""
        rows, dims_ = self.rows.rows, len(self.read.bounds)
        lines: Size = 1
        for v in rows[:-dims_]:
            lines = lines * v.extent
        for v in rows[-dims_:-1]:
            lines = lines * (v.extent + self.more)
        return lines

    @property
    def places(self) -> Size:
        """Places of a line."""
        return self.rows.rows[-1].extent + (self.rows.over[-2].extent - 1)

    def scratch_bytes(self, tiles: gemm.Tiles) -> Size:
        """Scratch of a part."""
        pixel, least = _number(self.rows.over[-1].extent) // self.per, 1 + self.more
        size: Size = gemm.tap_tile_scratch_bytes(
            tiles, self.lines, self.places, least, pixel, dims.minimum, dims.maximum
        )
        return size

    def takes_longer(self, ctx: KernelContext, positions: Size) -> Val:
        """Whether it takes longer to multiply the places of all lines than to gather the rows of positions, and to multiply these."""
        f, size = ctx.f, ctx.sizes.of
        lines = f.smax(f.sub(size(self.lines), self.more), 0)
        copied, gathered = (
            f.binary("udiv", f.add(rows, gemm.TALLEST - 1), const(rows.type, gemm.TALLEST))
            for rows in (f.mul(lines, size(self.places)), size(positions))
        )
        longer = f.compare("gt", f.mul(copied, GATHERED), f.mul(gathered, COPIED))
        return f.select(f.compare("lt", gathered, FEW), f.compare("gt", copied, gathered), longer)


def _number(size: Size) -> int:
    """A size that is known."""
    assert isinstance(size, int)
    return size
