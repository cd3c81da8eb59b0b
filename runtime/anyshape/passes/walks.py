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
    equations = tuple(equations_of(node, ins, outs).equations)
    data = node.inputs[: len(node.inputs) - len(node.op.operands)]
    element = node.bound.walk.value
    inputs = tuple(dict.fromkeys(element if v is node.sequence else v for v in data if v is not None))
    border = {v: tensors[v] for v in (*inputs, *node.outputs)}
    return TableStep(node, KernelStep((node,), equations, inputs, node.outputs, border, node.outputs))
