"""The step of a node that goes through a list: its equations for one element, to be run for each."""

from __future__ import annotations

from collections.abc import MutableMapping

from anyshape.equations import Tensor
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import KernelStep, TableStep
from anyshape.types import TensorType


def table_step(node: Node, tensors: MutableMapping[Value, Tensor]) -> TableStep:
    """The step of a node that is instructions of the program; `tensors` are those of values, and get those of this one."""
    if node.sequence is None:
        return TableStep(node)
    ins, outs = tensors_of(node, tensors)
    stated = equations_of(node, ins, outs)
    stored = {tensors[v] for v in node.outputs}
    wide = {Value(TensorType(t.dtype, t.shape), t.name): t for t in stated.carried if t not in stored}
    tensors.update(wide)
    results = (*node.outputs, *wide)
    carried = {Value(v.type, "before"): v for v in results if tensors[v] in stated.carried}
    tensors.update((b, stated.carried[tensors[v]]) for b, v in carried.items())
    data = node.data_inputs
    element = node.bound.walk.value
    inputs = (*dict.fromkeys(element if v is node.sequence else v for v in data if v is not None), *carried)
    border = {v: tensors[v] for v in (*inputs, *results)}
    kernel = KernelStep(
        nodes=(node,),
        equations=tuple(stated.equations),
        inputs=inputs,
        outputs=results,
        tensors=border,
        results=results,
    )
    return TableStep(node, kernel, carried)
