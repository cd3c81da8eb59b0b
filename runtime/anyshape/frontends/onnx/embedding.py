"""Puts all data of a model into its file, for tools that take the bytes of a model and no folder.

In: a parsed model. Out: a copy that nothing outside belongs to. What lies in other files is read as an import reads it: plain files in the
model's folder, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anyshape.frontends.onnx.control import subgraphs
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.tensors import EXTERNAL, external_bytes


def with_weights(read: Source) -> Any:
    """Copies a model, with the weights that stayed in the mapped file."""
    model = type(read.model)()
    model.CopyFrom(read.model)
    for k, data in read.weights.items():
        model.graph.initializer[k].raw_data = bytes(data)
    return model


def embedded(read: Source) -> Any:
    """Copies a model, with the data of other files too. Raises ModelError for data that cannot be read."""
    model = with_weights(read)
    embed(model, read.folder, read.name)
    return model


def embed(model: Any, folder: Path | None, name: str) -> None:
    """Puts data of other files, in `folder`, into a model in place; `name` is what messages call it. Raises ModelError for data that cannot
    be read."""
    for t in tensors_in(model):
        if t.data_location == EXTERNAL:
            data = external_bytes(t, folder, f"{name}: tensor {t.name!r}")
            t.ClearField("external_data")
            t.ClearField("data_location")
            t.raw_data = data


def tensors_in(model: Any) -> Iterator[Any]:
    """Lists all tensors of a model: of its graph, the graphs within it, and functions."""
    yield from _tensors(model.graph)
    for f in model.functions:
        for node in f.node:
            yield from _of_node(node)


def _tensors(graph: Any) -> Iterator[Any]:
    """Lists the tensors of a graph and of the graphs within it."""
    yield from graph.initializer
    for s in graph.sparse_initializer:
        yield from (s.values, s.indices)
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: Any) -> Iterator[Any]:
    for a in node.attribute:
        yield from (a.t, *a.tensors, a.sparse_tensor.values, a.sparse_tensor.indices)
    for inner in subgraphs(node):
        yield from _tensors(inner)
