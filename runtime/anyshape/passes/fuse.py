"""Fusion: which nodes share one kernel. Groups grow from producers to consumers, by the rules of `fusion_rules.py`, in their order.

In: a function. Out: its schedule. Each node begins a group, which is tried with the groups of its operands at once, so that a node sees
all that is before it and nothing that is behind. For every rule, groups become one only if the graph of groups stays without cycles
(`group_graph.py`), no element that one computes decides a size of another, and their equations can be one kernel of bounded size
(`group_equations.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from anyshape.equations.orders import first_of_orders
from anyshape.equations.recurrences import as_steps, with_last_positions, without_units
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, flat, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.forms import KernelKind, classify
from anyshape.kernel_model.left_operand import LeftOperand, left_operand
from anyshape.passes.fusion_rules import RULES, Edge, Groups, RuleStage
from anyshape.passes.group_equations import GroupEquations
from anyshape.passes.group_graph import FusionGroup, GroupGraph
from anyshape.passes.group_steps import GroupSteps
from anyshape.passes.layouts import channels_last
from anyshape.passes.outputs_apart import outputs_apart
from anyshape.passes.parts import takes_parts
from anyshape.passes.steps import Schedule, stands_alone
from anyshape.passes.wide_factors import with_wide_factors

MAX_NODES = 40
"""A bound on the size of one kernel: code generation is linear in it, and registers are few."""
_RULES = {
    (when, p, c): tuple(r for r in RULES if r.when is when and p in r.producers and c in r.consumers)
    for when, p, c in product(RuleStage, KernelKind, KernelKind)
}


def fuse(f: Function) -> Schedule:
    """Orders the steps of f as their operands demand."""
    return _fused(outputs_apart(f))


def _fused(f: Function) -> Schedule:
    """Orders the steps of a function or a region of which all is final: code reads the results of a region itself."""
    fusion = _Fusion(f)
    fusion.grow()
    steps = GroupSteps(fusion.graph, fusion.stated, _fused)
    schedule = Schedule(f, tuple(step for group in fusion.graph.in_order() for step in steps.of(group)))
    return with_wide_factors(channels_last(schedule, fusion.stated))


class _Fusion:
    def __init__(self, f: Function) -> None:
        self.f = f
        self.graph = GroupGraph(f)
        self.stated = GroupEquations()

    def grow(self) -> None:
        groups = {node: self.group(node) for node in self.f.nodes}
        for node, group in groups.items():
            self.graph.begin(node, group)
            if not stands_alone(node):
                self.try_operands(node)
        self.try_side_by_side()

    def group(self, node: Node) -> FusionGroup:
        """The group that a node begins."""
        if stands_alone(node):
            return FusionGroup(nodes=[node])
        ins, outs = tensors_of(node, self.stated.tensors)
        steps = with_last_positions(as_steps(equations_of(node, ins, outs).equations), flat(outs))
        stated = first_of_orders(steps, flat(outs))
        equations = self.stated.equations[node] = [replace(without_units(q), maker=node) for q in stated]
        kind = classify(equations)
        return FusionGroup(
            nodes=[node], kind=kind, shape=node.outputs[0].type.shape or (), equations=list(equations),
            apart=takes_parts(equations), contractions=int(kind is KernelKind.CONTRACTION),
        )  # fmt: skip

    # --- what is tried ---

    def try_operands(self, node: Node) -> None:
        operands = {v: self.graph.group_of[v.node] for v in _data(node) if v.node is not None}
        computed = [v for v, group in operands.items() if not group.is_alone]
        for v in sorted(computed, key=lambda v: operands[v].kind is not KernelKind.CONTRACTION):
            self.apply(RuleStage.OPERAND, v, node)
        for v in operands:
            if v.node is not None and v.node.op.view:
                self.apply(RuleStage.VIEW, v, node)
        self.try_moves(self.graph.group_of[node])

    def try_moves(self, group: FusionGroup) -> None:
        """A group that only moves elements and has several readers is fused with them once all of these are in one group."""
        if group.kind not in (KernelKind.MOVE, KernelKind.MAP) or len(group.nodes) == 1:
            return
        for node in list(group.nodes):
            for v in _data(node) if not node.op.view else ():
                if len(self.graph.readers[v]) > 1 and v.node is not None and self.graph.group_of[v.node] is not group:
                    if v.node.op.view:
                        self.apply(RuleStage.VIEW, v, node, only_moves=True)
                    elif self.graph.group_of[v.node].kind is KernelKind.MOVE:
                        self.apply(RuleStage.OPERAND, v, node)

    def try_side_by_side(self) -> None:
        last: dict[LeftOperand, FusionGroup] = {}
        for group in self.graph.groups:
            operand = self.left_operand(group)
            if operand is None:
                continue
            left, v, node = operand
            if left in last:
                self.apply(RuleStage.END, v, node, last[left])
            last[left] = group

    def left_operand(self, group: FusionGroup) -> tuple[LeftOperand, Value, Node] | None:
        """What the group's contraction reads, and others may read in the same kernel; no constants, since sharing those would share
        weights."""
        if group.kind is not KernelKind.CONTRACTION or group.contractions > 1 or group.apart or not group.nodes:
            return None
        left = left_operand(group.equations)
        if left is None:
            return None
        values = [(v, n) for n in group.nodes for v in _data(n) if self.stated.tensors.get(v) is left.tensor]
        return (left, *values[0]) if values and all(v.constant is None for v, _ in values) else None

    # --- what holds for every rule ---

    def apply(
        self, when: RuleStage, v: Value, node: Node, producer: FusionGroup | None = None, only_moves: bool = False
    ) -> None:
        """Applies the first rule that fits an edge. `producer`: the group at its other end, if that is not the one of the value."""
        consumer = self.graph.group_of[node]
        if producer is None and v.node is not None:
            producer = self.graph.group_of[v.node]
        if producer is None or producer is consumer or consumer.is_alone:
            return
        rules = _RULES[when, producer.kind, consumer.kind]
        if not rules:
            return
        edge = Edge(graph=self.graph, stated=self.stated, value=v, node=node, producer=producer, consumer=consumer)
        refused: list[Groups] = []
        for rule in rules:
            groups = rule.joins(edge)
            if groups is None or groups in refused or (only_moves and groups[0].kind is not KernelKind.MOVE):
                continue
            obstacle = self.obstacle(groups)
            if obstacle is None:
                self.graph.merge(groups, rule.name)
                return
            self.graph.obstacles[v, node] = f"{rule.name}, but {obstacle}"
            refused.append(groups)

    def obstacle(self, groups: Groups) -> str | None:
        """Why the groups cannot be one kernel, whichever rule it would be by; None where they can."""
        nodes = [n for group in groups for n in group.nodes]
        if groups[0].is_alone or any(g.is_alone and not g.nodes[0].op.view for g in groups):
            return "a node takes several kernels"
        if len(nodes) > MAX_NODES:
            return f"they would have more than {MAX_NODES} nodes"
        if _decides_a_size(groups):
            return "elements of one decide a size of the other"
        if not self.graph.may_become_one(groups):
            return "a path leads from one to the other around them"
        return None if self.stated.fit_one_kernel(nodes) else "their equations are no single kernel, or a large one"


def _decides_a_size(groups: Groups) -> bool:
    """Whether elements of one group may decide sizes of a later one, which a kernel has to know before it starts."""
    for k, group in enumerate(groups[1:], 1):
        operands = [v.node for n in group.nodes if not n.op.view for v in n.param_operands if v is not None]
        if any(n in earlier.nodes for n in operands for earlier in groups[:k]):
            return True
    return False


def _data(node: Node) -> Iterable[Value]:
    return dict.fromkeys(v for v in node.data_inputs if v is not None)
