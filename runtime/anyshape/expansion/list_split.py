"""The expansion of splitting a tensor into a list, once its rank is known: a list of known pieces, or a loop that appends them.

In: a node of `list_split`. Out: the list; None while a rank is not known. Raises ShapeError for sizes that cannot be.
"""

from __future__ import annotations

import numpy as np

from anyshape import control, lists, ops
from anyshape.errors import ShapeError
from anyshape.graph.lengths import as_long, one_number
from anyshape.graph.lists import axis_of_split
from anyshape.graph.value import Node, Value, constant
from anyshape.types import TensorType

MOST_IN_SIGHT = 64
"""Pieces of a split that are made one by one, so that nothing of it is left to run time."""


def expand(node: Node) -> Value | None:
    """The list of the pieces."""
    x, sizes = node.inputs
    axis = axis_of_split(node)
    assert x is not None
    if axis is None or (sizes is not None and sizes.type.rank is None):
        return None
    return _split(x, sizes, axis, bool(node.attrs.get("keepdims", True)), node.source)


def _split(x: Value, sizes: Value | None, axis: int, keepdims: bool, source: str) -> Value:
    pieces = _in_sight(x, sizes, axis, keepdims, source)
    if pieces is not None:
        return lists.of(pieces, "" if pieces else TensorType(x.type.dtype, None), source)
    total = ops.gather(ops.shape_of(x, source=source), axis, source=source)
    if sizes is None:
        return _one_by_one(x, total, axis, keepdims, source)
    lengths = ops.cast(sizes, "i64", source=source) if sizes.type.dtype.name != "i64" else sizes
    if lengths.type.rank == 0:
        return _equal_parts(x, lengths, total, axis, source)
    return _parts(x, lengths, axis, source)


def _in_sight(x: Value, sizes: Value | None, axis: int, keepdims: bool, source: str) -> list[Value] | None:
    """Returns the pieces of a split where their number is known."""
    n = (x.type.shape or ())[axis]
    said = np.array(1) if sizes is None else sizes.constant
    if said is None or (said.ndim == 0 and not isinstance(n, int)):
        return None
    if said.ndim == 0:
        assert isinstance(n, int)
        step = int(said)
        if step <= 0:
            raise ShapeError(f"list_split: a size must be at least 1, got {step}")
        if n > step * MOST_IN_SIGHT:  # said of numbers: a list of what a model claims to have may not fit into memory
            return None
        parts = [min(step, n - k) for k in range(0, n, step)]
    elif len(said) > MOST_IN_SIGHT:
        return None
    else:
        parts = [int(k) for k in said]
    if sizes is None and not keepdims:
        return [ops.gather(x, constant(np.int64(k)), axis=axis, source=source) for k in range(len(parts))]
    return list(ops.split(x, sizes=parts, axis=axis, source=source)) if parts else []


def _slice(x: Value, start: Value, end: Value, axis: int, source: str) -> Value:
    bounds = [ops.static.reshape(v, newshape=(1,), source=source) for v in (start, end)]
    return ops.slice(x, bounds[0], bounds[1], [axis], [1], source=source)


def _one_by_one(x: Value, total: Value, axis: int, keepdims: bool, source: str) -> Value:
    def body(k: Value, pieces: Value) -> list[Value]:
        piece = ops.gather(x, k, axis=axis, source=source)
        return [
            lists.append(
                pieces, ops.static.expand_dims(piece, axes=(axis,), source=source) if keepdims else piece, source
            )
        ]

    pieces: Value = control.loop(total, body, [lists.empty(TensorType(x.type.dtype, None), source)], source=source)[0]
    return pieces


def _equal_parts(x: Value, size: Value, total: Value, axis: int, source: str) -> Value:
    def refused() -> Value:
        raise ShapeError("list_split: a size must be at least 1")

    (size,) = control.if_(ops.greater(size, 0, source=source), lambda: size, refused, source)
    size = ops.minimum(
        size, ops.maximum(total, 1, source=source), source=source
    )  # sums with the largest do not fit 64 bits
    count = ops.div(ops.add(total, ops.sub(size, 1, source=source), source=source), size, source=source)

    def body(k: Value, pieces: Value) -> list[Value]:
        start = ops.mul(k, size, source=source)
        end = ops.minimum(ops.add(start, size, source=source), total, source=source)
        return [lists.append(pieces, _slice(x, start, end, axis, source), source)]

    pieces: Value = control.loop(count, body, [lists.empty(TensorType(x.type.dtype, None), source)], source=source)[0]
    return pieces


def _parts(x: Value, sizes: Value, axis: int, source: str) -> Value:
    """Pieces of the given sizes. A reshape of x to the sum of the sizes checks that they add up."""
    whole = ops.sum(sizes, axes=(0,), keepdims=True, source=source)
    shape = [ops.shape_of(x, start=0, end=axis, source=source), whole, ops.shape_of(x, start=axis + 1, source=source)]
    x = ops.dyn.reshape(x, ops.concat(shape, axis=0, source=source), allowzero=True, source=source)

    size = one_number(sizes)

    def body(k: Value, pieces: Value, start: Value) -> list[Value]:
        end = ops.add(start, ops.gather(sizes, k, source=source), source=source)
        piece = _slice(x, start, end, axis, source)
        piece = piece if size is None else as_long(piece, size, "list_split: a piece", source, axis)
        return [lists.append(pieces, piece, source), end]

    begin = [lists.empty(TensorType(x.type.dtype, None), source), constant(np.int64(0))]
    count = ops.gather(ops.shape_of(sizes, source=source), 0, source=source)
    pieces: Value = control.loop(count, body, begin, source=source)[0]
    return pieces
