"""Nodes of several outputs, before fusion: one that only moves elements becomes a node for each output.

In: a function. Out: one in which each part of a split, say, is computed where it is read, as a slice is. Otherwise a node of which several
outputs are read is a kernel of its own, which copies all of its operand.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.forms import KernelKind, classify
from anyshape.passes.rewriting import rewrite

MOST = 8
"""Outputs that a node may have: the equations of each of its copies are those of all."""


def outputs_apart(f: Function) -> Function:
    """f with a node for each output of a node that only moves elements."""
    return rewrite(f, (_OutputsApart(),)) if _has_any(f) else f


def _has_any(f: Function) -> bool:
    """Whether there is such a node in a function or in its regions."""
    return any(_only_moves(n) or any(map(_has_any, n.regions)) for n in f.nodes)


class _OutputsApart:
    def __init__(self) -> None:
        self.copies: set[Node] = set()

    def __call__(self, node: Node) -> Sequence[Value] | None:
        if node in self.copies or not _only_moves(node):
            return None
        return [self.copied(node).outputs[k] for k in range(len(node.outputs))]

    def copied(self, node: Node) -> Node:
        """Copies a call; what was inferred of it holds of the copy."""
        copy = Node(node.op, node.inputs, node.attrs, node.source)
        copy.count, copy.bound, copy.dtypes = node.count, node.bound, node.dtypes
        copy.outputs = tuple(
            Value(v.type, v.name, node=copy, index=k, contents=v.contents) for k, v in enumerate(node.outputs)
        )
        self.copies.add(copy)
        return copy


def _only_moves(node: Node) -> bool:
    """Whether each of several outputs is one equation that moves elements, and nothing is checked."""
    untyped = node.bound is None or node.op.kernel is None or any(v.type.shape is None for v in node.outputs)
    if not 1 < len(node.outputs) <= MOST or untyped or node.checks or node.sequence is not None:
        return False
    stated = equations_of(node, *tensors_of(node)).equations
    return len(stated) == len(node.outputs) and all(classify([q]) is KernelKind.MOVE for q in stated)
