"""Functions on lists for mappings: ONNX's sequences are lists, its optionals lists of at most one element.

In: a node and its operands; negative positions count from the end. Out: the result of an op on lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyshape import lists
from anyshape.dtypes import DType
from anyshape.frontends.onnx.inputs import DimNames, input_type
from anyshape.frontends.onnx.node import OnnxNode, needed
from anyshape.graph.value import Value, constant
from anyshape.types import ListType, TensorType


def is_list(n: OnnxNode, v: Value | None) -> bool:
    """Whether an input is a sequence or an optional."""
    return v is not None and isinstance(v.type, ListType)


def list_empty(n: OnnxNode, dtype: DType) -> Value:
    """Makes an empty list of tensors of any rank."""
    return lists.empty(TensorType(dtype, None), n.source)


def list_of(n: OnnxNode, values: Sequence[Value]) -> Value:
    return lists.of(values, source=n.source)


def list_length(n: OnnxNode, xs: Value | None) -> Value:
    return lists.length(_there(n, xs), n.source)


def list_at(n: OnnxNode, xs: Value | None, at: Value | None) -> Value:
    return lists.at(_there(n, xs), needed(n, at, "its position"), n.source)


def list_erase(n: OnnxNode, xs: Value | None, at: Value | None) -> Value:
    """Removes an element, the last one without a position."""
    return lists.erase(_there(n, xs), at, n.source)


def list_insert(n: OnnxNode, xs: Value | None, x: Value | None, at: Value | None) -> Value:
    """Inserts x, at the end without a position."""
    return lists.insert(_there(n, xs), needed(n, x, "its tensor"), at, n.source)


def list_split(n: OnnxNode, x: Value | None, sizes: Value | None, axis: int, keepdims: int) -> Value:
    """Splits x along an axis. Without sizes, pieces have size 1, of which `keepdims` keeps the axis; with sizes it is ignored."""
    return lists.split(_there(n, x), sizes, axis, bool(keepdims), n.source)


def optional(n: OnnxNode, x: Value | None, said: Any) -> Value:
    """Makes an optional of a value; without one an empty optional, whose type an attribute says."""
    if x is not None:
        return lists.optional(x, source=n.source)
    element_type = input_type(needed(n, said, "its type"), DimNames(None), n.source)
    return lists.optional(element=element_type, source=n.source)


def optional_element(n: OnnxNode, x: Value | None) -> Value:
    """Takes the element of an optional; any other value is returned unchanged."""
    value = _there(n, x)
    return lists.element(value, n.source) if _is_optional(value) else value


def has_element(n: OnnxNode, x: Value | None) -> Value:
    """Whether an optional has an element; any other input has one if the node does not leave it out."""
    if x is None or not _is_optional(x):
        return constant(x is not None)
    return lists.has_element(x, n.source)


def _is_optional(v: Value) -> bool:
    return isinstance(v.type, ListType) and v.type.optional


def _there(n: OnnxNode, v: Value | None) -> Value:
    return needed(n, v, "its first input")
