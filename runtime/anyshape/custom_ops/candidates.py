"""Which nodes of a model are tried as custom ops: sets that could be one node, grown from where our kernels took less time.

In: a model's graph, and what is one kernel here or in onnxruntime with the seconds of both. Out: sets of nodes, each connected, no path of
the graph leaving one and returning to it, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.custom_ops.partition import Partition
from anyshape.custom_ops.subgraphs import ModelGraph

CALL = 5e-6
"""Seconds that the call of a custom op takes besides its kernel, about: what gains less is not tried"""
Row = tuple[frozenset[int], float, float]
"""Nodes that are one kernel here or there, our seconds, onnxruntime's"""


def candidates(
    graph: ModelGraph, able: frozenset[int], rows: Sequence[Row] | None, least: float
) -> list[frozenset[int]]:
    """Finds the sets to try. `able` are the nodes that a custom op can compute; of these, rows grow together whose nodes took at least the
    share `least` less time here, and nodes that took none in either; without rows, all grow together. Nodes that read nothing are in no
    set."""
    partition = Partition(graph.readers())
    able -= graph.constants
    chosen = set(able)
    for nodes, ours, theirs in rows or []:
        group = nodes - graph.constants
        if group and not (group <= able and ours <= (1 - least) * theirs and partition.join(group)):
            chosen -= group
    for name_reads in ((k, graph.producer.get(name)) for k, names in enumerate(graph.reads) for name in sorted(names)):
        reader, producer = name_reads
        if producer is not None and {reader, producer} <= chosen:
            partition.join((producer, reader))
    gains = dict.fromkeys(range(len(graph.reads)), 0.0)
    for nodes, ours, theirs in rows or []:
        for k in list(nodes & chosen)[:1]:
            gains[partition.group_of[k]] += theirs - ours
    groups = sorted(g for g in {partition.group_of[k] for k in chosen} if rows is None or gains[g] > CALL)
    return [frozenset(partition.members[g]) for g in groups]
