"""Groups of the nodes of a graph, each of which can become one node.

In: which nodes read each node's results. Out: groups that nodes are joined into as long as no path leaves a group and returns to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


class Partition:
    """Nodes by their places, at first each in a group of its own; between groups there is never a cycle."""

    def __init__(self, readers: Sequence[Collection[int]]) -> None:
        self.readers = readers
        self.group_of = list(range(len(readers)))
        self.members = {k: {k} for k in range(len(readers))}

    def join(self, nodes: Iterable[int]) -> bool:
        """Joins the groups of nodes. Returns False, and changes nothing, where a path leads from them through another group back."""
        groups = {self.group_of[k] for k in nodes}
        if self._returns(groups):
            return False
        first, *more = sorted(groups)
        for g in more:
            for k in self.members[g]:
                self.group_of[k] = first
            self.members[first] |= self.members.pop(g)
        return True

    def _next(self, group: int) -> set[int]:
        return {self.group_of[r] for k in self.members[group] for r in self.readers[k]} - {group}

    def _returns(self, groups: set[int]) -> bool:
        if len(groups) == 1:
            return False
        seen = {n for g in groups for n in self._next(g)} - groups
        waiting = [*seen]
        while waiting:
            for g in self._next(waiting.pop()):
                if g in groups:
                    return True
                if g not in seen:
                    seen.add(g)
                    waiting.append(g)
        return False
