"""Sorts the nodes of a graph topologically; names that are produced twice, missing or cyclic are errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from anyshape.errors import ModelError
from anyshape.frontends.onnx.control import free_names
from anyshape.frontends.onnx.refusals import repairable


def spell_node(node: Any) -> str:
    """Spells a node by its operator, and its name or else its first output: Reshape 'encoder/Reshape_3'."""
    name = node.name or next((o for o in node.output if o), "")
    return f"{node.op_type} {name!r}" if name else str(node.op_type)


def sort_nodes(
    nodes: Sequence[Any],
    known: Collection[str],
    where: str,
    around: Collection[str] = frozenset(),
    results: Collection[str] = (),
) -> list[Any]:
    """Sorts nodes topologically, in the order of the file where that is possible. `known` are the names that exist before any node,
    `around` those of graphs around this one, `results` those that are read after the last node. A name that is not read may be produced
    twice."""
    producer = _producers(nodes, known, where, results)
    waiting: list[set[int]] = []
    users: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        needs = set()
        for name in _inputs(node):
            if name in producer:
                needs.add(producer[name])
            elif name not in known and name not in around:
                raise ModelError(f"{where}: {spell_node(node)} reads {name!r}, which nothing produces")
        waiting.append(needs)
        for p in needs:
            users.setdefault(p, []).append(k)
    ready = [k for k, needs in enumerate(waiting) if not needs]
    heapify(ready)
    order: list[int] = []
    while ready:
        k = heappop(ready)
        order.append(k)
        for u in users.get(k, ()):
            waiting[u].discard(k)
            if not waiting[u]:
                heappush(ready, u)
    if len(order) < len(nodes):
        _name_cycle(nodes, waiting, where)
    return [nodes[k] for k in order]


def _inputs(node: Any) -> list[str]:
    return free_names((node,))


def _producers(nodes: Sequence[Any], known: Collection[str], where: str, results: Collection[str]) -> dict[str, int]:
    producer: dict[str, int] = {}
    read: frozenset[str] | None = None
    repair = repairable("gives each reader the last value assigned before it")
    for k, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in producer or name in known:
                read = frozenset(free_names(nodes)).union(results) if read is None else read
                if name not in read:
                    continue
            if name in producer:
                first = spell_node(nodes[producer[name]])
                raise ModelError(f"{where}: {name!r} is produced twice, by {first} and by {spell_node(node)}{repair}")
            if name in known:
                raise ModelError(
                    f"{where}: {spell_node(node)} produces {name!r}, which is already an input or an initializer{repair}"
                )
            producer[name] = k
    return producer


def _name_cycle(nodes: Sequence[Any], waiting: list[set[int]], where: str) -> None:
    k = next(k for k, needs in enumerate(waiting) if needs)
    path: list[int] = []
    while k not in path:
        path.append(k)
        k = min(waiting[k])
    loop = [*path[path.index(k) :], k]
    raise ModelError(f"{where}: the graph has a cycle: " + ", which needs ".join(spell_node(nodes[i]) for i in loop))
