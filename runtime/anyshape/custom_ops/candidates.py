"""Which nodes of a model are tried as custom ops: sets that could be one node, grown from where our kernels took less time.

In: a model's graph, and what is one kernel here or in onnxruntime with the seconds of both. Out: sets of nodes, each connected, no path of
the graph leaving one and returning to it, in the order of the file.
"""

from __future__ import annotations

from collections import defaultdict
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
    chosen, grown = set(able), list[tuple[int, float]]()
    for nodes, ours, theirs in rows or []:
        group = nodes - graph.constants
        if group and group <= able and ours <= (1 - least) * theirs and partition.join(group):
            grown.append((min(group), theirs - ours))
        else:
            chosen -= group
    for producer, read_by in enumerate(partition.readers):
        for reader in sorted(read_by):
            if {producer, reader} <= chosen:
                partition.join((producer, reader))
    gains: dict[int, float] = defaultdict(float)
    for k, gain in grown:
        gains[partition.group_of[k]] += gain
    groups = sorted({partition.group_of[k] for k in chosen})
    return [frozenset(partition.members[g]) for g in groups if rows is None or gains[g] > CALL]
