"""What the multiply-adds of a kernel multiply, which decides how many a core can do.

In: a group and a target. Out: a `MultiplyAdd`, of its largest form of products if it has any, else of its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from anyshape.dtypes import F64
from anyshape.lower.depth import room_for
from anyshape.lower.gemm.codes import Codes
from anyshape.lower.gemm.pairs import Pairs
from anyshape.lower.gemm.words import by_matrix_tiles
from anyshape.lower.kernel import Group
from anyshape.lower.llvm.types import F16
from anyshape.lower.lowering import nodes_of
from anyshape.lower.schedule.blocked import Blocked
from anyshape.lower.schedule.factors import words_of_precision
from anyshape.lower.schedule.kernel_schedule import Phase, schedule_group
from anyshape.lower.schedule.products import Product
from anyshape.lower.schedule.recurrence import Recurrence
from anyshape.lower.target import Target, host_target
from anyshape.precision import Narrow

MultiplyAdd = Literal["f32", "f64", "bf16", "f16", "i8", "bf16 tiles", "i8 tiles"]
"""f32, f64 and f16: multiply-adds of these, or of integers of 32 and 64 bits; bf16 and i8: sums in 32 bits of products of pairs of bf16
and of groups of bytes, in vectors or in matrix tiles"""
MULTIPLY_ADDS: tuple[MultiplyAdd, ...] = get_args(MultiplyAdd)


def multiply_adds_of(target: Target) -> list[MultiplyAdd]:
    """The multiply-adds that a processor has."""
    tiles = target.matrix_tiles
    lacking = {
        "bf16": not target.multiplies_pairs,
        "f16": not target.halves,
        "bf16 tiles": tiles is None or not tiles.pairs,
        "i8 tiles": tiles is None or not tiles.dots,
    }
    return [m for m in MULTIPLY_ADDS if not lacking.get(m, False)]


def products_of_lane(narrow: Narrow | None, target: Target) -> int:
    """Products of f32, or of what a precision rounds these to, that a lane of a vector multiplies at once. It is 0 where products are no
    limit, as by matrix tiles, and where they take as long as those of f32, but lose more behind a transform."""
    words = None if narrow is None else words_of_precision(narrow)
    if words is None or words.per(target) == 1 or by_matrix_tiles(words, target):
        return int(narrow is None)
    return words.per(target)


def multiply_add_of(group: Group, target: Target | None = None) -> MultiplyAdd:
    """Schedules a group, and says what most of its multiply-adds multiply on a processor, by default this one. Rows whose number is known
    to be too small for matrix tiles are multiplied by vectors."""
    target = target or host_target()
    with room_for(nodes_of(group)):
        forms = [_of_product(p, target) for p in _products(schedule_group(group).phases)]
    if forms:
        return max(forms, key=MULTIPLY_ADDS.index)
    return "f64" if any(t.dtype is F64 for t in group.outputs) else "f32"


def _products(phases: Iterable[Phase]) -> Iterator[Product]:
    for p in phases:
        match p:
            case Product():
                yield p
            case Blocked():
                yield from _products(p.all_steps)
            case Recurrence():
                yield from _products(p.steps)


def _of_product(p: Product, target: Target) -> MultiplyAdd:
    rows, by_tiles = p.m.extent, False
    if p.words is not None and by_matrix_tiles(p.words, target):
        by_tiles = not isinstance(rows, int) or rows >= p.words.least_rows(target)
    match p.words:
        case Pairs(element) if p.words.are_multiplied(target):
            if element == F16:
                return "f16"
            return "bf16 tiles" if by_tiles else "bf16"
        case Codes():
            return "i8 tiles" if by_tiles else "i8"
    return "f64" if p.sum.dtype.itemsize > 4 else "f32"
