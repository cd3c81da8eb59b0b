"""Imports Gradient of ai.onnx.preview.training: its attributes name tensors of the graph around it, its inputs are the point at which
the gradients are taken.

`y` is differentiated by each of `xs`; where an input is another tensor than the one that `xs` or `zs` names, the nodes between that
tensor and `y` are rebuilt on the input.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.expansion.gradient import gradients
from anyshape.frontends.onnx.node import Mapping, OnnxNode
from anyshape.graph.function import topological
from anyshape.graph.infer import rebuild
from anyshape.graph.value import Value
from anyshape.wording import counted


def gradient_1(n: OnnxNode) -> Sequence[Value]:
    names = [*n.attr("xs"), *(n.attr("zs") or ())]
    points = n.inputs()
    if len(points) != len(names):
        n.refuse(f"xs and zs name {counted(len(names), 'tensor')}, but the node has {counted(len(points), 'input')}")
    named = [n.named(name) for name in names]
    of = n.named(n.attr("y"))
    moved = {old: new for old, new in zip(named, points) if old is not new}
    if any(old.type.dtype is not new.type.dtype for old, new in moved.items()):
        n.refuse("an input has another dtype than the tensor that it replaces")
    return gradients(_substitute(of, moved), points[: len(n.attr("xs"))], n.source)


def _substitute(of: Value, moved: dict[Value, Value]) -> Value:
    """Rebuilds a value with others in place of some that it is computed from."""
    values = dict(moved)
    if of in values:
        return values[of]
    for node in topological([of], frozenset(v.node for v in moved if v.node is not None)) if moved else ():
        if any(v in values for v in node.inputs if v is not None):
            again = rebuild(node, [None if v is None else values.get(v, v) for v in node.inputs])
            values.update((old, new) for old, new in zip(node.outputs, again.outputs, strict=True) if old not in values)
    return values.get(of, of)


TRAINING: dict[str, dict[int, Mapping | None]] = {"ai.onnx.preview.training:Gradient": {1: gradient_1}}
