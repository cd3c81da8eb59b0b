"""Conditions and counts that decide control flow: scalars, or vectors of one element."""

from __future__ import annotations

from anyshape.dims import Dim, Size
from anyshape.errors import DtypeError, ShapeError
from anyshape.graph.value import Value


def check_condition(what: str, cond: Value | None) -> None:
    """Raises DtypeError or ShapeError unless a condition is one bool."""
    if cond is None:
        return
    if not cond.type.dtype.is_bool:
        raise DtypeError(f"{what}: a condition must be bool, got {cond.type}")
    check_single(what, "a condition", cond)


def check_single(what: str, name: str, v: Value) -> None:
    shape = v.type.shape
    if shape is not None and (len(shape) > 1 or (len(shape) == 1 and isinstance(shape[0], int) and shape[0] != 1)):
        raise ShapeError(f"{what}: {name} must be a scalar, got {v.type}")


def known_truth(cond: Value | None) -> bool | None:
    """The truth of a condition, if it is known; an absent one holds."""
    if cond is None:
        return True
    if cond.constant is not None:
        return bool(cond.constant.reshape(-1)[0]) if cond.constant.size == 1 else None
    known = cond.contents
    return known[0] if known and isinstance(known[0], bool) else None


def count_of(trip: Value | None) -> Size | None:
    """A trip count as far as it is known; None if there is none, or nothing is known of it."""
    if trip is None:
        return None
    elements = trip.elements()
    if not elements:
        return None
    e = elements[0]
    return e if isinstance(e, int | Dim) and not isinstance(e, bool) else None
