"""The step of a node that goes through a list: its equations for one element, to be run for each."""

from __future__ import annotations

from collections.abc import MutableMapping

from anyshape.equations import Tensor
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import KernelStep, TableStep


def table_step(node: Node, tensors: MutableMapping[Value, Tensor]) -> TableStep:
    """The step of a node that is instructions of the program; `tensors` are those of values, and get those of this one."""
    if node.sequence is None:
        return TableStep(node)
    ins, outs = tensors_of(node, tensors)
    stated = equations_of(node, ins, outs)
    carried = {Value(v.type, "before"): v for v in node.outputs if tensors[v] in stated.carried}
    tensors.update((b, stated.carried[tensors[v]]) for b, v in carried.items())
    data = node.data_inputs
    element = node.bound.walk.value
    inputs = (*dict.fromkeys(element if v is node.sequence else v for v in data if v is not None), *carried)
    border = {v: tensors[v] for v in (*inputs, *node.outputs)}
    kernel = KernelStep(
        nodes=(node,),
        equations=tuple(stated.equations),
        inputs=inputs,
        outputs=node.outputs,
        tensors=border,
        results=node.outputs,
    )
    return TableStep(node, kernel, carried)
