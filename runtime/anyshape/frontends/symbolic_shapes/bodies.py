"""Types of the values inside of bodies of If, Loop and Scan, over dims by the names that the main graph has for them.

In: what is known of a graph, and the names of its symbols. Out: `Body` for each graph within a node, and for those within it. A symbol that
stands for a size of the graphs around is what they call it. One of the body alone, which may be another number in each run of the body,
gets the name of where it stands: `Loop 'l' body: x.shape[0]`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from anyshape.dims import Dim, Size, anonymous_names, bounds, substitute, symbol
from anyshape.frontends.onnx.control import graph_attributes
from anyshape.frontends.onnx.dtypes import declared_dims
from anyshape.frontends.onnx.named_values import NamedValues
from anyshape.frontends.onnx.order import spell_node
from anyshape.frontends.symbolic_shapes.result import DataSize, NamedType
from anyshape.graph.origins import Names, origins
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.types import ListType, TensorType
from anyshape.vm.report.causes import Causes, symbols_of


@dataclass(frozen=True)
class Body:
    """The types of a body's values, and the sizes that are its own by the symbols that inference has for them."""

    place: str
    values: Mapping[str, NamedType]
    sizes: Mapping[Dim, DataSize]


def place_within(place: str, node: Any, attribute: str) -> str:
    """Names a graph within a node, behind the place of the graph around: `Loop 'l' body / If 'branch' then_branch`."""
    return f"{place} / {spell_node(node)} {attribute}".removeprefix(" / ")


def bodies(
    known: NamedValues, shown: Mapping[Dim, Size], types: Mapping[str, NamedType], place: str = ""
) -> Iterator[Body]:
    """Reads all graphs within the nodes of a graph, each before those within it. `shown` has the names of the symbols around, `types` the
    values around. A branch that fails whenever it is taken is left out."""
    for node in known.nodes:
        for a in graph_attributes(node):
            inner = known.within(node, a.name, a.g)
            if inner is not None:
                yield from _read(inner, shown, types, place_within(place, node, a.name))


def _read(inner: NamedValues, around: Mapping[Dim, Size], types: Mapping[str, NamedType], place: str) -> Iterator[Body]:
    shown = {**_of_values_around(inner, types), **around}
    sizes = _own_sizes(inner, shown, place)
    shown.update((s, size.symbol) for s, size in sizes.items())
    values = {name: named_type(name, v, shown) for name, v in inner.values.items()}
    yield Body(place, values, sizes)
    yield from bodies(inner, shown, ChainMap(values, dict(types)), place)


def _of_values_around(inner: NamedValues, types: Mapping[str, NamedType]) -> dict[Dim, Size]:
    """Sizes around that symbols of the body stand for: the body is inferred by itself, and may have other symbols than they have."""
    sizes: dict[Dim, Size] = {}
    for name, v in inner.around.items():
        t = types[name]
        if t.type is None or isinstance(t.type, ListType):
            continue
        pairs = [*zip(declared_dims(v.type) or (), t.type.shape or ()), *zip(v.contents or (), t.elements or ())]
        for s, n in pairs:
            if isinstance(s, Dim) and s.is_symbol and isinstance(n, int | Dim) and not isinstance(n, bool):
                sizes.setdefault(s, n)
    return sizes


def _own_sizes(inner: NamedValues, shown: Mapping[Dim, Size], place: str) -> dict[Dim, DataSize]:
    values = [(name, v) for name, v in inner.values.items() if v is not None]
    places, fallback = origins(values), Names(inner.function)
    causes, inputs = Causes(inner.function), {i.name for i in inner.graph.input}
    changing = {s for name, v in values if name in inputs for s in symbols_of(v)}
    sizes: dict[Dim, DataSize] = {}
    taken: set[str] = set()
    for _, v in values:
        for s in sorted(symbols_of(v).difference(shown, sizes), key=attrgetter("name")):
            named = symbol(unused(f"{place}: {places.get(s) or fallback[s]}", taken), *bounds(s))
            with anonymous_names():
                cause = "iterations decide it" if s in changing else causes.of_dim(s)
            sizes[s] = DataSize(named, cause)
    return sizes


def named_type(name: str, v: Value | None, shown: Mapping[Dim, Size]) -> NamedType:
    """The type of a value with symbols by their names."""
    if v is None:
        return NamedType(name, None)
    if isinstance(v.type, ListType):
        return NamedType(name, v.type.substitute(shown))
    t = TensorType(v.type.dtype, declared_dims(v.type)).substitute(shown)
    elements = tuple(substitute(e, shown) for e in v.contents) if v.contents else None
    return NamedType(name, t, elements, v.is_constant)
