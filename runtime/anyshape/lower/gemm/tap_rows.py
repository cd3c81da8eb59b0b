"""The loops of a contraction whose rows are windows, read where they lie at one tap after the other: nothing is gathered, and taps that are
outside of what the windows move over are left out.

In: an open kernel, a `ContractionSpec` whose A is `TapRows`, its scratch, and which part of how many it is. Out: code that adds up the sums
of some rows and one panel of columns in the first cache, tap by tap, and runs the epilogue on them there. A call of a micro-kernel has
positions of one line, those of the last variable, that all have a tap; where taps of a line lie one behind the other, it has all taps that
every position of a tile has. The order of sums depends on sizes alone, not on the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I1, I8, I64, PTR, VOID, Val, const
from .blocks import SOON
from .epilogues import TileSums, finish
from .microkernels import FULL, NARROW, adding_name, table_index
from .spec import ContractionSpec, TapRows, Tile
from .tap_parts import PanelColumns, ceil_div, indices_of, operands_of_batch, shares_of_part
from .tiles import ALIGN, Tiles, tiles_for

Poll = Callable[[], None]


def rows_at_once(tiles: Tiles) -> int:
    """Rows whose sums of one panel stay in the first cache: whole tiles."""
    return max(tiles.strip // tiles.columns // tiles.rows, 1) * tiles.rows


def tap_scratch_bytes(tiles: Tiles) -> int:
    """Scratch of one part, in bytes."""
    return rows_at_once(tiles) * tiles.columns * tiles.element.bytes + ALIGN


def emit_tap_rows(
    f: FunctionBuilder, spec: ContractionSpec, rows: TapRows, scratch: Val, part: tuple[Val, Val], poll: Poll
) -> None:
    """Emits the contraction. `part`: the number of the part, and how many there are."""
    _TapDriver(f, spec, rows, scratch, poll).emit(*part)


@dataclass(frozen=True)
class _Stretches:
    """Lines of positions, each in stretches of nearly equal length, which are numbered through."""

    line: Val
    """Positions of a line."""
    per_line: Val
    longest: Val
    count: Val

    def row(self, f: FunctionBuilder, number: Val) -> Val:
        """The row with which a stretch begins, or the end of all."""
        line = f.binary("udiv", number, self.per_line)
        return f.add(f.mul(line, self.line), self.start(f, f.sub(number, f.mul(line, self.per_line))))

    def start(self, f: FunctionBuilder, number: Val) -> Val:
        """The position in its line with which a stretch begins, by its number in the line."""
        return f.smin(f.mul(number, self.longest), self.line)


@dataclass(frozen=True)
class _Stretch:
    """Positions of one line at one tap of the outer dims: where they begin in it, and end; A of the line's first position, at the first
    tap of the line; B at that tap; and the sums of the first of the positions."""

    begin: Val
    end: Val
    a: Val
    b: Val
    sums: Val


@dataclass(frozen=True)
class _TilePositions:
    """Positions of a stretch that one tile has, or some of them; and from where on it prefetches B, so many bytes in a step."""

    stretch: _Stretch
    begin: Val
    end: Val
    soon: Val
    share: Val


@dataclass(frozen=True)
class _PrefetchedLine:
    """What is prefetched of B while some tiles are multiplied by a line of taps: the next such line, by all tiles together, each `share`
    bytes in a step; by a tile that is alone what it reads soon itself. `distance`: bytes from B of the line; `tile`: bytes of a tile."""

    distance: Val
    tile: Val
    share: Val

    def of_tile(self, f: FunctionBuilder, b: Val, number: Val) -> Val:
        """Returns where a tile begins to prefetch, by its number."""
        return f.gep(b, f.add(self.distance, f.mul(number, self.tile)), I8)


class _TapDriver:
    def __init__(self, f: FunctionBuilder, spec: ContractionSpec, rows: TapRows, scratch: Val, poll: Poll) -> None:
        self.f, self.spec, self.rows, self.poll = f, spec, rows, poll
        self.tiles = tiles_for(f.target, spec.element)
        self.b_type = spec.b_stored or spec.element
        self.table = f.module.declare_table(adding_name(spec.element, self.b_type))
        number = f.convert("ptrtoint", scratch, I64)
        self.sums = f.convert("inttoptr", f.and_(f.add(number, ALIGN - 1), -ALIGN), PTR)
        self.n, self.k, self.channels = f.i64(spec.n), f.i64(spec.k), f.i64(rows.channels)
        self.step = f.i64(rows.positions[-1][1])
        *self.outer, self.last = rows.dims
        self.stretches = self._stretches()

    def _stretches(self) -> _Stretches:
        f = self.f
        *lines, (line, _) = self.rows.positions
        per_line = f.smax(ceil_div(f, line, rows_at_once(self.tiles)), 1)
        longest = f.binary("udiv", f.add(line, f.sub(per_line, 1)), per_line)
        count = reduce(f.mul, (extent for extent, _ in lines), per_line)
        return _Stretches(line, per_line, longest, f.select(f.compare("gt", line, 0), count, const(I64, 0)))

    def emit(self, part: Val, nparts: Val) -> None:
        """Emits the share of a part: some stretches, or else some panels."""
        f, s = self.f, self.stretches
        panels = f.ceil_div(self.n, self.tiles.columns)
        (s0, s1), (p0, p1) = shares_of_part(f, (s.count, panels), part, nparts)
        per = f.smax(f.binary("udiv", const(I64, rows_at_once(self.tiles)), f.smax(s.longest, 1)), 1)
        length = f.smax(f.mul(s.longest, self.step), 1)
        near = f.smax(f.binary("udiv", const(I64, self.tiles.a_block), length), per)
        count = reduce(f.mul, (f.i64(batch.extent) for batch in self.spec.batch), const(I64, 1))
        work = f.and_(f.compare("lt", s0, s1), f.compare("lt", p0, p1))
        with f.if_(work), f.for_range(0, count) as batches:
            tile, a, b = operands_of_batch(f, self.spec, self.rows, (self.spec.element, self.b_type), batches.index)
            if self.rows.prepare is not None:
                self.rows.prepare(f, tile)
            with f.for_range(s0, s1, near, at_least_once=True) as block:
                end = f.smin(f.add(block.index, near), s1)
                with f.for_range(p0, p1, at_least_once=True) as panel:
                    self.poll()
                    columns = self._columns(b, panel.index)
                    with f.for_range(block.index, end, per, at_least_once=True) as several:
                        self._sums(tile, a, columns, several.index, f.smin(f.add(several.index, per), end))

    def _columns(self, b: Val, panel: Val) -> PanelColumns:
        f, tiles = self.f, self.tiles
        first = f.mul(panel, tiles.columns)
        count = f.smin(f.sub(self.n, first), tiles.columns)
        full, narrow = (const(I64, table_index(tiles, kind, 0)) for kind in (FULL, NARROW))
        kind = f.select(f.compare("le", count, tiles.lanes), narrow, full)
        return PanelColumns(first, count, f.gep(b, f.mul(first, self.k), self.b_type), kind)

    def _sums(self, tile: Tile, a: Val, columns: PanelColumns, first: Val, end: Val) -> None:
        """Adds up the sums of some stretches, and runs the epilogue on them."""
        f, tiles, spec = self.f, self.tiles, self.spec
        row = self.stretches.row(f, first)
        count = f.sub(self.stretches.row(f, end), row)
        with f.for_range(0, f.mul(count, tiles.columns), tiles.lanes, at_least_once=True) as loop:
            f.store(const(spec.element.vector(tiles.lanes), 0), self.sums, loop.index)
        steps = f.mul(self.channels, self.last.taps)
        per_stretch = f.smax(f.ceil_div(self.stretches.longest, tiles.rows), 1)
        ahead = self._ahead(f.mul(f.sub(end, first), per_stretch), steps)
        with self._outer_taps() as (taps, number):
            b = f.gep(columns.b, f.mul(f.mul(number, steps), tiles.columns), self.b_type)
            with f.for_range(first, end, at_least_once=True) as loop:
                before = f.mul(f.sub(loop.index, first), per_stretch)
                inside, stretch = self._stretch(a, b, taps, loop.index, row)
                with f.if_(inside):
                    self._line(columns, stretch, ahead, before)
        if spec.epilogue is None:
            raise TypeError("rows that are read by taps have an epilogue")
        sums = TileSums(
            address=self.sums, step=const(I64, tiles.columns), row=row, height=count, column=columns.first,
            count=columns.count,
        )  # fmt: skip
        finish(f, spec, tiles.lanes, spec.epilogue, tile, sums)

    def _ahead(self, count: Val, steps: Val) -> _PrefetchedLine:
        """What so many tiles prefetch together, of lines of taps with so many steps."""
        f, tiles = self.f, self.tiles
        step = tiles.columns * self.b_type.bytes
        share = f.binary("udiv", f.add(count, step - 1), count)
        distance = f.select(f.compare("eq", count, 1), const(I64, SOON * tiles.line), f.mul(steps, step))
        return _PrefetchedLine(distance, f.mul(share, steps), share)

    @contextmanager
    def _outer_taps(self) -> Iterator[tuple[list[Val], Val]]:
        """Code for each tap of the outer dims, and its number."""
        f, number = self.f, const(I64, 0)
        taps: list[Val] = []
        with ExitStack() as loops:
            for dim in self.outer:
                taps.append(loops.enter_context(f.for_range(0, dim.taps, at_least_once=True)).index)
                number = f.add(f.mul(number, dim.taps), taps[-1])
            yield taps, number

    def _stretch(self, a: Val, b: Val, taps: Sequence[Val], number: Val, first_row: Val) -> tuple[Val, _Stretch]:
        """Whether the taps of the outer dims are inside for a stretch; and it."""
        f, s, element = self.f, self.stretches, self.spec.element
        *lines, _ = self.rows.positions
        line = f.binary("udiv", number, s.per_line)
        begin = s.start(f, f.sub(number, f.mul(line, s.per_line)))
        indices = indices_of(f, line, [extent for extent, _ in lines])
        inside, offset = const(I1, 1), const(I64, 0)
        for index, (_, stride) in zip(indices, lines, strict=True):
            offset = f.add(offset, f.mul(index, f.i64(stride)))
        for dim, tap in zip(self.outer, taps, strict=True):
            offset = f.add(offset, f.mul(tap, f.i64(dim.a)))
            if dim.position is not None:
                place = f.add(f.mul(indices[dim.position], dim.step), f.add(f.mul(tap, dim.spread), f.i64(dim.offset)))
                inside = f.and_(inside, f.compare("lt", place, f.i64(dim.size), unsigned=True))
        sums_row = f.sub(f.add(f.mul(line, s.line), begin), first_row)
        end = f.smin(f.add(begin, s.longest), s.line)
        sums = f.gep(self.sums, f.mul(sums_row, self.tiles.columns), element)
        return inside, _Stretch(begin, end, f.gep(a, offset, element), b, sums)

    def _line(self, columns: PanelColumns, s: _Stretch, ahead: _PrefetchedLine, number: Val) -> None:
        """Adds the products of all taps of a line, tile by tile; the first has this number among all that prefetch together."""
        f, last = self.f, self.last
        length = f.sub(s.end, s.begin)
        height = ceil_div(f, length, f.smax(ceil_div(f, length, self.tiles.rows), 1))
        start = ahead.of_tile(f, s.b, number)
        with f.for_range(s.begin, s.end, height, carried=[start]) as tiles:
            (soon,) = tiles.carried
            end = f.smin(f.add(tiles.index, height), s.end)
            tile = _TilePositions(s, tiles.index, end, soon, ahead.share)
            if self._is_joined():
                first, count = self._whole(tile)
                with f.if_(f.compare("gt", count, 0)):
                    self._call(columns, tile, first, f.mul(count, self.channels))
                with f.for_range(0, f.sub(last.taps, count)) as taps:
                    tap = f.select(f.compare("lt", taps.index, first), taps.index, f.add(taps.index, count))
                    self._tap(columns, tile, tap)
            else:
                with f.for_range(0, last.taps, at_least_once=True) as taps:
                    self._tap(columns, tile, taps.index)
            tiles.next(f.gep(soon, ahead.tile, I8))

    def _is_joined(self) -> bool:
        """Whether the taps of a line lie one behind the other, as those of B do."""
        a, channels = self.f.i64(self.last.a), self.channels
        return a.name == channels.name or (a.number is not None and a.number == channels.number)

    def _whole(self, tile: _TilePositions) -> tuple[Val, Val]:
        """The first tap of the last dim that is inside for all positions of a tile, and how many are."""
        f, dim = self.f, self.last
        if dim.position is None:
            return const(I64, 0), const(I64, dim.taps)
        before = f.sub(const(I64, 0), f.add(f.i64(dim.offset), f.mul(tile.begin, dim.step)))
        first = ceil_div(f, f.smax(before, 0), dim.spread)
        behind = f.sub(f.i64(dim.size), f.add(f.i64(dim.offset), f.mul(f.sub(tile.end, 1), dim.step)))
        stop = f.smin(ceil_div(f, f.smax(behind, 0), dim.spread), dim.taps)
        return first, f.smax(f.sub(stop, first), 0)

    def _tap(self, columns: PanelColumns, tile: _TilePositions, tap: Val) -> None:
        """Adds the products of one tap for the positions for which it is inside."""
        f, dim = self.f, self.last
        if dim.position is not None:
            at = f.add(f.i64(dim.offset), f.mul(tap, dim.spread))
            begin = f.smax(tile.begin, ceil_div(f, f.smax(f.sub(const(I64, 0), at), 0), dim.step))
            end = f.smin(tile.end, ceil_div(f, f.smax(f.sub(f.i64(dim.size), at), 0), dim.step))
            tile = replace(tile, begin=begin, end=end)
        with f.if_(f.compare("lt", tile.begin, tile.end)):
            self._call(columns, tile, tap, self.channels)

    def _call(self, columns: PanelColumns, tile: _TilePositions, tap: Val, steps: Val) -> None:
        """Adds so many steps of k, from a tap of the last dim on."""
        f, s, element, width = self.f, tile.stretch, self.spec.element, const(I64, self.tiles.columns)
        kernel = f.load(self.table, PTR, f.add(columns.kind, f.sub(tile.end, tile.begin)))
        a = f.gep(s.a, f.add(f.mul(tile.begin, self.step), f.mul(tap, f.i64(self.last.a))), element)
        before = f.mul(tap, self.channels)
        b = f.gep(s.b, f.mul(before, width), self.b_type)
        c = f.gep(s.sums, f.mul(f.sub(tile.begin, s.begin), width), element)
        soon = f.gep(tile.soon, f.mul(before, tile.share), I8)
        one = const(I64, 1)
        arguments = [steps, a, self.step, one, b, width, width, c, width, columns.count, soon, tile.share]
        f.call_pointer(kernel, VOID, arguments)
