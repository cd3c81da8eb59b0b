"""Micro-kernels for few rows of A and a B whose columns are contiguous along k: attention of one query, mostly.

To transpose such a B in registers would cost more than the product itself. Here vectors run along k, a sum per row and column is kept in a
vector of its own, and a vector full of sums is folded into one at the end: of several rows times as many columns less, so that a column is
read, and widened or rounded, once for all of them.

In: the row count. Out: a function with the arguments of every kernel, of which `a_row` is the distance of rows of A, and `b_step` here that
of columns of B; `a_step` and `b_panel` are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.types import I8, I64, VOID, Type, Val, const
from .kernel_arguments import KERNEL_ARGUMENTS, multiply_add, widened
from .tiles import Tiles

_AHEAD = 16
"""Columns that a column is prefetched ahead of: those that are read side by side are streams that the processor does not follow by itself
from one group of columns to the next."""


class DotOperands(Protocol):
    """How vectors along k are read and multiplied."""

    @property
    def steps(self) -> int:
        """StoredElements along k that are multiplied at once."""

    def read(self, f: FunctionBuilder, at: Val, index: Val, of_b: bool, masks: Sequence[Val | None]) -> Val:
        """What is multiplied of the elements from an index on, of B or of A; `masks` of the vectors that they are, None for a whole one."""

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val: ...


@dataclass(frozen=True)
class StoredElements:
    """StoredElements as they are, those of B widened from what they are stored as."""

    element: Type
    stored: Type
    lanes: int

    @property
    def steps(self) -> int:
        return self.lanes

    def read(self, f: FunctionBuilder, at: Val, index: Val, of_b: bool, masks: Sequence[Val | None]) -> Val:
        raw = read_vector(f, at, (self.stored if of_b else self.element).vector(self.lanes), index, masks[0])
        return widened(f, raw, self.element.vector(self.lanes))

    def multiply_add(self, f: FunctionBuilder, a: Val, b: Val, total: Val) -> Val:
        return multiply_add(f, a, b, total)


def read_vector(f: FunctionBuilder, at: Val, type_: Type, index: Val, mask: Val | None) -> Val:
    """Loads a vector at an index, or those of its lanes that a mask has; the others are 0."""
    return f.load(at, type_, index) if mask is None else f.masked_load(at, type_, mask, index)


def emit_dot(module: Module, tiles: Tiles, name: str, rows: int, stored: Type, of: DotOperands | None = None) -> None:
    operands = of or StoredElements(tiles.element, stored, tiles.lanes)
    with module.function(name, VOID, KERNEL_ARGUMENTS, internal=True) as f:
        for first in range(0, rows, tiles.lanes):
            _emit_rows(f, tiles, range(first, min(rows, first + tiles.lanes)), stored, operands)
        f.ret()


def _emit_rows(f: FunctionBuilder, tiles: Tiles, rows: range, stored: Type, operands: DotOperands) -> None:
    """Emits the sums of so many rows, for as many columns at a time as there are lanes for each row."""
    element, lanes = tiles.element, tiles.lanes
    width = lanes >> (len(rows) - 1).bit_length()
    k, a, a_row, _, b, b_step, _, c, c_step, count, *_ = f.args
    of_rows = [f.gep(a, f.mul(a_row, i), element) for i in rows]
    to_rows = [f.gep(c, f.mul(c_step, i), element) for i in rows]
    with f.for_range(0, count, width) as columns:
        left = f.sub(count, columns.index)
        last = f.sub(left, 1)
        starts = [f.gep(b, f.mul(f.add(columns.index, f.smin(last, j)), b_step), stored) for j in range(width)]
        soon = [f.gep(start, f.mul(b_step, _AHEAD), stored) for start in starts]
        lines = _lines_ahead(tiles, len(rows), operands.steps * stored.bytes)
        sums = _dots(f, tiles, k, of_rows, starts, operands, lambda index: _prefetch(f, soon, stored, index, lines))
        mask = f.tail_mask(left, width)
        for i, to in enumerate(to_rows):
            own = sums if width == lanes else f.shuffle(sums, None, range(i * width, (i + 1) * width))
            f.masked_store(own, to, mask, columns.index)


def _lines_ahead(tiles: Tiles, rows: int, read: int) -> range:
    """The first bytes of the lines that are prefetched of a column in a step that reads so many bytes of it: none for one row, which leaves
    no time for it, nor where a step is less than half a line, of which so much is computed that memory is not waited for."""
    return range(0, read, tiles.line) if rows > 1 and 2 * read >= tiles.line else range(0)


def _prefetch(f: FunctionBuilder, columns: Sequence[Val], stored: Type, index: Val, lines: range) -> None:
    """Prefetches the lines of some columns that begin so many bytes behind an index."""
    for column in columns if lines else ():
        at = f.gep(column, index, stored)
        for line in lines:
            f.prefetch(f.gep(at, line, I8), False)


def _dots(
    f: FunctionBuilder,
    tiles: Tiles,
    k: Val,
    of_rows: Sequence[Val],
    starts: Sequence[Val],
    of: DotOperands,
    prefetch: Callable[[Val], None],
) -> Val:
    """The products of each row with some columns, one row after the other. `prefetch`: emits prefetches at an index of a whole step."""
    lanes, steps, nothing = tiles.lanes, of.steps, const(tiles.element.vector(tiles.lanes), 0)
    whole = f.sub(k, f.binary("and", k, const(I64, steps - 1)))
    totals: Sequence[Val] = [nothing] * (len(of_rows) * len(starts))
    for first, end in ((const(I64, 0), whole), (whole, k)):
        masks: Sequence[Val | None] = [None] * (steps // lanes)
        if end is k:
            rest = f.sub(k, whole)
            masks = [f.tail_mask(rest, lanes, place) for place in range(0, steps, lanes)]
        with f.for_range(first, end, steps, carried=totals) as loop:
            if end is not k:
                prefetch(loop.index)
            factors = [of.read(f, row, loop.index, False, masks) for row in of_rows]
            columns = [of.read(f, start, loop.index, True, masks) for start in starts]
            pairs = [(factor, column) for factor in factors for column in columns]
            loop.next(*[of.multiply_add(f, *pair, total) for pair, total in zip(pairs, loop.carried)])
        totals = loop.results
    return _fold(f, [*totals, *[nothing] * (lanes - len(totals))])


def _fold(f: FunctionBuilder, totals: list[Val]) -> Val:
    """Lane j of the result is the sum of the lanes of vector j: neighbours are added until one vector is left."""
    lanes = totals[0].type.lanes
    even, odd = list(range(0, 2 * lanes, 2)), list(range(1, 2 * lanes, 2))
    while len(totals) > 1:
        totals = [f.add(f.shuffle(x, y, even), f.shuffle(x, y, odd)) for x, y in zip(totals[::2], totals[1::2])]
    return totals[0]
