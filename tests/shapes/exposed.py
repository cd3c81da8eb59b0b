"""Runs of models whose results are the shapes of values inside of their bodies, compared with what `Shapes` says of these.

In: a model, its `Shapes`, calls. `exposed` adds nodes for the shape of each value, and its elements where these are known, to the graph in
which it stands; they leave a Loop or Scan as one row for each iteration, and an If as rows of ABSENT from the branch that is not taken.
onnxruntime runs that. A size that is known by name has one number in one run of a body, whatever value has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from anyshape.dims import Dim, bounds, evaluate, free_symbols
from anyshape.frontends.onnx.control import graph_attributes
from anyshape.frontends.symbolic_shapes import NamedType, Shapes
from anyshape.frontends.symbolic_shapes.bodies import place_within
from anyshape.types import ListType

ABSENT = -(1 << 40)
"""What a branch that is not taken gives for numbers"""
MAIN = ""


@dataclass(frozen=True)
class Observation:
    """An output of an exposed model: the shape of a value, or its elements."""

    place: str
    name: str
    output: str
    is_shape: bool


@dataclass
class Exposed:
    """A model of which a run gives `observed`, what its values are. `around` has the place of the graph around each body."""

    proto: Any
    observed: list[Observation] = field(default_factory=list)
    around: dict[str, str] = field(default_factory=dict)


def exposed(model: onnx.ModelProto, shapes: Shapes) -> Exposed:
    """Makes a copy of the model whose outputs are the shapes of all values of its graphs."""
    e = Exposed(onnx.ModelProto())
    e.proto.CopyFrom(model)
    graph = e.proto.graph
    e.observed = _expose(graph, shapes, MAIN, e)
    del graph.output[:]
    graph.output.extend(onnx.ValueInfoProto(name=t.output) for t in e.observed)
    return e


def _expose(graph: Any, shapes: Shapes, place: str, e: Exposed) -> list[Observation]:
    """Adds nodes for the shapes of values to a graph and those within it, and returns what the graph can have as outputs."""
    observed: list[Observation] = []
    for node in list(graph.node):
        bodies = {a.name: a.g for a in graph_attributes(node)}
        inner = {name: _expose(g, shapes, where, e)
                 for name, g in bodies.items() if (where := place_within(place, node, name)) in shapes.bodies}  # fmt: skip
        e.around.update((place_within(place, node, name), place) for name in inner)
        for name, leaving in inner.items():
            for t in leaving:
                bodies[name].output.append(onnx.ValueInfoProto(name=t.output))
                for other in bodies.keys() - {name}:
                    _append_absent(bodies[other], t, shapes)
                observed.append(replace(t, output=f"{t.output}_"))
                node.output.append(observed[-1].output)
        for a in node.attribute:
            if a.name in ("scan_output_axes", "scan_output_directions"):
                a.ints.extend([0] * sum(map(len, inner.values())))
    return [*observed, *_own(graph, shapes.bodies[place] if place else shapes.values, place)]


def _own(graph: Any, types: Mapping[str, NamedType], place: str) -> Iterator[Observation]:
    for name, t in types.items():
        if t.type is None or t.type.shape is None or isinstance(t.type, ListType):
            continue
        output = f"{place}:{name}"
        graph.node.append(helper.make_node("Shape", [name], [f"{output}.shape"]))
        yield Observation(place, name, f"{output}.shape", True)
        if t.elements is not None and np.dtype(t.type.dtype.numpy).kind in "iu":
            flat = numpy_helper.from_array(np.array([-1]))
            graph.node.append(helper.make_node("Constant", [], [f"{output}.flat"], value=flat))
            graph.node.append(helper.make_node("Cast", [name], [f"{output}.cast"], to=onnx.TensorProto.INT64))
            graph.node.append(helper.make_node("Reshape", [f"{output}.cast", f"{output}.flat"], [f"{output}.elements"]))
            yield Observation(place, name, f"{output}.elements", False)


def _append_absent(graph: Any, t: Observation, shapes: Shapes) -> None:
    known = shapes.bodies[t.place][t.name]
    assert known.type is not None
    rows = np.full(known.type.rank if t.is_shape else len(known.elements or ()), ABSENT, np.int64)
    value = numpy_helper.from_array(rows)
    graph.node.append(helper.make_node("Constant", [], [f"absent_{t.output}"], value=value))
    graph.output.append(onnx.ValueInfoProto(name=f"absent_{t.output}"))


def run(e: Exposed, feed: Mapping[str, NDArray[Any]]) -> dict[Observation, NDArray[np.int64]]:
    """Runs the model with onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(e.proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    taken = {i.name for i in session.get_inputs()}
    results = session.run([t.output for t in e.observed], {n: a for n, a in feed.items() if n in taken})
    return dict(zip(e.observed, map(np.asarray, results), strict=True))


def contradictions(
    e: Exposed, shapes: Shapes, feed: Mapping[str, NDArray[Any]], rows: Mapping[Observation, NDArray[np.int64]]
) -> Iterator[str]:
    """Lists what `shapes` says and the run does not confirm."""
    numbers: dict[tuple[str, tuple[int, ...]], dict[Dim, int]] = {(MAIN, ()): _of_inputs(shapes, feed)}
    places = [MAIN, *shapes.bodies]
    for place in places:
        here = {t: a for t, a in rows.items() if t.place == place}
        leading = next((a.shape[:-1] for a in here.values()), ())
        for at in np.ndindex(*leading):
            around = numbers[MAIN, ()] if place == MAIN else _around(e.around[place], at, numbers)
            env = numbers[place, at] = dict(around)
            for t, a in here.items():
                env.update((s, n) for s, n in zip(_said(shapes, t), a[at].tolist())
                           if n != ABSENT and isinstance(s, Dim) and s.is_symbol and s not in env)  # fmt: skip
            for t, a in here.items():
                yield from _contradicted(t, at, _said(shapes, t), a[at].tolist(), env)


def _around(
    place: str, at: tuple[int, ...], numbers: Mapping[tuple[str, tuple[int, ...]], dict[Dim, int]]
) -> Mapping[Dim, int]:
    """The numbers of the run of the graph around."""
    return next((numbers[place, at[:k]] for k in range(len(at), -1, -1) if (place, at[:k]) in numbers), {})


def _of_inputs(shapes: Shapes, feed: Mapping[str, NDArray[Any]]) -> dict[Dim, int]:
    numbers: dict[Dim, int] = {}
    for name in shapes.inputs:
        t = shapes.values[name]
        if t.type is None or isinstance(t.type, ListType):
            continue
        pairs = [*zip(t.type.shape or (), feed[name].shape), *zip(t.elements or (), feed[name].flat)]
        numbers.update((s, int(n)) for s, n in pairs if isinstance(s, Dim) and s.is_symbol)
    return numbers


def _said(shapes: Shapes, t: Observation) -> tuple[Any, ...]:
    known = (shapes.bodies[t.place] if t.place else shapes.values)[t.name]
    assert known.type is not None
    return tuple((known.type.shape if t.is_shape else known.elements) or ())


def _contradicted(
    t: Observation, at: tuple[int, ...], said: tuple[Any, ...], row: list[int], env: Mapping[Dim, int]
) -> Iterator[str]:
    what = f"{t.place}: {t.name}{'' if t.is_shape else ' (elements)'} at {at}: {list(map(str, said))}, but is {row}"
    if len(said) != len(row):
        yield what
        return
    for s, n in zip(said, row):
        if n == ABSENT or (isinstance(s, Dim) and not free_symbols(s) <= env.keys()):
            continue
        low, high = bounds(s) if isinstance(s, Dim) else (s, s)
        number = evaluate(s, env) if isinstance(s, Dim) else s
        if number != n or not (low is None or low <= n) or not (high is None or n <= high):
            yield what
