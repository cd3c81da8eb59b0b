"""What narrowing did, in words: names of nodes, and in what their contractions add up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from anyshape.graph.value import Node
from anyshape.precision import CHUNKED, Narrow
from anyshape.vm.report.causes import named

if TYPE_CHECKING:
    from anyshape.lower.target import Target


class NodeNames:
    """Names for nodes, which tell those apart that a model names alike: by a number behind the name, in the order in which they are asked
    for."""

    def __init__(self) -> None:
        self._names: dict[Node, str] = {}
        self._used: Counter[str] = Counter()

    def of(self, node: Node) -> str:
        if node not in self._names:
            name = named(node)
            self._used[name] += 1
            self._names[node] = name if self._used[name] == 1 else f"{name} #{self._used[name]}"
        return self._names[node]


def sums_of(precision: Narrow, target: Target | None) -> str:
    """Words for the numbers in which narrowed contractions add up on a target, or where they are interpreted."""
    if precision == CHUNKED and target is not None and target.halves:
        from anyshape.lower.gemm.pairs import CHUNK_OF_F16

        return f"of {2 * CHUNK_OF_F16} products in f16, and of these in f32"
    return "in f32"
