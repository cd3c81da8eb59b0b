"""Places of the steps of a graph in a drawing: in rows by what a step waits for, and few columns. It takes linear time, but for a sort.

In: for each step those that it reads from. Out: a place for each.
"""

from __future__ import annotations

from collections.abc import Sequence

COLUMNS = 5
"""Steps beside each other, at most: a layer of more takes several rows."""
Place = tuple[float, int]
"""Column and row; columns are centred, from -(COLUMNS - 1) / 2 on."""


def places(sources: Sequence[Sequence[int]]) -> list[Place]:
    """Places steps below those that they read from, which come before them in the list."""
    depth = [0] * len(sources)
    layers: list[list[int]] = []
    for k, of in enumerate(sources):
        depth[k] = max((depth[j] + 1 for j in of), default=0)
        layers += [[] for _ in range(depth[k] + 1 - len(layers))]
        layers[depth[k]].append(k)
    placed: list[Place] = [(0.0, 0)] * len(sources)
    row = 0
    for layer in layers:
        middle_of = {k: sum(placed[j][0] for j in sources[k]) / max(len(sources[k]), 1) for k in layer}
        layer.sort(key=lambda k: (middle_of[k], k))
        for at in range(0, len(layer), COLUMNS):
            members = layer[at : at + COLUMNS]
            for k, column in zip(members, _apart([middle_of[k] for k in members])):
                placed[k] = (column, row)
            row += 1
    return placed


def _apart(ideal: Sequence[float]) -> list[float]:
    """Columns at least 1 apart, near to the ideal ones, which ascend."""
    columns: list[float] = []
    for c in ideal:
        columns.append(max(c, columns[-1] + 1) if columns else c)
    middle = sum(c - i for c, i in zip(columns, ideal)) / len(ideal)
    most, last = (COLUMNS - 1) / 2, len(columns) - 1
    return [min(max(c - middle, k - most), most - (last - k)) for k, c in enumerate(columns)]
