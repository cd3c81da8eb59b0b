"""Products of words by matrix tiles: kernels of one or two tiles of rows times one or two of columns, and packing for them.

Panels of B are those of the other kernels: 16 words of k of 16 columns are a tile. A is packed by rows, whose words along k lie side by
side. The steps of both are rounded up to whole tiles and filled with zeros; rows and columns past the last one are whatever lies there, as
no other row or column depends on them, and their sums go nowhere.

In: a target, the names of a kind of words. Out: the functions of a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..llvm import matrix_tiles
from ..llvm.builder import FunctionBuilder, Module
from ..llvm.matrix_tiles import ROW_BYTES, ROWS, WORDS
from ..llvm.transpose import transpose
from ..llvm.types import I8, I32, I64, PTR, VOID, Val, const
from .kernel_arguments import KERNEL_ARGUMENTS

TALLEST = 2 * ROWS
"""Rows of the largest kernel: with as many columns, each tile that is loaded is multiplied twice."""
ROW_PACK_ARGUMENTS = [
    ("source", PTR),  # element l of row i at source[i * row_step + l]
    ("row_step", I64),
    ("rows", I64),
    ("k", I64),  # elements
    ("pitch", I64),  # words between rows of the result
    ("to", PTR),
]
STRIP_ARGUMENTS = [
    ("strip", PTR),  # word l of row i at strip[l * ROWS + i]
    ("steps", I64),  # whole tiles of words
    ("pitch", I64),
    ("to", PTR),  # word l of row i to to[i * pitch + l]
]
TAP_KERNEL_ARGUMENTS = [
    ("k", I64),  # words of one line of taps, whole tiles of them
    ("lines", I64),
    ("a", PTR),  # word l of row i at tap line t at a[t * line_step + i * a_row + l]
    ("a_row", I64),
    ("line_step", I64),
    ("b", PTR),  # word l of column j at tap line t at b[(t * k + l) * b_step + j]
    ("b_step", I64),
    ("c", PTR),
    ("c_step", I64),
    ("soon", PTR),  # as KERNEL_ARGUMENTS have it
    ("soon_step", I64),
]
_A, _B = 4, 6
"""The first tiles of the factors; those before are of sums."""


@dataclass(frozen=True)
class TileNames:
    """Names in the library of a kind of words: the table of kernels, what packs rows along k, and what transposes strips to rows. `product`
    is the instruction; `taps` the table of kernels of rows that are read at the taps of windows."""

    table: str
    pack_rows: str
    transpose: str
    product: str
    taps: str


def whole_steps(steps: Any) -> Any:
    """Steps rounded up to whole tiles, as an int or a dim."""
    return (steps + (WORDS - 1)) // WORDS * WORDS


def emit_whole_steps(f: FunctionBuilder, steps: Val) -> Val:
    return f.and_(f.add(steps, WORDS - 1), -WORDS)


def table_entries(name: str) -> list[str]:
    """The kernels by rows: none of no row, then those of one tile of rows, then those of two."""
    return ["", *(f"{name}_{1 + (rows > ROWS)}" for rows in range(1, TALLEST + 1))]


def emit_tile_kernels(module: Module, names: TileNames, kinds: Sequence[int]) -> None:
    """Emits the kernels, and the exported table of them: for each kind the tiles of columns that its kernels have."""
    for columns in sorted({*kinds}):
        for rows in (1, 2):
            _emit_kernel(module, f"{names.table}_{columns}_{rows}", _TileKernel(rows, columns, names.product))
    module.pointer_table(
        names.table, [entry for columns in kinds for entry in table_entries(f"{names.table}_{columns}")]
    )


@dataclass(frozen=True)
class _TileKernel:
    """A kernel of so many tiles of rows and of columns, which are in a register each."""

    rows: int
    columns: int
    product: str

    def _total(self, row: int, column: int) -> int:
        return row * self.columns + column

    def clear(self, f: FunctionBuilder) -> None:
        for total in range(self.rows * self.columns):
            matrix_tiles.clear(f, total)

    def add(
        self, f: FunctionBuilder, k: Val, carried: tuple[Val, Val, Val], steps: tuple[Val, Val, Val]
    ) -> tuple[Val, ...]:
        """Adds the products of k words. `carried`: where A, B, and what is prefetched begin; returns where they end. `steps`: bytes from a
        row of A to the next, from a step of B, and of what is prefetched. That goes into the second cache, since the factors of a large
        kernel are more than the first one holds; of two lines one is asked for, and the processor fetches the other."""
        a_bytes, b_bytes, soon_step = steps
        b_next, soon_next = f.mul(b_bytes, WORDS), f.mul(soon_step, WORDS)
        with f.for_range(0, k, WORDS, carried=carried) as loop:
            a_now, b_now, soon_now = loop.carried
            with f.for_range(0, soon_next, 2 * ROW_BYTES) as lines:
                f.prefetch(f.gep(soon_now, lines.index, I8), to_write=False, into=2)
            for at in range(self.columns):
                matrix_tiles.load(f, _B + at, f.gep(b_now, at * WORDS, I32), b_bytes)
            for at in range(self.rows):
                start = f.gep(a_now, f.mul(a_bytes, at * ROWS), I8) if at else a_now
                matrix_tiles.load(f, _A + at, start, a_bytes)
                for column in range(self.columns):
                    matrix_tiles.multiply(f, self.product, self._total(at, column), _A + at, _B + column)
            loop.next(f.gep(a_now, WORDS, I32), f.gep(b_now, b_next, I8), f.gep(soon_now, soon_next, I8))
        return loop.results

    def store(self, f: FunctionBuilder, c: Val, c_bytes: Val) -> None:
        for row in range(self.rows):
            start = f.gep(c, f.mul(c_bytes, row * ROWS), I8) if row else c
            for column in range(self.columns):
                matrix_tiles.store(f, self._total(row, column), f.gep(start, column * WORDS, I32), c_bytes)


def _emit_kernel(module: Module, name: str, kernel: _TileKernel) -> None:
    """Emits a kernel: all of `k`, whole tiles of it, is added up in tiles. `a_row` and the steps of B and C count words."""
    with module.function(name, VOID, KERNEL_ARGUMENTS, internal=True) as f:
        k, a, a_row, _, b, b_step, _, c, c_step, _, soon, soon_step = f.args
        a_bytes, b_bytes, c_bytes = (f.mul(words, 4) for words in (a_row, b_step, c_step))
        kernel.clear(f)
        kernel.add(f, k, (a, b, soon), (a_bytes, b_bytes, soon_step))
        kernel.store(f, c, c_bytes)
        f.ret()


def emit_tap_kernels(module: Module, names: TileNames) -> None:
    """Emits kernels of rows that are read at the taps of windows, one line of taps after the other, and the exported table of them: of one
    tile of rows and of two, for one tile of columns, then for two."""
    table = [(rows, columns) for columns in (1, 2) for rows in (1, 2)]
    for rows, columns in table:
        kernel = _TileKernel(rows, columns, names.product)
        with module.function(f"{names.taps}_{columns}_{rows}", VOID, TAP_KERNEL_ARGUMENTS, internal=True) as f:
            k, lines, a, a_row, line_step, b, b_step, c, c_step, soon, soon_step = f.args
            a_bytes, line_bytes, b_bytes, c_bytes = (f.mul(words, 4) for words in (a_row, line_step, b_step, c_step))
            kernel.clear(f)
            with f.for_range(0, lines, carried=[a, b, soon]) as loop:
                at, b_now, soon_now = loop.carried
                _, b_now, soon_now = kernel.add(f, k, (at, b_now, soon_now), (a_bytes, b_bytes, soon_step))
                loop.next(f.gep(at, line_bytes, I8), b_now, soon_now)
            kernel.store(f, c, c_bytes)
            f.ret()
    module.pointer_table(names.taps, [f"{names.taps}_{columns}_{rows}" for rows, columns in table])


def emit_strip_transposition(module: Module, name: str) -> None:
    """Emits the exported transposition of a packed strip of 16 rows: square blocks of words in registers."""
    words = I32.vector(ROWS)
    with module.function(name, VOID, STRIP_ARGUMENTS) as f:
        strip, steps, pitch, to = f.args
        with f.for_range(0, steps, WORDS) as loop:
            block = f.gep(strip, f.mul(loop.index, ROWS), I32)
            target = f.gep(to, loop.index, I32)
            for row in transpose(f, [f.load(block, words, step * ROWS) for step in range(WORDS)]):
                f.store(row, target)
                target = f.gep(target, pitch, I32)
        f.ret()


def clear_steps(f: FunctionBuilder, at: Val, width: int, first: Val, end: Val) -> None:
    """Fills steps first .. end - 1 of a strip of so many words a step with zeros."""
    zeros = const(I32.vector(WORDS), 0)
    with f.for_range(f.mul(first, width), f.mul(end, width), WORDS) as loop:
        f.store(zeros, at, loop.index)


def clear_row_ends(f: FunctionBuilder, at: Val, rows: Val, pitch: Val, first: Val, end: Val) -> None:
    """Fills words first .. end - 1 of each row with zeros: fewer than a tile has."""
    words = I32.vector(WORDS)
    mask = f.not_(f.tail_mask(f.sub(first, f.sub(end, WORDS)), WORDS))
    with f.if_(f.compare("lt", first, end)), f.for_range(0, rows) as loop:
        row = f.gep(at, f.mul(loop.index, pitch), I32)
        f.masked_store(const(words, 0), f.gep(row, f.sub(end, WORDS), I32), mask)
