"""Rules for nodes with regions: what their operands decide, and what their regions need not capture. And for lists in sight."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.expansion import list_split
from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.lists import SPLIT
from anyshape.graph.regions import typed
from anyshape.graph.value import Node, Value


def control_flow(node: Node) -> Sequence[Value] | None:
    """A branch whose condition is known is put in the node's place; constants come to stand in regions; captured values that no region
    reads are let go."""
    control = node.op.control
    if control is None:
        return None
    decided = control.simplify(node)
    return decided if decided is not None else _narrowed(node)


def decided_branches(node: Node) -> Sequence[Value] | None:
    """A branch whose condition is known is put in the node's place, and a loop without iterations removed."""
    return None if node.op.control is None else node.op.control.simplify(node)


def lists_in_sight(node: Node) -> Sequence[Value] | None:
    """What is taken out of a list whose elements are known is the element; what is split, and of known rank, is a list of its pieces."""
    if node.op is SPLIT:
        pieces = list_split.expand(node)
        return None if pieces is None else [pieces]
    return None if node.op.structure is None else node.op.structure.simplify(node)


def _narrowed(node: Node) -> Sequence[Value] | None:
    control = node.op.control
    assert control is not None
    captured = control.captured(node)
    if not captured:
        return None
    regions = node.regions
    if any(v.is_constant for v in captured):
        n = len(captured)
        regions = tuple(typed(r, (*r.params[: len(r.params) - n], *captured), None, constants=True) for r in regions)
    left = [v for v in captured if not v.is_constant]
    read = [any(r.params[len(r.params) - len(left) + k] in r.free_values() for r in regions) for k in range(len(left))]
    if len(left) == len(captured) and all(read):
        return None
    kept = [v for v, is_read in zip(left, read) if is_read]
    regions = tuple(_without(r, [not is_read for is_read in read]) for r in regions)
    at = control.captures_from(node)
    inputs = (*node.inputs[:at], *kept, *node.inputs[at + len(captured) :])
    return build(node.op, inputs, node.attrs, node.source, regions=regions).outputs


def _without(region: Function, dropped: Sequence[bool]) -> Function:
    own = len(region.params) - len(dropped)
    params = [p for k, p in enumerate(region.params) if k < own or not dropped[k - own]]
    return Function(
        params, region.results, region.name, region.result_names, checks=region.checks, failure=region.failure
    )
