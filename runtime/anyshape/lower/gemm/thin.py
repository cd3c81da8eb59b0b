"""Copying a matrix of few rows so that its columns become rows, and back: planes to interleaved elements (the channels of a picture).

In: planes of `count` elements, `plane` apart, and groups of `few` adjacent elements, fewer than a vector has lanes. Out: `join` writes
planes[c * plane + p] to joined[p * few + c], `part` the other way, for p from `first` to `last`. A single plane is a plain copy. Vectors of
a small number of planes are shuffled together, so that all memory is read and written in whole vectors; a larger number is a square that is
transposed in registers, of which some rows or columns are left out. `count` is at least as many as a vector has lanes; the last vectors
overlap those before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..llvm.builder import FunctionBuilder, Module
from ..llvm.transpose import transpose
from ..llvm.types import I64, PTR, VOID, Type, Val
from ..target import Target
from .transposition import lanes_of

PICKED = 8
"""The number of planes up to which lanes are shuffled: k planes take k - 1 shuffles for a vector, a square the same for any k."""
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


def most_planes(target: Target, element: Type) -> int:
    """The most planes that the functions take: fewer than lanes, and of elements of 8 and 16 bits, whose stores have no masks everywhere,
    those whose lanes are shuffled."""
    lanes = lanes_of(target, element)
    return lanes - 1 if element.bytes >= 4 else min(PICKED, lanes - 1)


class VectorShape(NamedTuple):
    element: Type
    lanes: int


def emit_thin(module: Module, element: Type) -> None:
    """Emits the two exported functions."""
    vector = VectorShape(element, lanes_of(module.target, element))
    _emit(module, vector, join_name(element), _join, _join_transposed)
    _emit(module, vector, part_name(element), _part, _part_transposed)


Move = Callable[[FunctionBuilder, VectorShape, list[Val], Val], None]
EmitIteration = Callable[[FunctionBuilder, VectorShape, Val, Val, Val, Val], None]


def _emit(module: Module, vector: VectorShape, name: str, move: Move, iteration: EmitIteration) -> None:
    element, lanes = vector
    picked = min(PICKED, lanes - 1)
    with module.function(name, VOID, THIN_ARGUMENTS) as f:
        planes, plane, joined, few, first, last, count = f.args
        with f.if_(f.compare("eq", few, 1)):
            _copy(f, vector, planes, joined, (first, last), name == join_name(element))
        for k in range(2, picked + 1):
            with f.if_(f.compare("eq", few, k)):
                rows = [f.gep(planes, f.mul(plane, c), element) for c in range(k)]
                with f.for_range(first, last, lanes) as loop:
                    p = f.smin(loop.index, f.sub(count, lanes))
                    side_by_side = f.gep(joined, f.mul(p, k), element)
                    move(f, vector, [f.gep(row, p, element) for row in rows], side_by_side)
        if picked < most_planes(f.target, element):
            with f.if_(f.compare("gt", few, picked)), f.for_range(first, last, lanes) as loop:
                p = f.smin(loop.index, f.sub(count, lanes))
                iteration(f, vector, f.gep(planes, p, element), plane, f.gep(joined, f.mul(p, few), element), few)
        f.ret()


def _copy(
    f: FunctionBuilder, vector: VectorShape, planes: Val, joined: Val, range_: tuple[Val, Val], joins: bool
) -> None:
    """Copies one plane, in the pieces that the C library copies best."""
    element, piece = vector.element, f.target.piece_bytes // vector.element.bytes
    source, to = (planes, joined) if joins else (joined, planes)
    with f.for_range(*range_, piece) as loop:
        count = f.smin(f.sub(range_[1], loop.index), piece)
        f.memcpy(f.gep(to, loop.index, element), f.gep(source, loop.index, element), f.mul(count, element.bytes))


def _join_transposed(f: FunctionBuilder, vector: VectorShape, planes: Val, plane: Val, joined: Val, few: Val) -> None:
    element, lanes = vector
    last, mask = f.sub(few, 1), f.tail_mask(few, lanes)
    starts = [f.gep(planes, f.mul(f.smin(last, c), plane), element) for c in range(lanes)]
    for each in transpose(f, [f.load(start, element.vector(lanes)) for start in starts]):
        f.masked_store(each, joined, mask)
        joined = f.gep(joined, few, element)


def _part_transposed(f: FunctionBuilder, vector: VectorShape, planes: Val, plane: Val, joined: Val, few: Val) -> None:
    element, lanes = vector
    mask, rows = f.tail_mask(few, lanes), []
    for _ in range(lanes):
        rows.append(f.masked_load(joined, element.vector(lanes), mask))
        joined = f.gep(joined, few, element)
    for c, each in enumerate(transpose(f, rows)[:-1]):
        place = f.gep(planes, f.mul(plane, c), element)
        if c <= PICKED:
            f.store(each, place)
        else:
            with f.if_(f.compare("lt", c, few)):
                f.store(each, place)


def _join(f: FunctionBuilder, vector: VectorShape, planes: list[Val], joined: Val) -> None:
    row, lanes, few = vector.element.vector(vector.lanes), vector.lanes, len(planes)
    rows = [f.load(plane, row) for plane in planes]
    for m in range(few):
        places = [divmod(m * lanes + lane, few) for lane in range(lanes)]
        f.store(_picked(f, rows, [(c, p) for p, c in places]), joined, m * lanes)


def _part(f: FunctionBuilder, vector: VectorShape, planes: list[Val], joined: Val) -> None:
    row, lanes, few = vector.element.vector(vector.lanes), vector.lanes, len(planes)
    vectors = [f.load(joined, row, m * lanes) for m in range(few)]
    for c, plane in enumerate(planes):
        f.store(_picked(f, vectors, [divmod(lane * few + c, lanes) for lane in range(lanes)]), plane)


def _picked(f: FunctionBuilder, vectors: Sequence[Val], places: Sequence[tuple[int, int]]) -> Val:
    """Shuffles vectors: lane i is lane places[i][1] of vector places[i][0]; one choice between two vectors after the other."""
    lanes, result = len(places), vectors[0]
    for m in range(1, len(vectors)):
        if m == 1:
            picked = [lane if of == 0 else lanes + lane if of == 1 else -1 for of, lane in places]
        else:
            picked = [at if of < m else lanes + lane if of == m else -1 for at, (of, lane) in enumerate(places)]
        result = f.shuffle(result, vectors[m], picked)
    return result
