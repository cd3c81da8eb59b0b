"""The taps of a window: how many there are, code for each, tests whether what a place reads at all of them is inside, and prefetching.

In: variables of a reduction, which are the taps; bounds of what is read. Out: bound variables, and conditions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from operator import attrgetter

from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.ir.dag import Access, DagNode, IndexBound, Load, LoopVar, walk
from anyshape.lower.llvm.types import I1, I64, Val, const

AHEAD = 8
"""How many places ahead is prefetched: a place takes some 20 cycles, and a line of the third cache ten times that."""
WRITTEN_OUT = 49
"""The most taps that are written out."""


def are_few(taps: Sequence[LoopVar]) -> bool:
    """Whether so many taps may be written out one after the other."""
    extents = [v.extent for v in taps if isinstance(v.extent, int)]
    return len(extents) == len(taps) and 1 < math.prod(extents) <= WRITTEN_OUT


def tap_bounds(values: Sequence[DagNode], taps: Sequence[LoopVar], vector: LoopVar) -> set[IndexBound]:
    """The bounds of reads that a tap decides with the place, each with one tap, so that it holds between two taps for which it does."""
    bounds = {b for n in walk(values) if isinstance(n, Load) for b in n.access.bounds}
    return {b for b in bounds if _is_monotonic(b, vector, taps)}


def _is_monotonic(b: IndexBound, vector: LoopVar, taps: Sequence[LoopVar]) -> bool:
    own = [v for v, _ in b.index.terms if v in taps]
    return len(own) == 1 and b.guard is None and not b.index.lets and b.index.coefficient(vector) == 0


def tap_numbers(taps: Sequence[LoopVar]) -> list[tuple[int, ...]]:
    """All taps, each as the values of its variables."""
    return list(product(*(range(v.extent) for v in taps if isinstance(v.extent, int))))


def at_taps(ctx: KernelContext, taps: Sequence[LoopVar]) -> Iterator[tuple[int, ...]]:
    """Code for each tap, one after the other."""
    for numbers in tap_numbers(taps):
        with ctx.levels.section():
            for v, k in zip(taps, numbers, strict=True):
                ctx.levels.bind(v, const(I64, k))
            yield numbers


def all_inside(ctx: KernelContext, taps: Sequence[LoopVar], bounds: set[IndexBound], further: int = 0) -> Val:
    """Tests the bounds for the first taps and for the last ones, or so many further on of the last variable."""
    result = const(I1, 1)
    for index in (lambda v: 0, lambda v: v.extent - 1 + (further if v is taps[-1] else 0)):
        with ctx.levels.section():
            for v in taps:
                ctx.levels.bind(v, const(I64, index(v)))
            holds = ctx.values.inside(sorted(bounds, key=attrgetter("order")), 0)
        result = result if holds is None else ctx.f.and_(result, holds)
    return result


def prefetch_places(ctx: KernelContext, pointer: Val, access: Access, place: LoopVar) -> None:
    """Prefetches what all lanes read some places further on: a row of which these are few channels is no stream of adjacent lines."""
    f, element = ctx.f, elementwise.memory_type(access.tensor.dtype)
    first = f.gep(pointer, f.mul(ctx.sizes.of(access.address.coefficient(place)), AHEAD), element)
    for at in range(0, len(ctx.values.copies) * ctx.lanes, f.target.line_bytes // element.bytes):
        f.prefetch(f.gep(first, at, element), False)
