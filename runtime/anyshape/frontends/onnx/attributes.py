"""Converts AttributeProtos to Python values, checked against the operator's schema: a wrong type, an unknown or a missing name is a
ModelError."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyshape.errors import ModelError
from anyshape.frontends.onnx.sparse import sparse_array
from anyshape.frontends.onnx.tensors import tensor_array

FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 5, 6, 7, 8
SPARSE = 11
_NAMES = {1: "a float", 2: "an int", 3: "a string", 4: "a tensor", 5: "a graph", 6: "floats", 7: "ints", 8: "strings",
          9: "tensors", 10: "graphs", 11: "a sparse tensor", 12: "sparse tensors", 13: "a type", 14: "types"}  # fmt: skip
_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 11: "sparse_tensor", 13: "tp"}


class Ints(list[int]):
    """The value of an attribute of integers: an empty list of them is told from an empty list of floats by its class."""


def spell_kind(kind: int) -> str:
    return _NAMES.get(kind, f"attribute type {kind}")


def by_name(node: Any, bound: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Maps names of a node's attributes to AttributeProtos; an attribute that refers to one of the function around it takes it from
    `bound`, or is left out."""
    protos: dict[str, Any] = {}
    for a in node.attribute:
        if not a.name:
            raise ModelError(f"{where}: an attribute has no name")
        if a.name in protos:
            raise ModelError(f"{where}: attribute {a.name} is given twice")
        if a.ref_attr_name:
            if a.ref_attr_name in bound:
                protos[a.name] = bound[a.ref_attr_name]
        else:
            protos[a.name] = a
    return protos


def check(attributes: Mapping[str, Any], schema: Any, where: str) -> None:
    """Raises ModelError unless every attribute is one of the schema's and of its type, and the required ones are there."""
    for name, a in attributes.items():
        declared = schema.attributes.get(name)
        if declared is None:
            known = ", ".join(sorted(schema.attributes)) or "none"
            raise ModelError(f"{where}: {schema.name} has no attribute {name}; in this opset it has {known}")
        expected = int(declared.type.value)
        if a.type != expected:
            raise ModelError(f"{where}: attribute {name} must be {spell_kind(expected)}, got {spell_kind(a.type)}")
        if expected in _FIELDS and not a.HasField(_FIELDS[expected]):
            raise ModelError(f"{where}: attribute {name} must be {spell_kind(expected)}, got nothing")
    for name, declared in schema.attributes.items():
        if declared.required and name not in attributes:
            raise ModelError(f"{where}: attribute {name} is missing")


def value(a: Any, folder: Path | None, where: str) -> Any:
    """Converts an attribute to int, float, str, a list of them, or an array (dense for a sparse tensor); graphs and types stay protobuf."""
    kind = a.type
    if kind == FLOAT:
        return a.f
    if kind == INT:
        return a.i
    if kind == STRING:
        return _text(a.s, a.name, where)
    if kind == FLOATS:
        return list(a.floats)
    if kind == INTS:
        return Ints(a.ints)
    if kind == STRINGS:
        return [_text(s, a.name, where) for s in a.strings]
    if kind == TENSOR:
        return tensor_array(a.t, folder, f"{where}, attribute {a.name}")
    if kind == SPARSE:
        return sparse_array(a.sparse_tensor, folder, f"{where}, attribute {a.name}")
    if kind in _FIELDS:
        return getattr(a, _FIELDS[kind])
    raise ModelError(f"{where}: attribute {a.name} is {spell_kind(kind)}, which no operator takes")


def is_empty(a: Any) -> bool:
    """Whether an attribute is a list without items."""
    return a.type in (FLOATS, INTS, STRINGS) and not (a.floats or a.ints or a.strings)


def _text(s: bytes, name: str, where: str) -> str:
    try:
        return s.decode("utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"{where}: attribute {name} is not UTF-8 text") from None
