"""Copying a matrix so that its columns become rows: squares are turned in registers.

In: element (i, l) at source[i * row_step + l]. Out: element (l, i) at to[l * to_step + i], for all i below `rows` and l from `first` to
`last`. Rows and columns are at least as many as a vector has lanes; where they are no multiple of it, the last square overlaps the one
before, so that nothing is masked and nothing written twice differs.
"""

from __future__ import annotations

from collections.abc import Sequence

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
]
STRIP = 4
"""Vectors of columns that are turned together where the matrix is no guest of the last cache: several lines of each row at once."""


def turn_name(element: Type) -> str:
    return f"anyshape_gemm_{element.suffix}_turn"


def emit_turn(module: Module, tiles: Tiles) -> None:
    """The exported function."""
    element, lanes = tiles.element, tiles.lanes
    vector = element.vector(lanes)
    with module.function(turn_name(element), VOID, TURN_ARGUMENTS) as f:
        source, row_step, rows, first, last, columns, to, to_step = f.args
        fits = f.compare("le", f.mul(rows, columns), f.target.l3_bytes // 4 // element.bytes)
        width = f.select(fits, const(I64, lanes), const(I64, STRIP * lanes))
        with f.for_range(first, last, width) as strip:
            end = f.smin(f.add(strip.index, width), last)
            with f.for_range(0, rows, lanes) as down:
                i = f.smin(down.index, f.sub(rows, lanes))
                starts = [f.gep(source, f.mul(f.add(i, k), row_step), element) for k in range(lanes)]
                with f.for_range(strip.index, end, lanes) as right:
                    column = f.smin(right.index, f.sub(columns, lanes))
                    turned = transpose(f, [f.load(start, vector, column) for start in starts])
                    _store_rows(f, turned, f.gep(to, f.add(f.mul(column, to_step), i), element), to_step, element)
        f.ret()


def _store_rows(f: Function, rows: Sequence[Val], place: Val, step: Val, element: Type) -> None:
    for row in rows:
        f.store(row, place)
        place = f.gep(place, step, element)
