"""Numbers the reads and stores of a kernel.

In: a resolved kernel. Out: its accesses in the order written; records of verdicts name them by their number.
"""

from __future__ import annotations

from anyshape_gen.model.analysis import ResolvedEquation, ResolvedKernel
from anyshape_gen.model.nodes import Node, TensorRead
from anyshape_gen.model.traverse import walk


def accesses(kernel: ResolvedKernel) -> list[Node]:
    """Lists all stores and reads of a kernel, in the order written: the left side of an equation before its reads."""
    nodes: list[Node] = []
    for node in (*kernel.unbacked, *kernel.equations, *kernel.asserts):
        if isinstance(node, ResolvedEquation):
            nodes.append(node.target)
        nodes += [n for n in walk(node) if isinstance(n, TensorRead)]
    return nodes
