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
_A, _B = 4, 6
"""The first tiles of the factors; those before are of sums."""


@dataclass(frozen=True)
class TileNames:
    """Names in the library of a kind of words: the table of kernels, what packs rows along k, and what transposes strips to rows. `product`
    is the instruction."""

    table: str
    pack_rows: str
    transpose: str
    product: str


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
            _emit_kernel(module, f"{names.table}_{columns}_{rows}", rows, columns, names.product)
    module.pointer_table(
        names.table, [entry for columns in kinds for entry in table_entries(f"{names.table}_{columns}")]
    )


def _emit_kernel(module: Module, name: str, rows: int, columns: int, product: str) -> None:
    """Emits a kernel of so many tiles of rows and columns. All of `k`, whole tiles of it, is added up in tiles. `a_row` and the steps of B
    and C count words. What is prefetched goes into the second cache: the factors of a large kernel are more than the first one holds."""
    with module.function(name, VOID, KERNEL_ARGUMENTS, internal=True) as f:
        k, a, a_row, _, b, b_step, _, c, c_step, _, soon, soon_step = f.args
        a_bytes, b_bytes, c_bytes = (f.mul(words, 4) for words in (a_row, b_step, c_step))
        sums = [[row * columns + column for column in range(columns)] for row in range(rows)]
        for row in sums:
            for total in row:
                matrix_tiles.clear(f, total)
        b_next, soon_next = f.mul(b_bytes, WORDS), f.mul(soon_step, WORDS)
        with f.for_range(0, k, WORDS, carried=[a, b, soon]) as loop:
            a_now, b_now, soon_now = loop.carried
            with f.for_range(0, soon_next, 2 * ROW_BYTES) as lines:
                f.prefetch(f.gep(soon_now, lines.index, I8), to_write=False, into=2)
            for at in range(columns):
                matrix_tiles.load(f, _B + at, f.gep(b_now, at * WORDS, I32), b_bytes)
            for at in range(rows):
                start = f.gep(a_now, f.mul(a_bytes, at * ROWS), I8) if at else a_now
                matrix_tiles.load(f, _A + at, start, a_bytes)
                for column in range(columns):
                    matrix_tiles.multiply(f, product, sums[at][column], _A + at, _B + column)
            loop.next(f.gep(a_now, WORDS, I32), f.gep(b_now, b_next, I8), f.gep(soon_now, soon_next, I8))
        for at, row in enumerate(sums):
            start = f.gep(c, f.mul(c_bytes, at * ROWS), I8) if at else c
            for column, total in enumerate(row):
                matrix_tiles.store(f, total, f.gep(start, column * WORDS, I32), c_bytes)
        f.ret()


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
