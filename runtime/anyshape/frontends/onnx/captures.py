"""Names that a node's subgraphs read from around them: which they are, and how to give them other names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def captured(node: Any) -> set[str]:
    """What the node's subgraphs read that they do not make."""
    found: set[str] = set()
    for graph in subgraphs(node):
        found |= _free(graph)
    return found


def subgraphs(node: Any) -> Iterator[Any]:
    for a in node.attribute:
        if a.HasField("g"):
            yield a.g
        yield from a.graphs


def _own(graph: Any) -> set[str]:
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own |= {s.values.name for s in graph.sparse_initializer}
    return own | {name for n in graph.node for name in n.output}


def _free(graph: Any) -> set[str]:
    read = {name for n in graph.node for name in (*n.input, *captured(n))} | {o.name for o in graph.output}
    return read - _own(graph) - {""}


def rename_captured(node: Any, called: Callable[[str], str]) -> None:
    """Changes the names that the node's subgraphs read from around them."""
    for graph in subgraphs(node):
        _rename(graph, called)


def _rename(graph: Any, called: Callable[[str], str]) -> None:
    own = _own(graph)

    def now(name: str) -> str:
        return name if name in own or not name else called(name)

    for n in graph.node:
        for k, name in enumerate(n.input):
            n.input[k] = now(name)
        rename_captured(n, now)
    for o in graph.output:
        o.name = now(o.name)
