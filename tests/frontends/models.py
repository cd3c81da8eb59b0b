"""Small ONNX models for tests, written in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def tensor(name: str, shape: Sequence[int | str | None] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """Names are separated by blanks; a dash is one that is left out."""
    ins, outs = ([("" if n == "-" else n) for n in text.split()] for text in (inputs, outputs))
    return helper.make_node(op, ins, outs, name=name, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: str,
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    domains: Sequence[str] = (),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    results = [onnx.ValueInfoProto(name=name) for name in outputs.split()]
    held = [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), results, held)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def function(
    name: str, inputs: str, nodes: Sequence[onnx.NodeProto], output: str = "y", attributes: Sequence[str] = ()
):
    """A function of domain acme."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_function("acme", name, inputs.split(), [output], list(nodes), imports, list(attributes))


def call(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node of domain acme."""
    return node(op, inputs, outputs, name, domain="acme", **attributes)


def chain() -> onnx.ModelProto:
    """relu(x + w) + x, with a named dim."""
    nodes = [node("Add", "x w", "a"), node("Relu", "a", "b", "act"), node("Add", "b x", "y")]
    return model(nodes, [tensor("x", ["batch", 4])], "y", {"w": np.arange(4, dtype=np.float32)})
