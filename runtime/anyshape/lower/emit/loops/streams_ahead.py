"""Prefetches for sums of sums: each iteration of the outer loop reads the next stretch of memory, such as the codes of a block.

In: a loop with sums inside. Out: prefetches of what these read some iterations later, into the second cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from anyshape.lower.analyse.classify import accesses
from anyshape.lower.emit.values import elementwise
from anyshape.lower.emit.values.context import KernelContext
from anyshape.lower.ir.dag import Access, Affine, LoopVar
from anyshape.lower.llvm.target_probe import prefetches_streams
from anyshape.lower.llvm.types import Val
from anyshape.lower.schedule.tree import Loop

STRETCHES_AHEAD = 3
"""How many iterations ahead a whole stretch is prefetched. Of 4 bits in blocks of 32 these are 3 KiB, what memory gives in some 200 ns; one
iteration is too few, and six are no better."""
PARTS_AHEAD = 8
"""How many iterations ahead a part of a stretch is prefetched; 4 and 16 are about as good."""
MOST_PARTS = 16
"""Parts of a stretch that are prefetched: code grows with them."""


def prefetch_streams(ctx: KernelContext, step: Loop) -> None:
    """Prefetches a whole stretch where vectors read all of it and the first cache has miss buffers to spare. Where vectors are narrower
    than a line, and read a line or less at a time, prefetches these of a stretch: they are too far apart for the processor's own
    prefetches."""
    f, vector = ctx.f, ctx.values.vector
    if vector is None or len(step.variables) != 1:
        return
    (outer,), inside, whole = step.variables, step.inside, prefetches_streams(f.target)
    in_parts = f.target.vector_bytes < f.target.line_bytes
    for a in dict.fromkeys(a for loop in inside for a, _ in accesses((), loop.reductions, set())):
        inner = [v for loop in inside for v in loop.variables if v in a.domain]
        stretch, width = a.address.coefficient(outer), a.address.coefficient(vector.variable)
        if a.address.lets or not isinstance(stretch, int) or not isinstance(width, int):
            continue
        extents = [v.extent for v in inner if isinstance(v.extent, int)]
        run, element = vector.copies * vector.lanes * width, elementwise.memory_type(a.tensor.dtype)
        if not stretch or not run or len(extents) < len(inner):
            continue
        line = f.target.line_bytes // element.bytes
        start = Affine(tuple((v, c) for v, c in a.address.terms if v not in inner), a.address.offset)
        places: Sequence[int] = ()
        if run * math.prod(extents) == stretch:
            places, ahead = range(0, stretch if whole else 0, line), STRETCHES_AHEAD
        elif in_parts and run <= line and math.prod(extents) <= MOST_PARTS:
            places, ahead = _places(a, inner, extents), PARTS_AHEAD
        if places:
            pointer = _first_of_vector(ctx, a, start, width)
        for at in places:
            f.prefetch(f.gep(pointer, ahead * stretch + at, element), False, into=2)


def _places(a: Access, inner: Sequence[LoopVar], extents: Sequence[int]) -> Sequence[int]:
    """Lists the places that iterations of inner loops read, from that of the first one on; none where only the run tells them."""
    steps = [c for v in inner if isinstance(c := a.address.coefficient(v), int)]
    if len(steps) < len(inner):
        return ()
    return [sum(map(int.__mul__, steps, at)) for at in itertools.product(*map(range, extents))]


def _first_of_vector(ctx: KernelContext, a: Access, start: Affine, width: int) -> Val:
    """The address of the first lane."""
    vector, pointer = ctx.values.vector, ctx.values.pointer(a.tensor, start)
    if vector is None or width == 1:
        return pointer
    index = ctx.f.mul(ctx.levels.indices[vector.variable], width)
    return ctx.f.gep(pointer, index, elementwise.memory_type(a.tensor.dtype))
