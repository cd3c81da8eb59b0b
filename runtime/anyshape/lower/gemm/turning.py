"""Copying a matrix so that its columns become rows: squares are turned in registers.

In: element (i, l) at source[i * row_step + l]. Out: element (l, i) at to[l * to_step + i], for all i below `rows` and l from `first` to
`last`. Rows and columns are at least as many as a vector has lanes; where they are no multiple of it, the last square overlaps the one
before, so that nothing is masked and nothing written twice differs.

`moved` is what the whole operation reads and writes. Where the last cache does not hold that, whole lines of the result are stored past the
caches: each line stored otherwise is read first, and drives out another one that is to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..llvm.builder import Function, Module
from ..llvm.transpose import transpose
from ..llvm.types import I64, PTR, VOID, Type, Val, const
from .tiles import Tiles

TURN_ARGUMENTS = [
    ("source", PTR),
    ("row_step", I64),
    ("rows", I64),
    ("first", I64),
    ("last", I64),
    ("columns", I64),
    ("to", PTR),
    ("to_step", I64),
    ("moved", I64),
]
STRIP = 4
"""Vectors of columns that are turned together where the matrix is no guest of the last cache: several lines of each row at once."""


def turn_name(element: Type) -> str:
    return f"anyshape_gemm_{element.suffix}_turn"


def emit_turn(module: Module, tiles: Tiles) -> None:
    """The exported function."""
    element, lanes = tiles.element, tiles.lanes
    with module.function(turn_name(element), VOID, TURN_ARGUMENTS) as f:
        copy = _Copy(f, element, lanes, *f.args)
        whole = copy.whole_lines()
        with f.if_(f.compare("gt", whole, 0)):
            copy.lines(whole)
        copy.squares(whole)
        f.ret()


@dataclass(frozen=True, slots=True)
class _Copy:
    """The function being written, and its arguments."""

    f: Function
    element: Type
    lanes: int
    source: Val
    row_step: Val
    rows: Val
    first: Val
    last: Val
    columns: Val
    to: Val
    to_step: Val
    moved: Val

    @property
    def per_line(self) -> int:
        return max(self.lanes, self.f.target.line_bytes // self.element.bytes)

    def whole_lines(self) -> Val:
        """How many rows become whole lines of the result, all of which begin at lines; 0 where the last cache holds all that is moved."""
        f = self.f
        places = f.or_(f.convert("ptrtoint", self.to, I64), f.mul(self.to_step, self.element.bytes))
        at_lines = f.compare("eq", f.and_(places, self.per_line * self.element.bytes - 1), 0)
        past = f.and_(at_lines, f.compare("gt", self.moved, f.target.last_cache_holds))
        return f.select(past, f.and_(self.rows, -self.per_line), const(I64, 0))

    def lines(self, whole: Val) -> None:
        """Stores whole lines past the caches. As many columns together as leave what is read for them in half of the first cache: rows of
        memory that are read for a while, one after the other."""
        f = self.f
        width = max(self.lanes, f.target.l1_bytes // 2 // f.target.line_bytes)
        for_each = range(0, self.per_line, self.lanes)
        with f.for_range(self.first, self.last, width) as strip:
            end = f.smin(f.add(strip.index, width), self.last)
            with f.for_range(0, whole, self.per_line) as down:
                rows = [(k, self.row_starts(f.add(down.index, k))) for k in for_each]
                with f.for_range(strip.index, end, self.lanes) as right:
                    for k, starts in rows:
                        self.square(starts, f.add(down.index, k), right.index, f.store_past_caches)
        f.end_past_caches()

    def squares(self, begin: Val) -> None:
        """Rows from `begin` on."""
        f, lanes = self.f, self.lanes
        fits = f.compare("le", f.mul(self.rows, self.columns), f.target.l3_bytes // 4 // self.element.bytes)
        width = f.select(fits, const(I64, lanes), const(I64, STRIP * lanes))
        with f.for_range(self.first, self.last, width) as strip:
            end = f.smin(f.add(strip.index, width), self.last)
            with f.for_range(begin, self.rows, lanes) as down:
                i = f.smin(down.index, f.sub(self.rows, lanes))
                starts = self.row_starts(i)
                with f.for_range(strip.index, end, lanes) as right:
                    self.square(starts, i, right.index, f.store)

    def row_starts(self, i: Val) -> list[Val]:
        f = self.f
        return [f.gep(self.source, f.mul(f.add(i, k), self.row_step), self.element) for k in range(self.lanes)]

    def square(self, starts: Sequence[Val], i: Val, right: Val, store: Callable[[Val, Val], None]) -> None:
        """Of rows from `i` and columns from `right` on, or the last ones."""
        f = self.f
        column = f.smin(right, f.sub(self.columns, self.lanes))
        vector = self.element.vector(self.lanes)
        turned = transpose(f, [f.load(start, vector, column) for start in starts])
        place = f.gep(self.to, f.add(f.mul(column, self.to_step), i), self.element)
        for row in turned:
            store(row, place)
            place = f.gep(place, self.to_step, self.element)
