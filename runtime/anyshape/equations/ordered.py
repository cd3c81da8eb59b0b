"""The slow reading of equations whose elements come in an order: compaction, sorting, updates.

In: evaluated values, filters and indices as arrays. Out: the target, changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.equations.builder import Compaction, Sorting
from anyshape.equations.expr import Tensor
from anyshape.equations.refusing import Refused, out_of_range

Array = NDArray[Any]

_UPDATES: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def update(op: str, target: Array, at: Sequence[Array], value: Array, t: Tensor) -> None:
    """target[at] op= value; of equal indices every one counts, and the last one wins."""
    for axis, (i, n) in enumerate(zip(at, target.shape, strict=True)):
        bad = (i < 0) | (i >= n)
        if bad.any():
            raise Refused(out_of_range(i[bad].flat[0], axis, t, n))
    flat = tuple(i.reshape(-1) for i in at) if at else ()
    values = value.reshape(-1)
    if op == "set":
        for k, v in enumerate(values):
            target[tuple(int(i[k]) for i in flat)] = v
    elif flat:
        _UPDATES[op].at(target, flat, values.astype(target.dtype))
    else:
        for v in values.astype(target.dtype):
            target[()] = _UPDATES[op](target[()], v)


def put_vectors(
    form: Compaction | Sorting, target: Array, at: Sequence[Array], axis: int, value: Array, keep: Array, t: Tensor
) -> None:
    """A vector along `axis` for each point of the leading axes of value; the others are those the form runs over."""
    outer = value.ndim - (1 if isinstance(form, Sorting) else len(form.over))
    for point in np.ndindex(value.shape[:outer]):
        if isinstance(form, Sorting):
            vector = stable_order(value[point], form.descending)[: target.shape[axis]]
        else:
            vector = value[point][keep[point]]
        if len(vector) > target.shape[axis]:
            raise Refused((f"{len(vector)} elements for axis {axis} of ", t, f" with size {target.shape[axis]}"))
        index: list[Any] = [int(i[point]) for i in at]
        target[(*index[:axis], slice(0, len(vector)), *index[axis:])] = vector


def stable_order(keys: Array, descending: bool) -> Array:
    """The positions of keys in order: equal ones as they stand, NaN as the greatest."""
    if keys.dtype == object:
        keys = keys.astype(np.int64)
    if keys.dtype.kind not in "iubf":
        keys = keys.astype(np.float32)
    if not descending:
        return np.argsort(keys, kind="stable")
    ranks = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return np.argsort(-ranks, kind="stable")
