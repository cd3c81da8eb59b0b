"""Renames the values that the subgraphs of a node capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyshape.frontends.onnx.control import captured_names, subgraphs


def rename_captured(node: Any, called: Callable[[str], str]) -> None:
    """Renames in place what the subgraphs of a node capture."""
    for graph in subgraphs(node):
        around = {name: called(name) for name in captured_names(graph)}
        _rename(graph, around)


def _rename(graph: Any, around: Mapping[str, str]) -> None:
    for n in graph.node:
        for k, name in enumerate(n.input):
            n.input[k] = around.get(name, name)
        rename_captured(n, lambda name: around.get(name, name))
    for o in graph.output:
        o.name = around.get(o.name, o.name)
