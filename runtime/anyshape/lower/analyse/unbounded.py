"""Reductions whose iterations no memory bounds: over a dim that is only broadcast, say, where one number asks for 2^60 iterations.

In: a reduction. Out: whether it is one. A kernel with one polls, since no number of parts makes one of them short.
"""

from __future__ import annotations

from anyshape.dims import bounds
from anyshape.lower.ir.dag import Load, LoopVar, Reduction, walk

FEW = 1 << 16
"""Iterations that take no time worth stopping"""


def is_unbounded(r: Reduction) -> bool:
    """Whether a variable may have many iterations, and no element is surely read for each of them that is not read for another."""
    read: set[LoopVar] = set()
    for n in walk([r.body]):
        if isinstance(n, Load):
            tested = {v for b in n.access.bounds for v in b.index.domain}
            read |= {v for v, _ in n.access.address.terms} - tested
    return any(_is_many(v) for v in r.variables if v not in read)


def _is_many(v: LoopVar) -> bool:
    most = v.extent if isinstance(v.extent, int) else bounds(v.extent)[1]
    return most is None or most > FEW
