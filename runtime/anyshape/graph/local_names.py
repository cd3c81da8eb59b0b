"""Names of dims that are first written inside a branch or a loop body: sizes of that region, which differ between iterations.

In: a node with regions that captures names which nothing outside has. Out: the node without these, each region reading the size off the
value at which it writes the name first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anyshape.dims import Facts
from anyshape.errors import UnsupportedError
from anyshape.graph.function import Function
from anyshape.graph.infer import build, rebuild
from anyshape.graph.matching import make
from anyshape.graph.value import Node, Value


def localised(node: Node, names: Mapping[Value, str], facts: Facts | None) -> Node:
    """`names`: the captured values that are names. Raises UnsupportedError for one that a sum or product alone tells."""
    for v in names:
        if getattr(v, "within", None) is not getattr(v, "dim", None):
            raise UnsupportedError(
                f"a name that is first written inside a region stands alone there, not as {getattr(v, 'within', '')}"
            )
    control = node.op.control
    assert control is not None
    captured, at = control.captured(node), control.captures_from(node)
    regions = []
    for r in node.regions:
        inner = r.params[len(r.params) - len(captured) :]
        regions.append(_own(r, {p: names[v] for p, v in zip(inner, captured, strict=True) if v in names}))
    kept = [v for v in captured if v not in names]
    inputs = (*node.inputs[:at], *kept, *node.inputs[at + len(captured) :])
    return build(node.op, inputs, node.attrs, node.source, facts, tuple(regions), node.count)


@dataclass(frozen=True, slots=True)
class _DimOfValue:
    """A dim of a value."""

    of: Value
    axis: int

    def size(self, mapped: Mapping[Value, Value], source: str) -> Value:
        of = mapped.get(self.of, self.of)
        return make("shape_of", [of], {"start": self.axis, "end": self.axis + 1}, source)


def _own(region: Function, names: Mapping[Value, str]) -> Function:
    """The region without the parameters that are names."""
    params = [p for p in region.params if p not in names]
    positions = _written(region, names)
    scope: dict[str, _DimOfValue] = {}
    mapped: dict[Value, Value] = {}
    for node in region.nodes:
        inner: dict[Value, str] = {}
        for v in node.inputs:
            if v is None or v not in names:
                continue
            if v in positions:
                scope.setdefault(names[v], positions[v])
            if names[v] in scope:
                mapped[v] = scope[names[v]].size(mapped, node.source)
            else:
                inner[v] = names[v]
        inputs = tuple(v if v is None else mapped.get(v, v) for v in node.inputs)
        rebuilt = localised(over(node, inputs), inner, None) if inner else rebuild(node, inputs)
        mapped.update(zip(node.outputs, rebuilt.outputs, strict=True))
    results = [mapped.get(v, v) for v in region.results]
    return Function(params, results, region.name, region.result_names, checks=region.checks, failure=region.failure)


def over(node: Node, inputs: tuple[Value | None, ...]) -> Node:
    """Copies a node with other operands, its types not inferred."""
    copy = Node(node.op, inputs, node.attrs, node.source, node.regions)
    copy.count = node.count
    return copy


def _written(region: Function, names: Mapping[Value, str]) -> dict[Value, _DimOfValue]:
    """Finds where the region itself writes each name: `match_shape` makes a vector of the required dims for one call that asserts them."""
    vectors: dict[Value, Value] = {}
    for node in region.nodes:
        for shape in node.param_operands if node.op.asserts_dims else ():
            x = node.inputs[0]
            assert shape is not None and x is not None
            vectors[shape] = x
    positions: dict[Value, _DimOfValue] = {}
    for node in region.nodes:
        if len(node.outputs) == 1 and node.outputs[0] in vectors:
            x = vectors[node.outputs[0]]
            positions.update((v, _DimOfValue(x, k)) for k, v in enumerate(node.inputs) if v is not None and v in names)
    return positions
