"""What is in an ONNX model, counted: nodes of each operator, and values whose shapes the file says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Census:
    """Of `values`, the results of nodes, `shaped` have a shape in the file, every dim a number or a name; in `static` all are numbers."""

    nodes: Mapping[str, int]
    values: int
    shaped: int
    static: int

    @property
    def total(self) -> int:
        return sum(self.nodes.values())


def census(model: Any) -> Census:
    """Of the graph itself; subgraphs and functions are not looked into."""
    graph = model.graph
    made = {name for node in graph.node for name in node.output if name}
    shapes = [_shape(i) for i in (*graph.value_info, *graph.output) if i.name in made]
    shaped = [s for s in shapes if s is not None and None not in s]
    static = [s for s in shaped if all(isinstance(n, int) for n in s)]
    return Census(Counter(node.op_type for node in graph.node), len(made), len(shaped), len(static))


def _shape(info: Any) -> list[int | str | None] | None:
    t = info.type.tensor_type
    if not t.HasField("shape"):
        return None
    return [int(d.dim_value) if d.HasField("dim_value") else d.dim_param or None for d in t.shape.dim]
