"""Models without their weights: an ONNX file whose large tensors are empty and say what they are to be filled with.

`strip` takes a model with weights and gives its structure, small enough to commit. `fill` takes a structure and a
seed and gives a model that runs. The recipe of a stripped tensor is its `doc_string`: `normal MEAN STD` or
`arange`, and dims and dtype stay where they were. Each tensor is drawn from the seed and its own name, so one that
is added or renamed changes no other.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

FOLDER = Path(__file__).parent / "structures"
KEPT_ELEMENTS = 64  # smaller tensors are shape arithmetic and constants of formulas: part of the structure
GAIN = 0.8  # a dense layer's weights have std GAIN / sqrt(rows): activations neither die nor explode


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every constant of the graph: initializers and the tensors of Constant nodes, then those of the bodies of its nodes."""
    yield from graph.initializer
    for node in graph.node:
        if node.op_type == "Constant":
            yield from (a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)
    for body in _bodies(graph):
        yield from _tensors(body)


def _bodies(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The branches and bodies of loops of the graph's nodes."""
    for node in graph.node:
        yield from (a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH)


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """Initializer name -> "Op.operand" of its first use."""
    roles: dict[str, str] = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            roles.setdefault(name, f"{node.op_type}.{position}")
    for body in _bodies(graph):
        roles = {**_roles(body), **roles}
    return roles


def _recipe(role: str, values: NDArray[np.generic]) -> str:
    """How a tensor used as `role` is to be filled again."""
    if values.dtype == np.int64 and np.array_equal(values.ravel(), np.arange(values.size)):
        return "arange"
    if values.dtype == np.int64 and not values.any():
        return "normal 0 0"
    if values.dtype.kind in "iub":
        return ""  # tables of indices are part of the structure
    if values.dtype != np.float32:
        raise ValueError(
            f"no recipe for {values.dtype}{list(values.shape)} used as {role}: only f32, ranges and zeros have one"
        )
    if role == "LayerNormalization.1":
        return "normal 1 0.1"
    if role.startswith(("MatMul", "Gemm")) and values.ndim == 2:
        rows = values.shape[0] if role.startswith("MatMul") else values.shape[1]
        return f"normal 0 {GAIN / math.sqrt(rows):.4f}"
    if role.startswith(("Conv.", "ConvTranspose.", "LSTM.", "GRU.")) and values.ndim > 2:
        return (
            f"normal 0 {GAIN / math.sqrt(math.prod(values.shape[1:]) / (1 if role[0] == 'C' else values.shape[1])):.4f}"
        )
    return "normal 0 0.5" if role.startswith("Gather") else "normal 0 0.02"


def shorten(model: onnx.ModelProto, cut: tuple[str, ...]) -> onnx.ModelProto:
    """The model with the given texts cut out of all names of values and nodes, half of a structure's bytes."""

    def short(name: str) -> str:
        for text in cut:
            name = name.replace(text, "")
        return name

    brief = onnx.ModelProto()
    brief.CopyFrom(model)
    outputs = [name for node in model.graph.node for name in node.output]
    if len({short(name) for name in outputs}) < len(set(outputs)):
        raise ValueError(f"cutting {cut} out of the names makes two values the same")
    for tensor in brief.graph.initializer:
        tensor.name = short(tensor.name)
    for node in brief.graph.node:
        node.name = short(node.name)
        node.input[:] = [short(name) for name in node.input]
        node.output[:] = [short(name) for name in node.output]
    return brief


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with numbers for the names of all values but its inputs and outputs, and no words about where it came from."""
    brief = onnx.ModelProto()
    brief.CopyFrom(model)
    kept = {v.name for v in (*model.graph.input, *model.graph.output)}
    names: dict[str, str] = {"": "", **{name: name for name in kept}}

    def short(name: str) -> str:
        return names.setdefault(name, f"v{len(names)}")

    def visit(graph: onnx.GraphProto) -> None:
        del graph.value_info[:], graph.quantization_annotation[:], graph.metadata_props[:]
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.name = short(value.name)
        for k, node in enumerate(graph.node):
            node.name, node.doc_string = f"{node.op_type}_{k}", ""
            del node.metadata_props[:]
            node.input[:], node.output[:] = map(short, node.input), map(short, node.output)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)

    visit(brief.graph)
    return brief


def strip(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the contents of its large constants, each of which says how to fill it."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    roles = _roles(bare.graph)
    for tensor in _tensors(bare.graph):
        values = numpy_helper.to_array(tensor)
        if values.size >= KEPT_ELEMENTS:
            recipe = _recipe(roles.get(tensor.name, "Constant"), values)
            if not recipe:
                continue
            tensor.CopyFrom(
                onnx.TensorProto(name=tensor.name, dims=values.shape, data_type=tensor.data_type, doc_string=recipe)
            )
    return bare


def keep(bare: onnx.ModelProto, name: str) -> None:
    """Writes a structure where the others are, and prints its size."""
    path = FOLDER / f"zoo_{name}.onnx"
    onnx.save(bare, path)
    print(f"{name}: {len(bare.graph.node)} nodes, {path.stat().st_size} bytes", flush=True)


def _filling(tensor: onnx.TensorProto, name: str, seed: int) -> NDArray[np.generic]:
    """The values of one stripped tensor."""
    kind, *numbers = tensor.doc_string.split()
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    dims = tuple(tensor.dims)
    if kind == "arange":
        return np.arange(math.prod(dims), dtype=dtype).reshape(dims)
    if kind != "normal":
        raise ValueError(
            f"tensor {name!r} has the unknown recipe {tensor.doc_string!r}; known are 'normal MEAN STD' and 'arange'"
        )
    mean, deviation = map(float, numbers)
    drawn = np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal(dims, dtype=np.float32)
    return (mean + deviation * drawn).astype(dtype)


def fill(bare: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A model with seeded weights from a structure."""
    model = onnx.ModelProto()
    model.CopyFrom(bare)
    for number, tensor in enumerate(_tensors(model.graph)):
        if tensor.doc_string:
            name = tensor.name or f"constant {number}"
            tensor.CopyFrom(numpy_helper.from_array(_filling(tensor, name, seed), tensor.name))
    return model


def build(name: str, path: Path, seed: int) -> Path:
    """Write the committed structure `name`, filled."""
    onnx.save(fill(onnx.load(FOLDER / f"{name}.onnx"), seed), path)
    return path
