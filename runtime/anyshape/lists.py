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

from anyshape import ops
from anyshape.graph.call import as_value
from anyshape.graph.infer import build
from anyshape.graph.lists import AT, ERASE, INSERT, LENGTH, LIST, SPLIT
from anyshape.graph.value import Value
from anyshape.public import public
from anyshape.scalars import single
from anyshape.types import TensorType


@public
def of(values: Sequence[Any], element: str | TensorType = "", source: str = "") -> Value:
    """Makes a list of values. `element`, such as "f32[?, 4]", says what an empty one is of. Raises DtypeError if they are of different
    dtypes."""
    return _one(LIST, [as_value(v) for v in values], {"element": str(element)}, source)


@public
def empty(element: str | TensorType, source: str = "") -> Value:
    """A list of nothing yet: of "f32[...]" any tensors of that dtype can follow."""
    return of((), element, source)


@public
def optional(value: Any | None = None, element: str | TensorType = "", source: str = "") -> Value:
    """A value that may be missing: a list of at most one, which callers see as it or None. `element` says of what a missing one is."""
    values = [] if value is None else [as_value(value)]
    return _one(LIST, values, {"element": str(element), "optional": True}, source)


@public
def insert(list: Value, value: Any, at: Any | None = None, source: str = "") -> Value:
    """The list with a value before position `at`, from 0 to its length, or at the end."""
    return _one(INSERT, [list, as_value(value), _position(at, source)], {}, source)


@public
def append(list: Value, value: Any, source: str = "") -> Value:
    """The list with a value at the end."""
    return insert(list, value, None, source)


@public
def erase(list: Value, at: Any | None = None, source: str = "") -> Value:
    """The list without the element at a position, or without the last."""
    return _one(ERASE, [list, _position(at, source)], {}, source)


@public
def at(list: Value, at: Any, source: str = "") -> Value:
    """An element. Dims in which elements differ are unknown dims of the result."""
    return _one(AT, [list, _position(at, source)], {}, source)


@public
def length(list: Value, source: str = "") -> Value:
    """The number of elements of a list: i64[]."""
    return _one(LENGTH, [list], {}, source)


@public
def has_element(optional: Value, source: str = "") -> Value:
    """Whether an optional holds something: bool[]."""
    return ops.greater(length(optional, source), 0, source=source)


@public
def element(optional: Value, source: str = "") -> Value:
    """The value that an optional holds; a ShapeError where it holds none."""
    return _one(AT, [optional, None], {}, source)


@public
def concat(list: Value, axis: int = 0, new_axis: bool = False, source: str = "") -> Value:
    """The elements concatenated along an axis, or stacked along a new one. An empty list is a ShapeError."""
    return (ops.stack if new_axis else ops.concat)(list, axis=axis, source=source)


@public
def split(x: Value, sizes: Any | None = None, axis: int = 0, keepdims: bool = True, source: str = "") -> Value:
    """The tensor in pieces along an axis: of one size, the last what is left, where `sizes` is a scalar; of these sizes, which must add
    up, where it is a vector; one by one where it is None, with or without the axis. Raises ShapeError, also at run time, for sizes that
    do not add up.
    """
    lengths = None if sizes is None else as_value(sizes)
    return _one(SPLIT, [as_value(x), lengths], {"axis": axis, "keepdims": keepdims}, source)


def _position(at: Any | None, source: str) -> Value | None:
    return None if at is None else single(as_value(at), "a position", source)


def _one(op: Any, inputs: Sequence[Value | None], attrs: dict[str, Any], source: str) -> Value:
    return build(op, inputs, {k: v for k, v in attrs.items() if v != ""}, source).outputs[0]
