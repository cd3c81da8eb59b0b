"""Counts what is in an ONNX model: nodes of each operator, and values whose shapes the file says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

_WORDS = {"min", "max", "select", "bcast", "and", "or", "not"}
"""Words that the text of a dim may hold besides names and numbers"""


@dataclass(frozen=True)
class Census:
    """Counts of a model: nodes by operator; `values`, the results of nodes; `shaped`, those of which the file says every dim as a number
    or as an expression of the inputs' dims (`unk__3` is neither); `static`, those of which every dim is a number."""

    nodes: Mapping[str, int]
    values: int
    shaped: int
    static: int

    @property
    def total(self) -> int:
        return sum(self.nodes.values())


def census(model: Any) -> Census:
    """Counts the nodes and values of the main graph; subgraphs and functions are left out."""
    graph = model.graph
    results = {name for node in graph.node for name in node.output if name}
    said = {i.name: _shape(i) for i in (*graph.value_info, *graph.output) if i.name in results}
    named = {d for i in graph.input for d in _shape(i) or () if isinstance(d, str)}
    shaped = [s for s in said.values() if s is not None and all(_is_known(d, named) for d in s)]
    static = [s for s in shaped if all(isinstance(n, int) for n in s)]
    return Census(Counter(node.op_type for node in graph.node), len(results), len(shaped), len(static))


def _is_known(d: int | str | None, named: Collection[str]) -> bool:
    if not isinstance(d, str):
        return d is not None
    return d in named or all(word in named or word in _WORDS for word in re.findall(r"[^\W\d]\w*", d))


def _shape(info: Any) -> list[int | str | None] | None:
    t = info.type.tensor_type
    if not t.HasField("shape"):
        return None
    return [int(d.dim_value) if d.HasField("dim_value") else d.dim_param or None for d in t.shape.dim]
