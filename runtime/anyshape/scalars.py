"""Conditions, counts and positions: single elements, which callers may pass as tensors of any rank.

In: a value. Out: one that `graph.truth` takes, with a check where only the run knows how many elements there are.
"""

from __future__ import annotations

from anyshape import ops
from anyshape.dims import Dim
from anyshape.graph.value import Value
from anyshape.types import ListType


def single(v: Value, what: str, source: str) -> Value:
    """The value as a scalar, where its type leaves open how many elements or axes it has, or has several axes and one element. `what` it is
    to the caller, "a condition", is said where it has another number of elements."""
    shape = v.type.shape
    known = [n for n in shape or () if not isinstance(n, Dim)]
    if (
        isinstance(v.type, ListType)
        or not (v.dtype.is_bool or v.dtype.is_index)  # which `graph.truth` refuses, with the type as it is
        or any(n != 1 for n in known)
        or (shape is not None and len(shape) == len(known) < 2)
    ):
        return v
    scalar: Value = ops.item(v, source=f"{source}: {what}" if source else what)
    return scalar
