"""Makes the steps of a schedule of groups: a kernel, the kernels of a node that takes several, a view, a region, an instruction.

In: the graph of groups, and the equations of their nodes. Out: steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anyshape.equations.dependencies import needed
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.passes.group_equations import GroupEquations, in_order
from anyshape.passes.group_graph import FusionGroup, GroupGraph
from anyshape.passes.parts import steps_of
from anyshape.passes.pieces import in_pieces
from anyshape.passes.simplify import viewed
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, ScheduleStep, ViewStep, stands_alone
from anyshape.passes.walks import table_step


@dataclass(frozen=True)
class GroupSteps:
    """`schedule`: makes the schedule of a region."""

    graph: GroupGraph
    stated: GroupEquations
    schedule: Callable[[Function], Schedule]

    def of(self, group: FusionGroup) -> list[ScheduleStep]:
        node = group.nodes[0]
        if len(group.nodes) == 1 and stands_alone(node):
            return [self.alone(node)]
        if group.apart:
            live = [v for v in node.outputs if v in self.graph.results or v in self.graph.readers]
            return [*steps_of(node, self.stated.equations[node], self.stated.tensors, live)]
        return [self.kernel(group)]

    def alone(self, node: Node) -> ScheduleStep:
        if node.regions:
            return RegionStep(node, tuple(self.schedule(r) for r in node.regions))
        source = viewed(node)
        return table_step(node, self.stated.tensors) if source is None else ViewStep(node, source, node.outputs[0])

    def kernel(self, group: FusionGroup) -> KernelStep:
        inside = set(group.nodes)
        nodes = [n for n in in_order(group.nodes) if not n.op.view]
        inputs = dict.fromkeys(v for n in nodes for v in n.data_inputs if v is not None and v.node not in inside)
        outputs = [v for n in nodes for v in n.outputs if self.graph.is_read_outside(v, inside)]
        joined = self.stated.rewritten(group.nodes)
        assert joined is not None
        results = tuple(v for n in nodes for v in n.outputs)
        border = {v: joined.tensor(self.stated.tensors[v]) for v in (*inputs, *results)}
        equations = joined.equations
        if any(n.op.view for n in group.nodes) or in_pieces(self.stated.of(nodes)):
            equations = tuple(needed(equations, [border[v] for v in outputs]))
        return KernelStep(
            nodes=tuple(nodes), equations=equations, inputs=tuple(inputs), outputs=tuple(outputs), tensors=border,
            results=results, joined_by=group.joined_by, apart_from={v: self.obstacle(v, nodes) for v in inputs if v.node is not None},
        )  # fmt: skip

    def obstacle(self, v: Value, nodes: Sequence[Node]) -> str:
        """Why what computes an input of a kernel is not in the kernel."""
        reasons = (self.graph.obstacles.get((v, n)) for n in nodes)
        return next((reason for reason in reasons if reason is not None), "no rule")
