"""The loops of a contraction whose rows are windows, by matrix tiles: lines of what the windows move over are copied as words, with their
pads, and a tile of rows reads the copy in place at each tap. Nothing is gathered.

Rows are numbered by places of the copies of all images, whose lines have a place for each tap of a line besides: so a tile of rows is
places that follow each other, whatever line and image they are in, and the few that no window begins at are computed and left out.

In: an open kernel, a `ContractionSpec` whose A is `TapRows` (all steps 1, taps of a line one behind the other) and whose words have tiles,
its scratch, and which part of how many it is. Out: code that copies some lines, multiplies all their rows by one panel after the other, and
runs the epilogue on each tile while it is in the first cache. All taps are added up in tiles: results do not depend on the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ..llvm.builder import FunctionBuilder
from ..llvm.matrix_tiles import ROWS
from ..llvm.types import I1, I8, I32, I64, PTR, VOID, Val, const
from .blocks import SOON
from .epilogues import TileSums, finish
from .matrix_tiles import ROW_PACK_ARGUMENTS, TALLEST
from .spec import ContractionSpec, Poll, TapRows, Tile, WindowDim
from .tap_parts import PanelColumns, ceil_div, indices_of, operands_of_batch, shares_of_part
from .tiled_rows import TileConfiguration
from .tiles import ALIGN, Tiles, tiles_for

_WORD = 4


def tap_tile_scratch_bytes(
    tiles: Tiles,
    lines: Any,
    line: Any,
    least: int,
    pixel: int,
    minimum: Callable[..., Any],
    maximum: Callable[..., Any],
) -> Any:
    """Scratch of one part, in bytes: `lines` of copies of all images, each of `line` places of `pixel` words, of which windows of one line
    see `least`. Sizes may be ints or dims (then pass `dims.minimum` and `dims.maximum`)."""
    size = line * (pixel * _WORD)
    return maximum(minimum(lines * size, _block_bytes(tiles)), least * size) + TALLEST * pixel * _WORD + ALIGN


def _block_bytes(tiles: Tiles) -> int:
    """Bytes of lines that are copied at once, if they are enough for one line of positions."""
    return tiles.a_block * tiles.element.bytes


def emit_tap_tiles(
    f: FunctionBuilder, spec: ContractionSpec, rows: TapRows, scratch: Val, part: tuple[Val, Val], poll: Poll
) -> None:
    """Emits the contraction. `part`: the number of the part, and how many there are."""
    _TapTileDriver(f, spec, rows, scratch, poll).emit(*part)


@dataclass(frozen=True)
class _Lines:
    """Lines of the copies of all images, those of pads included: the first one, and at how many windows begin."""

    first: Val
    count: Val


class _TapTileDriver:
    def __init__(self, f: FunctionBuilder, spec: ContractionSpec, rows: TapRows, scratch: Val, poll: Poll) -> None:
        assert spec.words is not None
        words = spec.words
        self.f, self.spec, self.rows, self.poll = f, spec, rows, poll
        self.tiles, names = tiles_for(f.target, spec.element), words.tiles(f.target)
        assert names is not None and isinstance(rows.channels, int)
        self.source = words.source
        self.outside = const(I32.vector(ROWS), 0)
        if rows.outside is not None:
            self.outside = f.bitcast(f.splat(rows.outside, ROWS * words.per(f.target)), I32.vector(ROWS))
        self.names, self.table = names, f.module.declare_table(names.taps)
        f.module.declare(names.pack_rows, VOID, [type_ for _, type_ in ROW_PACK_ARGUMENTS])
        number = f.convert("ptrtoint", scratch, I64)
        self.copy = f.convert("inttoptr", f.and_(f.add(number, ALIGN - 1), -ALIGN), PTR)
        self.temporary = f.alloca(spec.element, TALLEST * self.tiles.columns)
        self.channels, self.n = rows.channels, f.i64(spec.n)
        self.pixel = rows.channels // words.per(f.target)
        """Words of a place."""
        *across, self.along = rows.dims
        self.across = across[0] if across else WindowDim(taps=1, a=0)
        self.images = rows.positions[: len(rows.positions) - len(rows.dims)]
        self.height, self.line_stride = rows.positions[-2] if across else (const(I64, 1), const(I64, 0))
        self.width, _ = rows.positions[-1]
        self.more_lines = self.across.spread * (self.across.taps - 1)
        """Lines that windows of one line see besides."""
        self.image_lines = f.add(self.height, self.more_lines)
        """Lines of the copy of an image."""
        self.places = f.add(self.width, self.along.taps - 1)
        """Places of a line of the copy."""
        self.line = f.mul(self.places, self.pixel)
        """Words of a line of the copy."""
        self.k = const(I64, self.along.taps * self.pixel)
        self.configuration = TileConfiguration(holds=const(I1, 1))

    def emit(self, part: Val, nparts: Val) -> None:
        """Emits the share of a part: some lines, or else some panels."""
        f = self.f
        images = reduce(f.mul, (extent for extent, _ in self.images), const(I64, 1))
        total = f.sub(f.mul(images, self.image_lines), self.more_lines)
        panels = f.ceil_div(self.n, self.tiles.columns)
        (l0, l1), (p0, p1) = shares_of_part(f, (total, panels), part, nparts)
        fitting = f.binary("udiv", const(I64, _block_bytes(self.tiles)), f.mul(f.smax(self.line, 1), _WORD))
        most = f.smax(f.sub(fitting, self.more_lines), 1)
        count = reduce(f.mul, (f.i64(batch.extent) for batch in self.spec.batch), const(I64, 1))
        work = f.and_(f.compare("lt", l0, l1), f.compare("lt", p0, p1))
        for extent in (images, self.height, self.width):
            work = f.and_(work, f.compare("gt", extent, 0))
        with f.if_(work), self.configuration.configured(f), f.for_range(0, count) as batches:
            tile, a, b = operands_of_batch(f, self.spec, self.rows, (self.source, I32), batches.index)
            with f.for_range(l0, l1, most, at_least_once=True) as block:
                lines = _Lines(block.index, f.smin(most, f.sub(l1, block.index)))
                self._copy(a, lines)
                with f.for_range(p0, p1, at_least_once=True) as panel:
                    self.poll(self.configuration.paused(f))
                    self._sweep(tile, self._columns(b, panel.index), lines)

    def _in_image(self, number: Val) -> tuple[Val, Val]:
        """The image of a line, and the line's number in it."""
        image = self.f.binary("udiv", number, self.image_lines)
        return image, self.f.sub(number, self.f.mul(image, self.image_lines))

    def _image(self, a: Val, number: Val) -> Val:
        """Computes where an image begins."""
        f = self.f
        offset = const(I64, 0)
        indices = indices_of(f, number, [extent for extent, _ in self.images])
        for index, (_, stride) in zip(indices, self.images, strict=True):
            offset = f.add(offset, f.mul(index, f.i64(stride)))
        return f.gep(a, offset, self.source)

    def _copy(self, a: Val, lines: _Lines) -> None:
        """Copies what windows of some lines see, as words, with their pads."""
        f, dim = self.f, self.along
        begin, end = const(I64, 0), self.places
        if dim.position is not None:
            begin = f.smin(f.smax(f.sub(const(I64, 0), f.i64(dim.offset)), 0), self.places)
            end = f.smax(f.smin(f.sub(f.i64(dim.size), f.i64(dim.offset)), self.places), begin)
        inner, pixel = f.sub(end, begin), self.pixel
        with f.for_range(0, f.add(lines.count, self.more_lines), at_least_once=True) as loop:
            image, number = self._in_image(f.add(lines.first, loop.index))
            to = f.gep(self.copy, f.mul(loop.index, self.line), I32)
            with f.if_else(self._has_line(number)) as is_inside:
                with is_inside.then():
                    place = f.add(f.mul(number, f.i64(self.line_stride)), f.mul(begin, self.channels))
                    source = f.gep(self._image(a, image), place, self.source)
                    at = f.gep(to, f.mul(begin, pixel), I32)
                    self._pads(to, f.mul(begin, pixel))
                    arguments = [source, const(I64, 0), const(I64, 1), f.mul(inner, self.channels), const(I64, 0), at]
                    f.call(self.names.pack_rows, VOID, arguments)
                    self._pads(f.gep(to, f.mul(end, pixel), I32), f.mul(f.sub(self.places, end), pixel))
                with is_inside.otherwise():
                    self._pads(to, self.line)

    def _has_line(self, number: Val) -> Val:
        """Whether a line of the copy is one of what the windows move over, and not of its pads."""
        f, dim = self.f, self.across
        if dim.position is None:
            return const(I1, 1)
        return f.compare("lt", f.add(number, f.i64(dim.offset)), f.i64(dim.size), unsigned=True)

    def _pads(self, at: Val, words: Val) -> None:
        f = self.f
        with f.for_range(0, words, ROWS) as loop:
            f.store(self.outside, at, loop.index)

    def _columns(self, b: Val, panel: Val) -> PanelColumns:
        f, columns = self.f, self.tiles.columns
        first = f.mul(panel, columns)
        count = f.smin(f.sub(self.n, first), columns)
        of_panel = f.mul(first, f.mul(self.k, self.across.taps))
        kernels = f.select(f.compare("gt", count, ROWS), const(I64, 2), const(I64, 0))
        return PanelColumns(first, count, f.gep(b, of_panel, I32), kernels)

    def _sweep(self, tile: Tile, columns: PanelColumns, lines: _Lines) -> None:
        """Multiplies all rows of some lines by a panel. All tiles together prefetch the next panel, and a single one what it reads soon."""
        f, step = self.f, self.tiles.columns * _WORD
        rows = f.sub(f.mul(lines.count, self.places), self.along.taps - 1)
        count = ceil_div(f, rows, TALLEST)
        share = f.binary("udiv", f.add(count, step - 1), count)
        steps = f.mul(self.k, self.across.taps)
        alone = f.compare("eq", count, 1)
        ahead = f.select(alone, const(I64, SOON * self.tiles.line), f.mul(steps, step))
        start = f.gep(columns.b, ahead, I8)
        with f.for_range(0, rows, TALLEST, carried=[start], at_least_once=True) as loop:
            row, height = loop.index, f.smin(f.sub(rows, loop.index), TALLEST)
            (soon,) = loop.carried
            with f.if_(self._has_results(lines, row, height)):
                self._multiply(columns, row, height, (soon, share))
                self._finish(tile, columns, lines, row, height)
            loop.next(f.gep(soon, f.mul(steps, share), I8))

    def _has_results(self, lines: _Lines, row: Val, height: Val) -> Val:
        """Whether a tile is not all between two images."""
        f = self.f
        line = f.binary("udiv", row, self.places)
        _, number = self._in_image(f.add(lines.first, line))
        following = f.mul(f.add(line, f.sub(self.image_lines, number)), self.places)
        return f.or_(f.compare("lt", number, self.height), f.compare("gt", f.add(row, height), following))

    def _multiply(self, columns: PanelColumns, row: Val, height: Val, prefetched: tuple[Val, Val]) -> None:
        f, width = self.f, const(I64, self.tiles.columns)
        entry = f.add(columns.kind, f.convert("zext", f.compare("gt", height, ROWS), I64))
        kernel = f.load(self.table, PTR, entry)
        a, pixel = f.gep(self.copy, f.mul(row, self.pixel), I32), const(I64, self.pixel)
        taps = const(I64, self.across.taps), a, pixel, f.mul(self.line, self.across.spread)
        f.call_pointer(kernel, VOID, [self.k, *taps, columns.b, width, self.temporary, width, *prefetched])

    def _finish(self, tile: Tile, columns: PanelColumns, lines: _Lines, row: Val, height: Val) -> None:
        """Runs the epilogue on the rows of a tile that are positions, line by line."""
        f, spec, width = self.f, self.spec, self.tiles.columns
        assert spec.epilogue is not None
        end = f.add(row, height)
        first, last = (f.binary("udiv", x, self.places) for x in (row, f.sub(end, 1)))
        with f.for_range(first, f.add(last, 1), at_least_once=True) as loop:
            start = f.mul(loop.index, self.places)
            begin, stop = f.smax(row, start), f.smin(end, f.add(start, self.width))
            image, number = self._in_image(f.add(lines.first, loop.index))
            with f.if_(f.and_(f.compare("lt", number, self.height), f.compare("lt", begin, stop))):
                before = f.mul(f.add(f.mul(image, self.height), number), self.width)
                sums = TileSums(
                    address=f.gep(self.temporary, f.mul(f.sub(begin, row), width), spec.element),
                    step=const(I64, width),
                    row=f.add(before, f.sub(begin, start)),
                    height=f.sub(stop, begin),
                    column=columns.first,
                    count=columns.count,
                )
                finish(f, spec, self.tiles.lanes, spec.epilogue, tile, sums)
