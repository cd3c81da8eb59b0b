"""Convolutional networks as layers, for engines that read no ONNX: `ncnn_engine.py` and `litert_engine.py` write these in own formats.

In: an ONNX model of pictures of one batch, with constant weights. Out: its `Layer`s in order; an activation behind a convolution is part of
it, as the converters of these engines have it. An operator or a form that is none of these layers raises ValueError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from benchmarks.lines import Array

PLAIN = frozenset(
    ("Relu", "Sigmoid", "Add", "Mul", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool", "Flatten", "Identity")
)
"""Operators that are layers by themselves; `Conv`, `Gemm` and `Clip` have constants."""
Range = tuple[float, float]


@dataclass(frozen=True)
class Layer:
    """`inputs` and `output` are names of values. `weights` of a convolution are [m, c / groups, kh, kw], of a `Gemm` [m, k]; `range` is
    what results are clipped to, if they are; `pads` are those of ONNX: top, left, bottom, right."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    weights: Array | None = None
    bias: Array | None = None
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    range: Range | None = None


@dataclass(frozen=True)
class Network:
    """Layers, and the names of the values that a call takes and gives."""

    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    channels: Mapping[str, int] = field(default_factory=dict)
    """The channels of each input."""


def network(model: ModelProto) -> Network:
    """The layers of a model. Raises ValueError for what is none."""
    graph = model.graph
    constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
    layers = [_layer(n, constants) for n in graph.node if not _is_constant(n, constants)]
    inputs = [i for i in graph.input if i.name not in constants]
    channels = {}
    for i in inputs:
        dims = i.type.tensor_type.shape.dim
        if i.type.tensor_type.elem_type != onnx.TensorProto.FLOAT or len(dims) != 4 or not dims[1].dim_value:
            raise ValueError(f"input {i.name} is no picture of f32 with so many channels")
        channels[i.name] = dims[1].dim_value
    outputs = tuple(o.name for o in graph.output)
    return Network(_with_activations(layers, outputs), tuple(channels), outputs, channels)


def _is_constant(node: NodeProto, constants: dict[str, Array]) -> bool:
    if node.op_type != "Constant":
        return False
    constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return True


def _layer(node: NodeProto, constants: Mapping[str, Array]) -> Layer:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    values = tuple(n for n in node.input if n and n not in constants)
    held = [constants.get(n) for n in node.input]
    plain = Layer(node.op_type, values, node.output[0])
    if node.op_type == "Conv" and len(values) == 1 and held[1] is not None and held[1].ndim == 4:
        return _windows(replace(plain, weights=held[1], bias=_bias(held, len(held[1]))), held[1].shape[2:], attributes)
    if node.op_type == "Gemm" and len(values) == 1 and held[1] is not None and not attributes.get("transA"):
        weights = held[1] if attributes.get("transB") else held[1].T
        return replace(plain, weights=np.ascontiguousarray(weights), bias=_bias(held, len(weights)))
    if node.op_type == "Clip" and len(values) == 1:
        low, high = (float(a) for a in held[1:3] if a is not None)
        return replace(plain, range=(low, high))
    if node.op_type in PLAIN and len(values) == len(node.input):
        if "Pool" in node.op_type and "kernel_shape" in attributes:
            return _windows(plain, attributes["kernel_shape"], attributes)
        return plain
    raise ValueError(f"{node.op_type} is no layer here")


def _bias(held: list[Any], m: int) -> Array:
    bias = held[2] if len(held) > 2 else None
    return np.zeros(m, np.float32) if bias is None else bias


def _windows(layer: Layer, kernel: Any, attributes: Mapping[str, Any]) -> Layer:
    """The layer with its windows. Raises ValueError for windows that are not of pictures, or padded in another way than by numbers."""
    if len(kernel) != 2 or attributes.get("auto_pad", b"NOTSET") != b"NOTSET" or attributes.get("ceil_mode"):
        raise ValueError(f"{layer.operator} with windows of {len(kernel)} dims, or padded by a rule")
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    pairs = {name: tuple(attributes.get(name, (1, 1))) for name in ("strides", "dilations")}
    return replace(
        layer, kernel=tuple(kernel), pads=(top, left, bottom, right), groups=attributes.get("group", 1), **pairs
    )


def _with_activations(layers: list[Layer], outputs: tuple[str, ...]) -> tuple[Layer, ...]:
    """The layers with each `Relu` and `Clip` in the convolution before it that nothing else reads."""
    readers = Counter(name for layer in layers for name in layer.inputs) + Counter(outputs)
    joined: list[Layer] = []
    for layer in layers:
        before = joined[-1] if joined else None
        limits = layer.range if layer.operator == "Clip" else (0.0, float("inf")) if layer.operator == "Relu" else None
        follows = before is not None and layer.inputs == (before.output,) and readers[before.output] == 1
        if before is not None and limits is not None and follows and before.operator == "Conv" and before.range is None:
            joined[-1] = replace(before, output=layer.output, range=limits)
        else:
            joined.append(layer)
    return tuple(joined)
