"""Copying a matrix so that its columns become rows: squares are transposed in registers.

In: element (i, l) at source[i * row_step + l]. Out: element (l, i) at to[l * to_step + i], for all i below `rows` and l from `first` to
`last`. Rows and columns are at least as many as a vector has lanes; where they are no multiple of it, the last square overlaps the one
before, so that nothing is masked, and what is written twice is the same.

`moved` counts the bytes that the whole operation reads and writes. Where they exceed the last cache, whole lines of the result are stored
past the caches: an ordinary store reads its line first, and evicts another one that is still to be read. Where rows of the result do not
begin at lines, a line is put together of two squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.transpose import transpose
from ..llvm.types import I8, I16, I64, PTR, VOID, Type, Val, const
from ..target import Target

TRANSPOSE_ARGUMENTS = [
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
"""Vectors of columns that are transposed together in a wide strip: several lines of each row at once."""
SHORT_STRIP = 16
"""Vectors of columns of a strip of elements of 8 and 16 bits whose columns become rows of at most a line: 8 KiB of the result."""


def transpose_name(element: Type) -> str:
    return f"anyshape_gemm_{element.suffix}_turn"


def moved_as(element: Type) -> Type:
    """The element type whose function copies elements of a type: of 8 and 16 bits, integers as wide."""
    return {8: I8, 16: I16}.get(element.bits, element)


def lanes_of(target: Target, element: Type) -> int:
    """The side of a square: a vector, and of elements of 8 and 16 bits 16 bytes, which are interleaved as they are."""
    return (target.vector_bytes if element.bytes >= 4 else 16) // element.bytes


def emit_transpose(module: Module, element: Type) -> None:
    """Emits the exported function."""
    lanes = lanes_of(module.target, element)
    with module.function(transpose_name(element), VOID, TRANSPOSE_ARGUMENTS) as f:
        copy = _Copy(f=f, element=element, lanes=lanes, **{name: f.arg(name) for name, _ in TRANSPOSE_ARGUMENTS})
        past = f.compare("gt", copy.moved, f.target.last_cache_holds)
        whole, at_lines = f.and_(copy.rows, -copy.per_line), copy.at_lines()
        lines = f.select(f.and_(past, at_lines), whole, const(I64, 0))
        with f.if_(f.compare("gt", lines, 0)):
            copy.lines(whole)
        across = f.and_(f.and_(past, f.not_(at_lines)), f.compare("gt", whole, copy.per_line))
        with f.if_(across):
            copy.across_lines(whole)
        copy.squares(f.select(across, f.sub(whole, copy.per_line), lines))
        f.ret()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """The open function of a copy and its arguments."""

    f: FunctionBuilder
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

    @property
    def line_bytes(self) -> int:
        return self.per_line * self.element.bytes

    def at_lines(self) -> Val:
        """Whether all rows of the result begin at lines."""
        f = self.f
        places = f.or_(f.convert("ptrtoint", self.to, I64), f.mul(self.to_step, self.element.bytes))
        return f.compare("eq", f.and_(places, self.line_bytes - 1), 0)

    def lines(self, whole: Val) -> None:
        """Stores so many rows as whole lines past the caches. Columns are taken together as far as what is read for them fits half of the
        first cache: rows of memory are then read for a while, one after the other."""
        f = self.f
        width = max(self.lanes, f.target.l1_bytes // 2 // self.line_bytes)
        with f.for_range(self.first, self.last, width) as strip:
            end = f.smin(f.add(strip.index, width), self.last)
            with f.for_range(0, whole, self.per_line) as down:
                rows = [self.row_starts(f.add(down.index, k)) for k in range(0, self.per_line, self.lanes)]
                with f.for_range(strip.index, end, self.lanes) as right:
                    if self.element.bytes < 4:
                        self.store_lines([self.transposed(starts, right.index) for starts in rows], down.index)
                    for at, starts in enumerate(rows) if self.element.bytes >= 4 else ():
                        self.square(starts, f.add(down.index, at * self.lanes), right.index, f.store_past_caches)
        f.end_past_caches()

    def store_lines(self, squares: Sequence[tuple[Val, list[Val]]], i: Val) -> None:
        """Stores squares side by side line after line: a processor puts few lines together at a time."""
        f, place = self.f, self.place(squares[0][0], i)
        for row in zip(*(transposed for _, transposed in squares), strict=True):
            for at, part in enumerate(row):
                f.store_past_caches(part, f.gep(place, at * self.lanes, self.element))
            place = f.gep(place, self.to_step, self.element)

    def across_lines(self, whole: Val) -> None:
        """Stores lines past the caches where rows of the result begin anywhere: two lines' worth of each row are held, out of which the
        line between is stored. The first rows are also stored as they are; the last `per_line` of them are left, as the line that they
        begin in is."""
        f, per_line = self.f, self.per_line
        width = max(self.lanes, f.target.l1_bytes // 4 // self.line_bytes)
        held = f.alloca(self.element, 2 * per_line * (width + self.lanes))
        with f.for_range(self.first, self.last, width) as strip:
            end = f.smin(f.add(strip.index, width), self.last)
            base = f.smin(strip.index, f.sub(self.columns, self.lanes))
            origin = f.gep(held, f.mul(base, -2 * per_line), self.element)
            self.hold(const(I64, 0), strip.index, end, origin, 0)
            with f.for_range(per_line, whole, per_line) as down:
                self.hold(down.index, strip.index, end, origin, per_line)
                with f.for_range(base, end) as column:
                    self.line_between(column.index, f.sub(down.index, per_line), origin)
        f.end_past_caches()

    def hold(self, i: Val, begin: Val, end: Val, origin: Val, at: int) -> None:
        """Puts a line's worth of rows from `i` on behind the columns' first `at` elements; the first rows go to the result as well."""
        f = self.f
        for k in range(0, self.per_line, self.lanes):
            starts = self.row_starts(f.add(i, k))
            with f.for_range(begin, end, self.lanes) as right:
                column, transposed = self.transposed(starts, right.index)
                place = f.gep(origin, f.add(f.mul(column, 2 * self.per_line), at + k), self.element)
                for number, row in enumerate(transposed):
                    f.store(row, place, 2 * self.per_line * number)
                if not at:
                    self.store_rows(transposed, column, f.add(i, k), f.store)

    def line_between(self, column: Val, i: Val, origin: Val) -> None:
        """Stores the line that begins in the first half of what is held of a column, and moves the second half there."""
        f, vector = self.f, self.element.vector(self.lanes)
        place = f.convert("ptrtoint", self.place(column, i), I64)
        line = f.and_(f.add(place, self.line_bytes - 1), -self.line_bytes)
        held = f.gep(origin, f.mul(column, 2 * self.per_line), self.element)
        window, to = f.gep(held, f.sub(line, place), I8), f.convert("inttoptr", line, PTR)
        for k in range(0, self.per_line, self.lanes):
            f.store_past_caches(f.load(window, vector, k), f.gep(to, k, self.element))
        for k in range(0, self.per_line, self.lanes):
            f.store(f.load(held, vector, self.per_line + k), held, k)

    def squares(self, begin: Val) -> None:
        """Copies rows from `begin` on by squares."""
        f, lanes = self.f, self.lanes
        width = f.select(self.is_wide(), const(I64, STRIP * lanes), const(I64, lanes))
        if self.element.bytes >= 4:
            self.strips(begin, width, self.strip)
            return
        with f.if_else(f.compare("le", self.to_step, self.per_line)) as order:
            with order.then():  # a strip's lines are few, in whatever order they are written
                self.strips(begin, const(I64, SHORT_STRIP * lanes), self.strip)
            with order.otherwise():
                self.strips(begin, width, self.short_squares)

    def strips(self, begin: Val, width: Val, copy: Callable[[Val, Val, Val], None]) -> None:
        """Copies by strips of so many columns."""
        with self.f.for_range(self.first, self.last, width) as strip:
            copy(begin, strip.index, self.f.smin(self.f.add(strip.index, width), self.last))

    def strip(self, begin: Val, first: Val, end: Val) -> None:
        f, lanes = self.f, self.lanes
        with f.for_range(begin, self.rows, lanes) as down:
            i = f.smin(down.index, f.sub(self.rows, lanes))
            starts = self.row_starts(i)
            with f.for_range(first, end, lanes) as right:
                self.square(starts, i, right.index, f.store)

    def short_squares(self, begin: Val, first: Val, end: Val) -> None:
        """Copies a strip by squares whose rows are parts of a line: those of the same lines one after the other."""
        f, lanes = self.f, self.lanes
        with f.for_range(begin, self.rows, self.per_line) as line, f.for_range(first, end, lanes) as right:
            last = f.smin(f.add(line.index, self.per_line), self.rows)
            with f.for_range(line.index, last, lanes) as down:
                i = f.smin(down.index, f.sub(self.rows, lanes))
                self.square(self.row_starts(i), i, right.index, f.store)

    def is_wide(self) -> Val:
        """Whether strips have several vectors of columns. Memory beyond the caches is read sooner if the side with the longer steps, of
        which each row lies in a page of its own, goes on for several lines; so is nearer memory, unless a strip's rows of the result evict
        each other from the first cache, as steps of large powers of two make them."""
        f = self.f
        near = f.compare("le", self.moved, f.target.l3_bytes // 4)
        share = f.target.l1_bytes // (STRIP * self.lanes)
        apart = f.compare("ne", f.and_(f.mul(self.to_step, self.element.bytes), (1 << share.bit_length()) - 1), 0)
        return f.select(near, apart, f.compare("ge", self.row_step, self.to_step))

    def row_starts(self, i: Val) -> list[Val]:
        """The beginnings of as many rows as a square has, from `i` on. Of short elements, whose squares are small, each is made of the one
        before, which takes fewer instructions; in longer strips they do not wait for each other."""
        f, element = self.f, self.element
        if element.bytes >= 4:
            return [f.gep(self.source, f.mul(f.add(i, k), self.row_step), element) for k in range(self.lanes)]
        starts = [f.gep(self.source, f.mul(i, self.row_step), element)]
        while len(starts) < self.lanes:
            starts.append(f.gep(starts[-1], self.row_step, element))
        return starts

    def square(self, starts: Sequence[Val], i: Val, right: Val, store: Callable[[Val, Val], None]) -> None:
        """Copies the square of rows from `i` and columns from `right` on, or the last ones."""
        column, transposed = self.transposed(starts, right)
        self.store_rows(transposed, column, i, store)

    def transposed(self, starts: Sequence[Val], right: Val) -> tuple[Val, list[Val]]:
        f = self.f
        column = f.smin(right, f.sub(self.columns, self.lanes))
        return column, transpose(f, [f.load(start, self.element.vector(self.lanes), column) for start in starts])

    def store_rows(self, transposed: Sequence[Val], column: Val, i: Val, store: Callable[[Val, Val], None]) -> None:
        place = self.place(column, i)
        for row in transposed:
            store(row, place)
            place = self.f.gep(place, self.to_step, self.element)

    def place(self, column: Val, i: Val) -> Val:
        f = self.f
        return f.gep(self.to, f.add(f.mul(column, self.to_step), i), self.element)
