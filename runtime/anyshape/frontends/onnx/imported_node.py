"""One node of a model with imported inputs and checked attributes, which mappings read through the protocol `OnnxNode`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, overload

from anyshape.dtypes import NARROW, DType
from anyshape.errors import ModelError
from anyshape.frontends.onnx import attributes
from anyshape.frontends.onnx.dtypes import BY_NUMBER, is_known, number_of_name, spell
from anyshape.frontends.onnx.refusals import ImportRefusal, repairable
from anyshape.graph.value import Value
from anyshape.wording import counted

SEED = "seed"
"""The attribute that ONNX declares for operators that draw random numbers"""


def draws(schema: Any) -> bool:
    """Whether equal calls may give different results, by ONNX's declaration of the operator; False for one that it does not declare."""
    return schema is not None and SEED in schema.attributes


@dataclass(frozen=True, kw_only=True)
class ImportedNode:
    """The importer's `OnnxNode`."""

    op: str
    source: str
    output_count: int
    operands: Sequence[Value | None]
    said: Mapping[str, Any]
    """AttributeProtos by name"""
    schema: Any
    folder: Path | None
    build_graph: Callable[[Any, Sequence[Value], str], Sequence[Value]]
    """Imports a graph attribute for inputs"""
    values: Mapping[str, Value | None] = field(default_factory=dict)
    """Values of the graph around the node, by name"""
    asked: set[str] = field(default_factory=set)
    """Attributes that the mapping read"""

    @property
    def input_count(self) -> int:
        return len(self.operands)

    def input(self, k: int) -> Value | None:
        return self.operands[k] if k < len(self.operands) else None

    def inputs(self, start: int = 0) -> list[Value]:
        present = [v for v in self.operands[start:] if v is not None]
        if len(present) < len(self.operands[start:]):
            raise ModelError(f"{self.source}: one of its inputs is left out; a list of inputs must not have holes")
        return present

    def only(self, count: int) -> None:
        surplus = [k for k, v in enumerate(self.operands) if k >= count and v is not None]
        if surplus:
            raise ImportRefusal(f"input {surplus[0]} is not supported")

    def has_attr(self, name: str) -> bool:
        self.asked.add(name)
        return name in self.said

    def attr(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        if name in self.said and (not attributes.is_empty(self.said[name]) or self.requires(name)):
            return attributes.value(self.said[name], self.folder, self.source)
        return self.declared(name) if default is None else default

    def requires(self, name: str) -> bool:
        """Whether ONNX declares the attribute as required: an empty list is a value then, and else as if it were absent."""
        declared = None if self.schema is None else self.schema.attributes.get(name)
        return declared is not None and bool(declared.required)

    def declared(self, name: str) -> Any:
        """Returns the default in ONNX's declaration; None if it has none."""
        declared = None if self.schema is None else self.schema.attributes.get(name)
        if declared is None or not declared.default_value.name:
            return None
        return attributes.value(declared.default_value, None, self.source)

    @overload
    def attr_dtype(self, name: str) -> DType | None: ...
    @overload
    def attr_dtype(self, name: str, default: DType) -> DType: ...
    def attr_dtype(self, name: str, default: DType | None = None) -> DType | None:
        number = self.attr(name)
        if isinstance(number, str):
            number = number_of_name(number)
        if number is None or (number == 0 and default is not None):
            return default
        if number in BY_NUMBER:
            return BY_NUMBER[number]
        if is_known(number):
            raise ImportRefusal(f"{name} = {spell(number)} is not supported")
        raise ModelError(f"{self.source}: {name} = {number} is not an element type of ONNX")

    def named(self, name: str) -> Value:
        value = self.values.get(name)
        if value is None:
            raise ModelError(f"{self.source}: there is no tensor {name!r}, which an attribute names")
        return value

    def region(self, name: str, inputs: Sequence[Value]) -> Sequence[Value]:
        return self.build_graph(self.attr(name), inputs, name)

    def refuse(self, reason: str) -> NoReturn:
        raise ImportRefusal(reason)


def check_arity(node: Any, schema: Any, where: str) -> None:
    """Raises ModelError unless the numbers of inputs and outputs are the declared ones and no required input is left out."""
    for what, names, low, high in (
        ("input", node.input, schema.min_input, schema.max_input),
        ("output", node.output, schema.min_output, schema.max_output),
    ):
        count = max((k + 1 for k, name in enumerate(names) if name or k < high), default=0)
        if not low <= count <= high:
            words = counted(low if high >= 1000 else high, what)
            expected = words if low == high else f"{low} to {words}" if high < 1000 else f"at least {words}"
            more = repairable("removes the surplus ones") if count > high and what == "input" else ""
            raise ModelError(f"{where}: {schema.name} has {expected}, got {count}{more}")
    import onnx

    single = onnx.defs.OpSchema.FormalParameterOption.Single
    for declared, name in zip(schema.inputs, node.input):
        if not name and declared.option == single:
            raise ModelError(f"{where}: input {declared.name} is left out, but {schema.name} needs it")


def types_allowed(schema: Any, operands: Sequence[Value | None]) -> bool:
    """Whether ONNX declares the operator for operands of these dtypes: a DtypeError is a missing feature then, not a fault of the model."""
    if schema is None:
        return False
    for k, v in enumerate(operands):
        if v is not None and schema.inputs:
            declared = schema.inputs[min(k, len(schema.inputs) - 1)]
            if f"tensor({_SPELLED.get(v.type.dtype, v.type.dtype)})" not in declared.types:
                return False
    bound: dict[str, DType] = {}
    for declared, v in zip(schema.inputs, operands):
        if v is not None and bound.setdefault(declared.type_str, v.type.dtype) != v.type.dtype:
            return False
    return True


_SPELLED: dict[str, str] = {
    "f16": "float16", "f32": "float", "f64": "double", "bf16": "bfloat16", "char": "string", "bool": "bool",
    **{f"{k}{b}": f"{n}{b}" for k, n in (("i", "int"), ("u", "uint")) for b in (2, 4, 8, 16, 32, 64)},
    **{t.name: t.name.replace("f8e", "float8e").replace("f4e", "float4e") for t in NARROW if t.is_float},
}  # fmt: skip
