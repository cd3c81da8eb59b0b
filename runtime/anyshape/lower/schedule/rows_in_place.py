"""Rows of products that are read where they lie, at one tap of a window after the other, so that taps in pads are left out.

In: what a row is multiplied by, and its constant partner. Out: `RowsInPlace`, or None where rows are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import Size
from anyshape.dtypes import F32, I8, U8, DType
from anyshape.equations import Tensor
from anyshape.lower.ir.dag import Access, Constant, Dag, DagNode, IndexBound, Load, LoopVar, Operation, affine
from anyshape.lower.ir.padded import padded_load
from anyshape.lower.ir.stores import Store
from anyshape.lower.kernel import is_finite
from anyshape.lower.schedule.products import RowsInPlace

PAGE = 4096
"""Bytes that are a multiple of the distance of lines of which few stay in the first cache."""
TILE_ELEMENTS = {F32: 32, I8: 64, U8: 64}
"""Elements of a row of a matrix tile, by what they are in memory: f32 become pairs."""
LEAST_STEPS, LEAST_WITHOUT_PADS = 16, 64
"""Steps of a call of a micro-kernel that are worth reading and writing its sums; and where no tap is ever left out."""


def rows_in_place(
    dag: Dag, x: DagNode, over: Sequence[LoopVar], rows: Sequence[LoopVar], constant: NDArray[Any]
) -> RowsInPlace | None:
    """How rows of a padded value are read in place. Factors of the pads' zeros have to be finite: their products are left out."""
    stored = x.args[0] if isinstance(x, Operation) and x.name == "cast" else x
    load = _padded_with_zeros(stored)
    bounds = None if load is None else _bounds(load.access, over, rows)
    if load is None or bounds is None or not _is_worth(load.access, over, rows[-1], x.dtype) or not is_finite(constant):
        return None
    if stored is x:
        return RowsInPlace(load.access, bounds, tuple(rows))
    return _widened(dag, RowsInPlace(load.access, bounds, tuple(rows)), x.dtype)


def rows_of_lines(x: DagNode, over: Sequence[LoopVar], rows: Sequence[LoopVar]) -> RowsInPlace | None:
    """How rows of a padded value, f32 or bytes, are read from a copy of its lines, where windows have one or two dims and move by one
    element, and the channels of a place fill whole matrix tiles, and lie behind those of the place before."""
    (load, outside), (*taps, along) = _padded(x), over
    elements = None if load is None else TILE_ELEMENTS.get(load.dtype)
    if load is None or elements is None or not 1 <= len(taps) <= min(2, len(rows)):
        return None
    if elements == TILE_ELEMENTS[F32] and not _is_zero(outside):
        return None
    address, bounds = load.access.address, _bounds(load.access, over, rows)
    if bounds is None or not isinstance(along.extent, int) or along.extent % elements != 0:
        return None
    spreads = []
    for tap, position, bound in zip(taps, rows[-len(taps) :], bounds, strict=True):
        if bound is not None and bound.index.coefficient(position) != 1:
            return None
        spreads.append(1 if bound is None else bound.index.coefficient(tap))
        if not isinstance(tap.extent, int) or address.coefficient(tap) != address.coefficient(position) * spreads[-1]:
            return None
    if spreads[-1] != 1 or address.coefficient(taps[-1]) != along.extent:
        return None
    return RowsInPlace(load.access, bounds, tuple(rows), outside=outside)


def _padded_with_zeros(stored: DagNode) -> Load | None:
    """The floats in memory that a value is, but for zeros outside of their bounds."""
    load, outside = _padded(stored)
    return load if load is not None and load.dtype.is_float and _is_zero(outside) else None


def _padded(stored: DagNode) -> tuple[Load | None, DagNode | None]:
    """What a value is in memory, and what it is outside of the bounds of that, if it has any."""
    padded = padded_load(stored) if isinstance(stored, Operation) else None
    load = stored if padded is None else padded.load
    if not isinstance(load, Load) or load.access.checks or load.access.address.lets:
        return None, None
    if padded is None:
        return (None if load.access.bounds else load), None
    return load, padded.outside


def _is_zero(outside: DagNode | None) -> bool:
    return outside is None or (isinstance(outside, Constant) and outside.value == 0)


def _widened(dag: Dag, read: RowsInPlace, dtype: DType) -> RowsInPlace:
    """Rows that are read from a copy in another dtype: of one image, where the first of the rows' variables counts images, else of all."""
    access, (first, *inner) = read.access, read.rows
    image = _product(access.tensor.shape[1:])
    moved = {v for b in read.bounds if b is not None for v in b.index.domain}
    if not inner or first in moved or access.address.coefficient(first) != image:
        inner, image = [first, *inner], _product(access.tensor.shape)
    batch = [v for v in read.rows if v not in inner]
    v = dag.variable(image)
    own, to = affine([(v, 1), *((b, image) for b in batch)], 0), affine([(v, 1)], 0)
    wide = Tensor("wide", dtype, (image,))
    fill = Store(Access(wide, to), dag.op("cast", dtype, dag.load(Access(access.tensor, own))), (v,))
    kept = affine([(w, c) for w, c in access.address.terms if w not in batch], access.address.offset)
    return RowsInPlace(Access(wide, kept, access.bounds), read.bounds, tuple(inner), fill)


def _product(shape: Sequence[Size]) -> Size:
    count: Size = 1
    for n in shape:
        count = count * n
    return count


def _bounds(access: Access, over: Sequence[LoopVar], rows: Sequence[LoopVar]) -> tuple[IndexBound | None, ...] | None:
    """The bound of each tap, if each is decided by one tap and one position, the last ones together; None for others."""
    *taps, along = over
    dims = [_dim(access.bounds, tap, rows) for tap in taps]
    moved = [d[1] for d in dims if d is not None]
    if len(access.bounds) != len(moved) or len(set(moved)) < len(moved) or access.address.coefficient(along) != 1:
        return None
    last = None if dims[-1] is None else dims[-1][1]
    if last is not (rows[-1] if dims[-1] is not None or rows[-1] in moved else None):
        return None
    return tuple(None if d is None else d[0] for d in dims)


def _dim(bounds: Sequence[IndexBound], tap: LoopVar, rows: Sequence[LoopVar]) -> tuple[IndexBound, LoopVar] | None:
    """The bound that a tap decides with a position, and the position."""
    for b in bounds:
        steps = dict(b.index.terms)
        own = [v for v in steps if v in rows]
        rises = all(isinstance(c, int) and c > 0 for c in steps.values())
        if tap in steps and len(steps) == 2 and len(own) == 1 and rises and b.guard is None and not b.index.lets:
            return b, own[0]
    return None


def _is_worth(access: Access, over: Sequence[LoopVar], position: LoopVar, dtype: DType) -> bool:
    """Whether a call of a micro-kernel has enough steps, and rows do not drive each other out of the first cache."""
    *_, last, along = over
    tap, apart = (access.address.coefficient(v) for v in (last, position))
    if not isinstance(along.extent, int) or not isinstance(last.extent, int) or not isinstance(apart, int):
        return False
    steps = along.extent * (last.extent if tap == along.extent else 1)
    least = LEAST_STEPS if access.bounds else LEAST_WITHOUT_PADS
    return steps >= least and apart * dtype.bits // 8 % PAGE != 0
