"""Schedule without fusion: one step per node, in the order of the function. For debugging (`compile(..., fuse=False)`) and as an oracle."""

from __future__ import annotations

from anyshape.equations import Tensor
from anyshape.errors import VerifyError
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.passes.parts import steps_of, takes_parts
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, ScheduleStep, ViewStep
from anyshape.passes.walks import table_step


def one_step_per_node(f: Function) -> Schedule:
    tensors: dict[Value, Tensor] = {}
    return Schedule(f, tuple(step for node in f.nodes for step in _steps(node, tensors)))


def _steps(node: Node, tensors: dict[Value, Tensor]) -> list[ScheduleStep]:
    if node.regions:
        return [RegionStep(node, tuple(one_step_per_node(r) for r in node.regions))]
    if node.op.structure is not None or node.sequence is not None:
        return [table_step(node, tensors)]
    if node.op.view:
        source = node.grouped_inputs()[next(iter(node.op.view.values()))]
        if not isinstance(source, Value):
            raise VerifyError(f"{node.op.full_name} is a view of an input that is not one tensor")
        return [ViewStep(node, source, node.outputs[0])]
    ins, outs = tensors_of(node, tensors)
    equations = tuple(equations_of(node, ins, outs).equations)
    if takes_parts(equations):
        return [*steps_of(node, equations, tensors, node.outputs)]
    data = node.data_inputs
    inputs = tuple(dict.fromkeys(v for v in data if v is not None))
    border = {v: tensors[v] for v in (*inputs, *node.outputs)}
    return [
        KernelStep(
            nodes=(node,),
            equations=equations,
            inputs=inputs,
            outputs=node.outputs,
            tensors=border,
            results=node.outputs,
        )
    ]
