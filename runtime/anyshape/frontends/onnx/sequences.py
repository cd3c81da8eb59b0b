"""Operators on sequences and optionals: each is an op on lists. An optional is a list of at most one element."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape import lists
from anyshape.dtypes import parse_dtype
from anyshape.frontends.onnx.inputs import DimNames, input_type
from anyshape.frontends.onnx.node import Mapping, OnnxNode, needed
from anyshape.graph.value import Value, constant
from anyshape.types import ListType, TensorType


def sequence_empty_11(n: OnnxNode) -> Sequence[Value]:
    dtype = n.attr_dtype("dtype", parse_dtype("f32"))
    assert dtype is not None
    return (lists.empty(TensorType(dtype, None), n.source),)


def sequence_construct_11(n: OnnxNode) -> Sequence[Value]:
    return (lists.of(n.inputs(), source=n.source),)


def sequence_insert_11(n: OnnxNode) -> Sequence[Value]:
    return (lists.insert(_first(n), needed(n, n.input(1), "its tensor"), n.input(2), n.source),)


def sequence_erase_11(n: OnnxNode) -> Sequence[Value]:
    return (lists.erase(_first(n), n.input(1), n.source),)


def sequence_at_11(n: OnnxNode) -> Sequence[Value]:
    return (lists.at(_first(n), needed(n, n.input(1), "its position"), n.source),)


def sequence_length_11(n: OnnxNode) -> Sequence[Value]:
    return (lists.length(_first(n), n.source),)


def split_to_sequence_11(n: OnnxNode) -> Sequence[Value]:
    """`keepdims` is only for pieces of one; with sizes it is ignored."""
    return (lists.split(_first(n), n.input(1), n.attr("axis"), bool(n.attr("keepdims")), n.source),)


def optional_15(n: OnnxNode) -> Sequence[Value]:
    """Of its input, or of nothing: then an attribute says the type."""
    given = n.input(0)
    if given is not None:
        return (lists.optional(given, source=n.source),)
    said = needed(n, n.attr("type"), "its type")
    return (lists.optional(element=input_type(said, DimNames(None), n.source), source=n.source),)


def optional_get_element_15(n: OnnxNode) -> Sequence[Value]:
    """What is no optional is its own element."""
    given = _first(n)
    return (lists.element(given, n.source) if _is_optional(given) else given,)


def optional_has_element_15(n: OnnxNode) -> Sequence[Value]:
    given = n.input(0)
    if given is None or not _is_optional(given):
        return (constant(given is not None),)
    return (lists.has_element(given, n.source),)


def identity_14(n: OnnxNode) -> Sequence[Value]:
    return (_first(n),)


def _is_optional(v: Value) -> bool:
    return isinstance(v.type, ListType) and v.type.optional


def _first(n: OnnxNode) -> Value:
    return needed(n, n.input(0), "its first input")


SEQUENCES: dict[str, dict[int, Mapping | None]] = {
    "SequenceEmpty": {11: sequence_empty_11},
    "SequenceConstruct": {11: sequence_construct_11},
    "SequenceInsert": {11: sequence_insert_11},
    "SequenceErase": {11: sequence_erase_11},
    "SequenceAt": {11: sequence_at_11},
    "SequenceLength": {11: sequence_length_11},
    "SplitToSequence": {11: split_to_sequence_11},
    "Optional": {15: optional_15},
    "OptionalGetElement": {15: optional_get_element_15},
    "OptionalHasElement": {15: optional_has_element_15},
}

OF_LISTS: dict[str, dict[int, Mapping | None]] = {"Identity": {14: identity_14}}
"""What operators mean whose operand may be a sequence or an optional too, where it is one."""
