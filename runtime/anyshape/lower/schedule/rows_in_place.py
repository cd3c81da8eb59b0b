"""Rows of products that are read where they lie, at one tap of a window after the other, so that taps in pads are left out.

In: what a row is multiplied by, and its constant partner. Out: `RowsInPlace`, or None where rows are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from anyshape.lower.ir.dag import Constant, DagNode, IndexBound, Load, LoopVar, Operation
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.kernel import is_finite
from anyshape.lower.schedule.products import RowsInPlace

PAGE = 4096
"""Bytes that are a multiple of the distance of lines of which few stay in the first cache."""
LEAST_STEPS = 32
"""Steps of a call of a micro-kernel that are worth reading and writing its sums."""


def rows_in_place(
    x: DagNode, over: Sequence[LoopVar], rows: Sequence[LoopVar], constant: NDArray[Any]
) -> RowsInPlace | None:
    """How rows of a padded value are read in place. Factors of the pads' zeros have to be finite: their products are left out."""
    padded = padded_load(x) if isinstance(x, Operation) else None
    load = x if padded is None else padded.load
    if not isinstance(load, Load) or load.access.checks or load.access.address.lets or not x.dtype.is_float:
        return None
    access, (*taps, along) = load.access, over
    if padded is None and access.bounds:
        return None
    if padded is not None and not (isinstance(padded.outside, Constant) and padded.outside.value == 0):
        return None
    dims = [_dim(access.bounds, tap, rows) for tap in taps]
    if len(access.bounds) != sum(d is not None for d in dims) or access.address.coefficient(along) != 1:
        return None
    moved = [d[1] for d in dims if d is not None]
    last = dims[-1]
    if len(set(moved)) < len(moved) or (last is None) != (rows[-1] not in moved) or (last and last[1] is not rows[-1]):
        return None
    if not _is_worth(access.address.coefficient(rows[-1]), access.address.coefficient(taps[-1]), taps[-1], along, x):
        return None
    return RowsInPlace(access, tuple(None if d is None else d[0] for d in dims)) if is_finite(constant) else None


def _dim(bounds: Sequence[IndexBound], tap: LoopVar, rows: Sequence[LoopVar]) -> tuple[IndexBound, LoopVar] | None:
    """The bound that a tap decides with a position, and the position."""
    for b in bounds:
        steps = dict(b.index.terms)
        own = [v for v in steps if v in rows]
        if tap in steps and len(steps) == 2 and len(own) == 1 and b.guard is None and not b.index.lets:
            if all(isinstance(c, int) and c > 0 for c in steps.values()):
                return b, own[0]
    return None


def _is_worth(position: Any, tap: Any, last: LoopVar, along: LoopVar, x: DagNode) -> bool:
    """Whether a call of a micro-kernel has enough steps, and rows do not drive each other out of the first cache."""
    if not isinstance(along.extent, int) or not isinstance(last.extent, int) or not isinstance(position, int):
        return False
    steps = along.extent * (last.extent if tap == along.extent else 1)
    return steps >= LEAST_STEPS and position * x.dtype.bits // 8 % PAGE != 0
