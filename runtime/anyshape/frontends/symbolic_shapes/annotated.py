"""A model with the symbolic shapes of its values written into it, and nothing else changed.

In: a model and its `Shapes`. Out: an onnx.ModelProto whose `value_info` and outputs have types: numbers for dims, else the text of their
expressions as `dim_param`, as `n + 1` or `places.shape[1]`. Tools that read names alone see which sizes are equal. So do the graphs within
its nodes; but a size of a body alone has no name there, since a name means one size in all of a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from anyshape.dims import Dim, exact_text, free_symbols
from anyshape.frontends.onnx.control import graph_attributes
from anyshape.frontends.onnx.dtypes import NUMBER_OF
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.loading import read_source
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.tensors import whole_tensor
from anyshape.frontends.symbolic_shapes.bodies import place_within
from anyshape.frontends.symbolic_shapes.inference import shapes_of
from anyshape.frontends.symbolic_shapes.result import NamedType, Shapes
from anyshape.public import edge
from anyshape.types import ListType


@edge
def annotate(
    model: Any, dims: Mapping[str, DimBinding] | None = None, repair: bool = False, notes: list[str] | None = None
) -> tuple[Any, Shapes]:
    """Returns a copy of the model with shapes, and the shapes. Arguments and errors are those of `shapes`."""
    read = read_source(model, dims, repair, notes if notes is not None else [])
    known = shapes_of(read, dims)
    return _annotated(read, known), known


def _annotated(read: Source, known: Shapes) -> Any:
    import onnx

    old = read.model
    new = onnx.ModelProto()
    new.CopyFrom(old)
    graph = new.graph
    del graph.initializer[:]
    graph.initializer.extend(
        whole_tensor(t, read.weights.get(k), read.folder, read.name) for k, t in enumerate(old.graph.initializer)
    )
    _describe_values(graph, known.values)
    _describe_bodies(graph, known)
    return new


def _describe_bodies(graph: Any, known: Shapes, place: str = "") -> None:
    own = {d.symbol for d in known.body_sizes.values()}
    live = known.bodies[place] if place else known.values
    for node in graph.node:
        if live.keys().isdisjoint(node.output):
            continue  # a node that nothing needs may have the name of another one
        for a in graph_attributes(node):
            inner = place_within(place, node, a.name)
            if inner in known.bodies:
                _describe_values(a.g, known.bodies[inner], own)
                _describe_bodies(a.g, known, inner)


def _describe_values(graph: Any, values: Mapping[str, NamedType], unnamed: Set[Dim] = frozenset()) -> None:
    outputs = {o.name: o for o in graph.output}
    stated = {i.name: i for i in graph.value_info}
    for name in (name for node in graph.node for name in node.output):
        t = values.get(name)
        if t is None or t.type is None or isinstance(t.type, ListType):
            continue
        _describe(outputs.get(name) or stated.get(name) or graph.value_info.add(name=name), t, unnamed)


def _describe(info: Any, t: NamedType, unnamed: Set[Dim]) -> None:
    """Writes a type. A rank that is not known leaves what the model says of it, and a size of which a symbol is `unnamed` has no name."""
    assert t.type is not None
    tensor = info.type.tensor_type
    tensor.elem_type = NUMBER_OF[t.type.dtype]
    if t.type.shape is None:
        return
    tensor.ClearField("shape")
    tensor.shape.SetInParent()
    for n in t.type.shape:
        dim = tensor.shape.dim.add()
        if isinstance(n, int):
            dim.dim_value = n
        elif unnamed.isdisjoint(free_symbols(n)):
            dim.dim_param = exact_text(n)
