"""Gradient of ai.onnx.preview.training: its attributes name tensors of the graph around it, and its inputs say at which values.

`y` is differentiated by each of `xs`; where an input is another tensor than the one that `xs` or `zs` names, what `y` is made of
is made again from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.expansion.gradient import gradients
from anyshape.frontends.onnx.node import Mapping, OnnxNode
from anyshape.graph.function import topological
from anyshape.graph.infer import rebuild
from anyshape.graph.value import Value


def gradient_1(n: OnnxNode) -> Sequence[Value]:
    names = [*n.attr("xs"), *(n.attr("zs") or ())]
    given = n.inputs()
    if len(given) != len(names):
        n.refuse(f"xs and zs name {len(names)} tensors, and there are {len(given)} inputs")
    named = [n.named(name) for name in names]
    of = n.named(n.attr("y"))
    moved = {old: new for old, new in zip(named, given) if old is not new}
    if any(old.type.dtype is not new.type.dtype for old, new in moved.items()):
        n.refuse("an input is not of the dtype of the tensor that it stands for")
    return gradients(_made_from(of, moved), given[: len(n.attr("xs"))], n.source)


def _made_from(of: Value, moved: dict[Value, Value]) -> Value:
    """The value, with others in place of some that it is made of."""
    made = dict(moved)
    if of in made:
        return made[of]
    for node in topological([of], frozenset(v.node for v in moved if v.node is not None)) if moved else ():
        if any(v in made for v in node.inputs if v is not None):
            again = rebuild(node, [None if v is None else made.get(v, v) for v in node.inputs])
            made.update((old, new) for old, new in zip(node.outputs, again.outputs, strict=True) if old not in made)
    return made.get(of, of)


TRAINING: dict[str, dict[int, Mapping | None]] = {"ai.onnx.preview.training:Gradient": {1: gradient_1}}
