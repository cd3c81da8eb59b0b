"""What the multiply-adds of a kernel multiply, which decides how many a core can do.

In: a group and a target. Out: an `MultiplyAdd`, of its largest form of products if it has any, else of its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from anyshape.dtypes import F64
from anyshape.lower.depth import room_for
from anyshape.lower.gemm.codes import Codes
from anyshape.lower.gemm.pairs import Pairs
from anyshape.lower.kernel import Group
from anyshape.lower.lowering import nodes_of
from anyshape.lower.schedule.blocked import Blocked
from anyshape.lower.schedule.kernel_schedule import Phase, schedule_group
from anyshape.lower.schedule.products import Product
from anyshape.lower.schedule.recurrence import Recurrence

MultiplyAdd = Literal["f32", "f64", "bf16", "i8"]
"""f32 and f64: multiply-adds of these, and of integers of 32 and 64 bits; bf16 and i8: sums in 32 bits of products of pairs of bf16 and of
groups of bytes"""
MULTIPLY_ADDS: tuple[MultiplyAdd, ...] = get_args(MultiplyAdd)


def multiply_add_of(group: Group) -> MultiplyAdd:
    """Schedules a group, and says what most of its multiply-adds multiply."""
    with room_for(nodes_of(group)):
        forms = [_of_product(p) for p in _products(schedule_group(group).phases)]
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


def _of_product(p: Product) -> MultiplyAdd:
    match p.words:
        case Pairs():
            return "bf16"
        case Codes():
            return "i8"
    return "f64" if p.sum.dtype.itemsize > 4 else "f32"
