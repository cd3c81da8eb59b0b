"""Checks that names are UTF-8 text: protobuf returns others as bytes, on which everything after this would fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from anyshape.errors import ModelError


def check_text(model: Any, where: str) -> None:
    """Raises ModelError if a name that an import reads is not text."""
    for text in _texts(model):
        if not isinstance(text, str):
            raise ModelError(f"{where}: the name {text!r} is not UTF-8 text; the file is damaged")


def _texts(model: Any) -> Iterator[Any]:
    yield from (o.domain for o in model.opset_import)
    yield from _of_graph(model.graph)
    for f in model.functions:
        yield from (f.name, f.domain, f.overload, *f.input, *f.output, *f.attribute)
        yield from (o.domain for o in f.opset_import)
        yield from _of_attributes(f.attribute_proto)
        yield from _of_nodes(f.node)


def _of_graph(graph: Any) -> Iterator[Any]:
    yield from _of_nodes(graph.node)
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (d.dim_param for d in info.type.tensor_type.shape.dim)
    for t in graph.initializer:
        yield from _of_tensor(t)
    for s in graph.sparse_initializer:
        yield from _of_sparse(s)


def _of_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    for n in nodes:
        yield from (n.op_type, n.domain, n.name, n.overload)
        yield from n.input
        yield from n.output
        yield from _of_attributes(n.attribute)


def _of_attributes(attributes: Iterable[Any]) -> Iterator[Any]:
    for a in attributes:
        yield from (a.name, a.ref_attr_name)
        if a.HasField("t"):
            yield from _of_tensor(a.t)
        if a.HasField("sparse_tensor"):
            yield from _of_sparse(a.sparse_tensor)
        for graph in (a.g, *a.graphs) if a.HasField("g") else a.graphs:
            yield from _of_graph(graph)


def _of_sparse(s: Any) -> Iterator[Any]:
    yield from _of_tensor(s.values)
    yield from _of_tensor(s.indices)


def _of_tensor(t: Any) -> Iterator[Any]:
    yield t.name
    for entry in t.external_data:
        yield from (entry.key, entry.value)
