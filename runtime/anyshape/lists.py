"""Lists of tensors as values of a graph: made, read and changed. A list holds any number of tensors of one dtype; lists may hold lists.

    parts = lists.of([x, y])                       list[f32[?, 4]] for x: f32[2, 4] and y: f32[n, 4]
    parts = lists.append(parts, z)                 the operand stays what it was; where nobody needs it, nothing is copied
    whole = lists.concat(parts, axis=0)

Positions are integers or i64 scalars and may count from the end. One that is outside of a list is a ShapeError, when it is known or at run
time. An input is written `anyshape.input("xs", "list[f32[?, 4]]")` and takes a Python list of arrays; a result that is a list is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshape.errors import ArgumentError, ShapeError
from anyshape.graph.call import as_value
from anyshape.graph.infer import build
from anyshape.graph.lists import AT, CONCAT, ERASE, INSERT, LENGTH, LIST
from anyshape.graph.value import Value, constant
from anyshape.types import TensorType

MOST_IN_SIGHT = 64
"""Pieces of a split that are made one by one, so that nothing of it is left to run time."""


def of(values: Sequence[Any], element: str | TensorType = "", source: str = "") -> Value:
    """A list of these. `element`, such as "f32[?, 4]", says what an empty one is of. Raises DtypeError if they are of different dtypes."""
    return _one(LIST, [as_value(v) for v in values], {"element": str(element)}, source)


def empty(element: str | TensorType, source: str = "") -> Value:
    """A list of nothing yet: of "f32[...]" any tensors of that dtype can follow."""
    return of((), element, source)


def optional(value: Any | None = None, element: str | TensorType = "", source: str = "") -> Value:
    """A value that may be missing: a list of at most one, which callers see as it or None. `element` says of what a missing one is."""
    given = [] if value is None else [as_value(value)]
    return _one(LIST, given, {"element": str(element), "optional": True}, source)


def insert(list: Value, value: Any, at: Any | None = None, source: str = "") -> Value:
    """The list with a value before position `at`, from 0 to its length, or at the end."""
    return _one(INSERT, [list, as_value(value), _position(at)], {}, source)


def append(list: Value, value: Any, source: str = "") -> Value:
    """The list with a value at the end."""
    return insert(list, value, None, source)


def erase(list: Value, at: Any | None = None, source: str = "") -> Value:
    """The list without the element at a position, or without the last."""
    return _one(ERASE, [list, _position(at)], {}, source)


def at(list: Value, at: Any, source: str = "") -> Value:
    """An element. Dims in which elements differ are unknown dims of the result."""
    return _one(AT, [list, _position(at)], {}, source)


def length(list: Value, source: str = "") -> Value:
    """How many elements there are: i64[]."""
    return _one(LENGTH, [list], {}, source)


def has_element(optional: Value, source: str = "") -> Value:
    """Whether an optional holds something: bool[]."""
    from anyshape import ops

    return ops.greater(length(optional, source), 0, source=source)


def element(optional: Value, source: str = "") -> Value:
    """What an optional holds; a ShapeError where that is nothing."""
    return _one(AT, [optional, None], {}, source)


def concat(list: Value, axis: int = 0, new_axis: bool = False, source: str = "") -> Value:
    """All elements one after the other along an axis, or stacked along a new one. An empty list is a ShapeError."""
    return _one(CONCAT, [list], {"axis": axis, "new_axis": new_axis}, source)


def split(x: Value, sizes: Any | None = None, axis: int = 0, keepdims: bool = True, source: str = "") -> Value:
    """The tensor in pieces along an axis: of one size, the last what is left, where `sizes` is a scalar; of these sizes, which must add
    up, where it is a vector; one by one where it is None, with or without the axis. Raises ShapeError, also at run time, for sizes that
    do not add up.
    """
    from anyshape import ops

    x = as_value(x)
    if x.type.shape is None:
        raise ArgumentError("lists.split: the rank of what is split must be known")
    axis %= len(x.type.shape)
    pieces = _in_sight(x, sizes, axis, keepdims, source)
    if pieces is not None:
        return of(pieces, TensorType(x.type.dtype, None) if not pieces else "", source)
    total = ops.gather(ops.shape_of(x, source=source), axis, source=source)
    if sizes is None:
        return _one_by_one(x, total, axis, keepdims, source)
    given = as_value(sizes, None)
    given = ops.cast(given, "i64", source=source) if given.type.dtype.name != "i64" else given
    if given.type.rank == 0:
        return _equal_parts(x, given, total, axis, source)
    return _parts(x, given, axis, source)


def _in_sight(x: Value, sizes: Any | None, axis: int, keepdims: bool, source: str) -> list[Value] | None:
    """The pieces where their number and sizes are known."""
    from anyshape import ops

    n = (x.type.shape or ())[axis]
    said = as_value(sizes).constant if sizes is not None else np.array(1)
    if not isinstance(n, int) or said is None:
        return None
    if said.ndim == 0:
        step = int(said)
        if step <= 0:
            raise ArgumentError(f"lists.split: a size must be at least 1, got {step}")
        parts = [min(step, n - k) for k in range(0, n, step)]
    else:
        parts = [int(k) for k in said]
    if len(parts) > MOST_IN_SIGHT:
        return None
    if sizes is None and not keepdims:
        return [ops.gather(x, constant(np.int64(k)), axis=axis, source=source) for k in range(n)]
    return list(ops.split(x, sizes=parts, axis=axis, source=source)) if parts else []


def _slice(x: Value, start: Value, end: Value, axis: int, source: str) -> Value:
    from anyshape import ops

    bounds = [ops.static.reshape(v, newshape=(1,), source=source) for v in (start, end)]
    return ops.slice(x, bounds[0], bounds[1], [axis], [1], source=source)


def _one_by_one(x: Value, total: Value, axis: int, keepdims: bool, source: str) -> Value:
    from anyshape import control, ops

    def turn(k: Value, made: Value) -> list[Value]:
        piece = ops.gather(x, k, axis=axis, source=source)
        return [append(made, ops.static.expand_dims(piece, axes=(axis,), source=source) if keepdims else piece, source)]

    return control.loop(total, turn, [empty(TensorType(x.type.dtype, None), source)], source=source)[0]


def _equal_parts(x: Value, size: Value, total: Value, axis: int, source: str) -> Value:
    from anyshape import control, ops

    def refused() -> Value:
        raise ShapeError("lists.split: a size must be at least 1")

    (size,) = control.if_(ops.greater(size, 0, source=source), lambda: size, refused, source)
    count = ops.div(ops.add(total, ops.sub(size, 1, source=source), source=source), size, source=source)

    def turn(k: Value, made: Value) -> list[Value]:
        start = ops.mul(k, size, source=source)
        end = ops.minimum(ops.add(start, size, source=source), total, source=source)
        return [append(made, _slice(x, start, end, axis, source), source)]

    return control.loop(count, turn, [empty(TensorType(x.type.dtype, None), source)], source=source)[0]


def _parts(x: Value, sizes: Value, axis: int, source: str) -> Value:
    """Sizes that do not add up are found by a view of x under a shape with their sum."""
    from anyshape import control, ops

    whole = ops.sum(sizes, axes=(0,), keepdims=True, source=source)
    shape = [ops.shape_of(x, start=0, end=axis, source=source), whole, ops.shape_of(x, start=axis + 1, source=source)]
    x = ops.dyn.reshape(x, ops.concat(shape, axis=0, source=source), allowzero=True, source=source)

    def turn(k: Value, made: Value, start: Value) -> list[Value]:
        end = ops.add(start, ops.gather(sizes, k, source=source), source=source)
        return [append(made, _slice(x, start, end, axis, source), source), end]

    begin = [empty(TensorType(x.type.dtype, None), source), constant(np.int64(0))]
    count = ops.gather(ops.shape_of(sizes, source=source), 0, source=source)
    return control.loop(count, turn, begin, source=source)[0]


def _position(at: Any | None) -> Value | None:
    return None if at is None else as_value(at)


def _one(op: Any, inputs: Sequence[Value | None], attrs: dict[str, Any], source: str) -> Value:
    return build(op, inputs, {k: v for k, v in attrs.items() if v not in ("", False)}, source).outputs[0]
