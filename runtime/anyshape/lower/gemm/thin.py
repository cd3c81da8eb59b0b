"""Copying a matrix of few rows so that its columns become rows, and back: planes to interleaved elements (the channels of a picture).

In: planes of `count` elements, `plane` apart, and elements side by side, `few` of them in turn. Out: `join` writes planes[c * plane + p]
to joined[p * few + c], `part` the other way, for p from `first` to `last`. Vectors are put together by picking lanes, so that all
memory is read and written in whole vectors. `count` is at least as many as a vector has lanes; the last vectors overlap those before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..llvm.builder import Function, Module
from ..llvm.types import I64, PTR, VOID, Type, Val
from .tiles import Tiles

FEW = (2, 3, 4)
"""The numbers of planes that there is code for."""
THIN_ARGUMENTS = [
    ("planes", PTR),
    ("plane", I64),
    ("joined", PTR),
    ("few", I64),
    ("first", I64),
    ("last", I64),
    ("count", I64),
]


def join_name(element: Type) -> str:
    return f"anyshape_gemm_{element.suffix}_join"


def part_name(element: Type) -> str:
    return f"anyshape_gemm_{element.suffix}_part"


def emit_thin(module: Module, tiles: Tiles) -> None:
    """The two exported functions."""
    _emit(module, tiles, join_name(tiles.element), _join)
    _emit(module, tiles, part_name(tiles.element), _part)


Move = Callable[[Function, Tiles, list[Val], Val], None]


def _emit(module: Module, tiles: Tiles, name: str, move: Move) -> None:
    element, lanes = tiles.element, tiles.lanes
    with module.function(name, VOID, THIN_ARGUMENTS) as f:
        planes, plane, joined, few, first, last, count = f.args
        for k in FEW:
            with f.if_(f.compare("eq", few, k)):
                rows = [f.gep(planes, f.mul(plane, c), element) for c in range(k)]
                with f.for_range(first, last, lanes) as turn:
                    p = f.smin(turn.index, f.sub(count, lanes))
                    side_by_side = f.gep(joined, f.mul(p, k), element)
                    move(f, tiles, [f.gep(row, p, element) for row in rows], side_by_side)
        f.ret()


def _join(f: Function, tiles: Tiles, planes: list[Val], joined: Val) -> None:
    vector, lanes, few = tiles.element.vector(tiles.lanes), tiles.lanes, len(planes)
    rows = [f.load(plane, vector) for plane in planes]
    for m in range(few):
        places = [divmod(m * lanes + lane, few) for lane in range(lanes)]
        f.store(_picked(f, rows, [(c, p) for p, c in places]), joined, m * lanes)


def _part(f: Function, tiles: Tiles, planes: list[Val], joined: Val) -> None:
    vector, lanes, few = tiles.element.vector(tiles.lanes), tiles.lanes, len(planes)
    vectors = [f.load(joined, vector, m * lanes) for m in range(few)]
    for c, plane in enumerate(planes):
        f.store(_picked(f, vectors, [divmod(lane * few + c, lanes) for lane in range(lanes)]), plane)


def _picked(f: Function, vectors: Sequence[Val], places: Sequence[tuple[int, int]]) -> Val:
    """Lane i is lane places[i][1] of vector places[i][0]: one choice between two vectors after the other."""
    lanes, result = len(places), vectors[0]
    for m in range(1, len(vectors)):
        if m == 1:
            picked = [lane if of == 0 else lanes + lane if of == 1 else -1 for of, lane in places]
        else:
            picked = [at if of < m else lanes + lane if of == m else -1 for at, (of, lane) in enumerate(places)]
        result = f.shuffle(result, vectors[m], picked)
    return result
