"""Epilogues that run on sums in memory: over the tile while it is in the first cache.

In: the sums of a tile, in memory of its own. Out: code that hands them to the epilogue, row by row, as vectors of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..llvm.builder import FunctionBuilder
from ..llvm.types import I64, Val, ValLike, const
from .spec import ContractionSpec, Epilogue, Masks, RowBody, Tile


@dataclass(frozen=True, kw_only=True)
class TileSums:
    """The sums of a tile: element (i, j) at address[i * step + j] is of row `row` + i and column `column` + j, for so many rows and
    columns."""

    address: Val
    step: Val
    row: Val
    height: Val
    column: Val
    count: Val


def finish(
    f: FunctionBuilder, spec: ContractionSpec, lanes: int, epilogue: Epilogue, tile: Tile, sums: TileSums
) -> None:
    """Run the epilogue over a tile: for as many vectors at once as the contraction says, then for one, then for what is left."""

    def piece(offset: Val, masks: Masks) -> None:
        body = epilogue(f, tile, f.add(sums.column, offset), masks)

        def row_of(number: Val) -> None:
            first = f.add(f.mul(number, sums.step), offset)
            places = [f.add(first, k * lanes) for k in range(len(masks))]
            vectors = [f.load(sums.address, spec.element.vector(lanes), place) for place in places]
            body(f, f.add(sums.row, number), vectors)

        def segment(begin: Val, end: Val) -> None:
            with f.for_range(f.sub(begin, sums.row), f.sub(end, sums.row)) as rows:
                row_of(rows.index)

        if spec.row_segments is not None:
            spec.row_segments(f, sums.row, sums.height, segment)
            return
        with f.for_range(0, sums.height, at_least_once=True) as rows:
            row_of(rows.index)

    def vector(offset: Val, mask: Val | None) -> None:
        if spec.segments is None:
            piece(offset, (mask,))
        else:
            spec.segments(f, tile, f.add(sums.column, offset), mask, lambda inside: piece(offset, (inside,)))

    done: ValLike = 0
    if spec.together > 1:
        done = f.binary("and", sums.count, const(I64, -lanes * spec.together))
        with f.for_range(0, done, lanes * spec.together) as loop:
            piece(loop.index, (None,) * spec.together)
    whole = f.binary("and", sums.count, const(I64, -lanes))
    with f.for_range(done, whole, lanes) as loop:
        vector(loop.index, None)
    with f.if_(f.compare("lt", whole, sums.count)):
        vector(whole, f.tail_mask(f.sub(sums.count, whole), lanes))


def adjacent_store(spec: ContractionSpec, pointer: Val | None) -> Epilogue:
    """The epilogue of a destination whose columns are adjacent; it begins at `pointer`."""
    assert spec.c is not None
    assert pointer is not None
    row_stride = spec.c.row

    def columns(f: FunctionBuilder, tile: Tile, column: Val, masks: Masks) -> RowBody:
        def store(g: FunctionBuilder, row: Val, sums: Sequence[Val]) -> None:
            at = g.gep(pointer, g.add(g.mul(row, g.i64(row_stride)), column), spec.element)
            for k, (total, mask) in enumerate(zip(sums, masks, strict=True)):
                place = g.gep(at, k * total.type.lanes, spec.element)
                if mask is None:
                    g.store(total, place)
                else:
                    g.masked_store(total, place, mask)

        return store

    return columns


def strided_store(spec: ContractionSpec, lanes: int, pointer: Val | None) -> Epilogue:
    """The epilogue of a destination whose columns are not adjacent; it begins at `pointer`."""
    assert spec.c is not None
    assert pointer is not None
    row_stride, column_stride = spec.c.row, spec.c.column

    def columns(f: FunctionBuilder, tile: Tile, column: Val, masks: Masks) -> RowBody:
        (mask,) = masks
        stride = f.i64(column_stride)
        rows = f.i64(row_stride)
        places = f.mul(f.add(f.splat(column, lanes), f.iota(I64, lanes)), f.splat(stride, lanes))

        def store(g: FunctionBuilder, row: Val, sums: Sequence[Val]) -> None:
            g.scatter(sums[0], g.gep(pointer, g.mul(row, rows), spec.element), places, mask)

        return store

    return columns
