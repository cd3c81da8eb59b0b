"""Imports If, Loop and Scan: graphs within nodes become regions, which capture values of the graphs around them by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anyshape import control, lists
from anyshape.errors import ModelError
from anyshape.frontends.onnx.node import Mapping, OnnxNode, needed
from anyshape.graph.value import Value, constant
from anyshape.types import ListType
from anyshape.wording import counted

GRAPH = 5
"""The attribute type of a graph."""

DEEPEST_GRAPHS = 64
"""The most graphs within one another, also by way of functions. Protobuf reads messages 100 deep, and a graph within a graph is three of
them: a file has 32."""


def graph_attributes(node: Any) -> list[Any]:
    """Lists the attributes of a node that are graphs."""
    return [a for a in node.attribute if a.type == GRAPH and a.HasField("g")]


def subgraphs(node: Any) -> list[Any]:
    """Lists the graphs among the attributes of a node."""
    return [a.g for a in graph_attributes(node)]


NAMING = {("ai.onnx.preview.training", "Gradient"): ("xs", "zs", "y")}
"""Operators that read tensors which attributes name, and the attributes"""


def named_tensors(node: Any) -> list[str]:
    """Lists the names of tensors among a node's attributes."""
    naming = NAMING.get((node.domain, node.op_type), ())
    said = [a for a in node.attribute if a.name in naming]
    return [s.decode("utf-8", "replace") for a in said for s in (a.strings or [a.s])]


def free_names(nodes: Iterable[Any]) -> list[str]:
    """Lists the names that nodes read, with those that graphs within them capture, in order."""
    names: dict[str, None] = {}
    for node in nodes:
        names.update((name, None) for name in node.input if name)
        names.update((name, None) for name in named_tensors(node))
        for graph in subgraphs(node):
            names.update((name, None) for name in captured_names(graph))
    return list(names)


def captured_names(graph: Any) -> list[str]:
    """Lists the names that a graph reads and does not define."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own |= {s.values.name for s in graph.sparse_initializer} | {o for n in graph.node for o in n.output}
    read = dict.fromkeys([*free_names(graph.node), *(o.name for o in graph.output)])
    return [name for name in read if name not in own]


def if_1(n: OnnxNode) -> Sequence[Value]:
    """Imports If: its branches have no inputs, and as many outputs as the node."""
    cond = needed(n, n.input(0), "its condition")
    for name in ("then_branch", "else_branch"):
        _check_sizes(n, n.attr(name), name, 0, n.output_count)
    return control.if_(cond, lambda: n.region("then_branch", ()), lambda: n.region("else_branch", ()), source=n.source)


def loop_1(n: OnnxNode) -> Sequence[Value]:
    """Imports Loop: its body takes the number of the iteration, a condition (true, since it runs) and the carried values."""
    trip, cond, carried = n.input(0), n.input(1), n.inputs(2)
    body = n.attr("body")
    collects = len(body.output) - 1 - len(carried)
    _check_sizes(n, body, "body", 2 + len(carried), max(collects, 0) + 1 + len(carried))
    names = [i.name for i in body.input[2:]]

    again: list[Value] = []

    def iteration(number: Value, *values: Value) -> Sequence[Value]:
        computed = again[:] = list(n.region("body", (number, constant(True), *values)))
        return [computed[0], *map(_as_optional, computed[1:], carried), *computed[1 + len(carried) :]]

    start = constant(True) if cond is None else cond
    results = list(control.loop(trip, iteration, carried, start, collects, n.source, names))
    for k, v in enumerate(carried):
        if _is_optional(v) and not _is_optional(again[1 + k]):
            results[k] = lists.element(results[k], n.source)
    return results


def _is_optional(v: Value) -> bool:
    return isinstance(v.type, ListType) and v.type.optional


def _as_optional(value: Value, first: Value) -> Value:
    """Wraps a carried value that the body returns as an element where it was an optional at first."""
    return lists.optional(value) if _is_optional(first) and not _is_optional(value) else value


def scan_9(n: OnnxNode) -> Sequence[Value]:
    """Imports Scan: states come first, then the scanned inputs; outputs that are collected backwards or along another axis than the first
    are reversed and transposed after the loop."""
    count = _scanned(n, len(n.inputs()))
    states, scanned = n.inputs()[:-count], n.inputs(len(n.inputs()) - count)
    body = n.attr("body")
    collects = len(body.output) - len(states)
    _check_sizes(n, body, "body", len(states) + count, max(collects, 0) + len(states))
    results = control.scan(
        lambda *values: n.region("body", values), states, scanned, collects,
        _axes(n, "scan_input_axes", scanned), _directions(n, "scan_input_directions", count), n.source,
        [i.name for i in body.input[: len(states)]],
    )  # fmt: skip
    last, stacked = results[: len(states)], results[len(states) :]
    back = _directions(n, "scan_output_directions", collects)
    axes = _axes(n, "scan_output_axes", stacked)
    return (*last, *(_placed(n, v, b, a) for v, b, a in zip(stacked, back, axes, strict=True)))


def scan_8(n: OnnxNode) -> Sequence[Value]:
    """Imports Scan of opset 8, where every value has a leading batch dim: a loop over the batch, with a scan over as many slices as
    `sequence_lens` says in each iteration, whose stacked outputs are padded with zeros. Backward scans begin at the end of each
    sequence."""
    from anyshape import ops

    lengths, values = n.input(0), n.inputs(1)
    count = _scanned(n, len(values))
    states, scanned = values[:-count], values[-count:]
    body = n.attr("body")
    collects = len(body.output) - len(states)
    _check_sizes(n, body, "body", len(states) + count, max(collects, 0) + len(states))
    back = _directions(n, "directions", count)
    batch, longest = (ops.gather(ops.shape_of(scanned[0], source=n.source), k, source=n.source) for k in (0, 1))

    def iteration(number: Value) -> Sequence[Value]:
        slices = [ops.gather(v, number, axis=0, source=n.source) for v in values]
        first, rest = slices[: len(states)], slices[len(states) :]
        length = None if lengths is None else ops.gather(ops.cast(lengths, "i64"), number, source=n.source)
        if length is not None:
            end = ops.static.reshape(length, newshape=(1,), source=n.source)
            rest = [ops.slice(v, [0], end, source=n.source) for v in rest]
        results = control.scan(lambda *v: n.region("body", v), first, rest, collects, (), back, n.source)
        last, stacked = results[: len(states)], results[len(states) :]
        return (*last, *(v if length is None else _filled(n, v, longest) for v in stacked))

    return control.loop(batch, iteration, (), None, len(states) + collects, n.source)


def _filled(n: OnnxNode, v: Value, rows: Value) -> Value:
    """Pads a value with rows of zeros at the end, up to a number of rows."""
    from anyshape import ops

    there = ops.shape_of(v, source=n.source)
    missing = ops.sub(rows, ops.gather(there, 0, source=n.source), source=n.source)
    shape = [
        ops.static.reshape(missing, newshape=(1,), source=n.source),
        ops.slice(there, [1], [2**31], source=n.source),
    ]
    zeros = ops.full(
        constant(np.zeros((), v.type.dtype.numpy)), ops.concat(shape, axis=0, source=n.source), source=n.source
    )
    return ops.concat([v, zeros], axis=0, source=n.source)


def _scanned(n: OnnxNode, inputs: int) -> int:
    count = n.attr("num_scan_inputs")
    if not isinstance(count, int) or not 1 <= count <= inputs:
        raise ModelError(f"{n.source}: num_scan_inputs must be from 1 to {inputs}, the number of inputs, got {count}")
    return count


def _axes(n: OnnxNode, name: str, values: Sequence[Value]) -> list[int]:
    axes = n.attr(name) or [0] * len(values)
    if len(axes) != len(values):
        raise ModelError(f"{n.source}: {name} must have {len(values)} entries, got {len(axes)}")
    for axis, v in zip(axes, values):
        rank = v.type.rank
        if rank is None and axis != 0:
            n.refuse(f"{name} for a value of unknown rank")
        if rank is not None and not -rank <= axis < rank:
            raise ModelError(f"{n.source}: {name} has {axis}, which is not an axis of {v.type}")
    return [axis if v.type.rank is None else axis % v.type.rank for axis, v in zip(axes, values)]


def _directions(n: OnnxNode, name: str, count: int) -> list[bool]:
    said = n.attr(name) or [0] * count
    if len(said) != count or any(d not in (0, 1) for d in said):
        raise ModelError(f"{n.source}: {name} must have {count} entries of 0 or 1, got {said}")
    return [d == 1 for d in said]


def _placed(n: OnnxNode, v: Value, backwards: bool, axis: int) -> Value:
    from anyshape import ops

    if backwards:
        v = ops.slice(v, [-1], [-(2**63)], [0], [-1], source=n.source)
    if axis:
        rank = v.type.rank or 0
        order = list(range(1, rank))
        order.insert(axis, 0)
        v = ops.transpose(v, axes=order, source=n.source)
    return v


def _check_sizes(n: OnnxNode, graph: Any, name: str, inputs: int, outputs: int) -> None:
    for what, expected, got in (("input", inputs, len(graph.input)), ("output", outputs, len(graph.output))):
        if expected != got:
            raise ModelError(f"{n.source}: {name} must have {counted(expected, what)}, got {got}")


CONTROL: dict[str, dict[int, Mapping | None]] = {"If": {1: if_1}, "Loop": {1: loop_1}, "Scan": {8: scan_8, 9: scan_9}}
