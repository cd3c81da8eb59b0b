"""Fusion: which nodes share one kernel. Groups grow from producers to consumers, by the forms of equations and the dims of results.

A node joins the group of a producer when no other path leads from that group to the node (the groups stay acyclic) and
- it is elementwise over the group's own result (an epilogue), or
- the producer is only read here, and is a map that may be computed while it is read (a prologue): it moves data, or is elementwise
  over the node's domain, or is cheap.
A group holds at most one contraction, and then no other reduction; but for a contraction whose rows are reduced or normalised by a group,
and multiplied by the next contraction: the three run by blocks of rows, so that what is between them is never there as a whole (`kernel_model/rows.py`).
In the end groups whose contractions read one operand become one, side by side (`kernel_model/left_operand.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyshape.equations.dependencies import needed
from anyshape.equations.expr import Var
from anyshape.equations.recurrences import as_steps, without_units
from anyshape.errors import VerifyError
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.forms import Kind, classify, is_cheap, looks_up, puts_rows
from anyshape.kernel_model.left_operand import MOST_BESIDE, LeftOperand, left_operand
from anyshape.kernel_model.rows import by_rows, has_own_rows, multiplies_rows
from anyshape.passes.group_equations import GroupEquations, in_order
from anyshape.passes.groups import FusionGroup, Shape, sizes_of, waits_for
from anyshape.passes.parts import steps_of, takes_parts
from anyshape.passes.pieces import in_pieces
from anyshape.passes.simplify import viewed
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, Step, ViewStep, stands_alone
from anyshape.passes.walks import table_step

MAX_NODES = 40
"""A bound on the size of one kernel: code generation is linear in it, and registers are few."""


def fuse(f: Function) -> Schedule:
    """The steps of f in an order that respects what they need."""
    return _Fusion(f).run()


class _Fusion:
    def __init__(self, f: Function) -> None:
        self.f = f
        self.joint = GroupEquations()
        self.tensors, self.equations = self.joint.tensors, self.joint.equations
        self.group_of: dict[Node, FusionGroup] = {}
        self.groups: list[FusionGroup] = []
        self.readers: dict[Value, list[Node]] = {}
        self.results = set(f.results)
        self.sizes = sizes_of(f)
        for node in f.nodes:
            for v in node.inputs:
                if v is not None:
                    self.readers.setdefault(v, []).append(node)

    def run(self) -> Schedule:
        for node in self.f.nodes:
            if stands_alone(node):
                self.add_alone(node)
            else:
                self.add(node)
        self.put_side_by_side()
        steps: list[Step] = []
        placed: set[int] = set()
        for group in self.groups:
            self.place(group, steps, placed)
        return Schedule(self.f, tuple(steps))

    # --- growing groups ---

    def add_alone(self, node: Node) -> None:
        self.begin(node, FusionGroup(len(self.groups), Kind.MOVE, [node], ()))

    def begin(self, node: Node, group: FusionGroup) -> None:
        group.depend_on(dict.fromkeys(self.group_of[v.node] for v in waits_for(node, self.sizes) if v.node is not None))
        self.groups.append(group)
        self.group_of[node] = group

    def add(self, node: Node) -> None:
        ins, outs = tensors_of(node, self.tensors)
        stated = as_steps(equations_of(node, ins, outs).equations)
        equations = [replace(without_units(q), maker=node) for q in stated]
        self.equations[node] = equations
        group = FusionGroup(len(self.groups), classify(equations), [node], node.outputs[0].type.shape or ())
        group.equations = list(equations)
        group.apart = takes_parts(equations)
        self.begin(node, group)
        for v in self.candidates(node):
            assert v.node is not None
            self.try_chain(self.group_of[v.node], self.group_of[node], v, node)
            self.try_merge(self.group_of[v.node], self.group_of[node], v, node)
        for v in dict.fromkeys(self.data(node)):
            self.try_view(v, node)
        self.take_in_moves(self.group_of[node])

    def candidates(self, node: Node) -> list[Value]:
        """Data operands computed by kernels; contractions first, since a node can join only one."""
        data = [v for v in dict.fromkeys(self.data(node)) if v.node is not None]
        distinct = [v for v in data if v.node is not None and not self.is_alone(self.group_of[v.node])]
        return sorted(distinct, key=lambda v: v.node is None or self.group_of[v.node].kind is not Kind.CONTRACTION)

    def try_merge(self, producer: FusionGroup, consumer: FusionGroup, value: Value, node: Node) -> None:
        if producer is consumer or len(producer.nodes) + len(consumer.nodes) > MAX_NODES:
            return
        if self.is_alone(producer) or producer.apart or consumer.apart:
            return
        if not self.forms_fit(producer, consumer, value, node):
            return
        if not consumer.is_apart_from(producer) or self.sizes_from(producer, consumer):
            return
        if self.joint.fit_one_kernel([*producer.nodes, *consumer.nodes]):
            self.merge(producer, consumer)

    def try_view(self, value: Value, node: Node, moves: bool = False) -> None:
        """Fuses a map with the map that it reads through views; the views disappear."""
        views: list[Node] = []
        seen: Value | None = value
        while seen is not None and seen.node is not None and seen.node.op.view:
            views.append(seen.node)
            seen = viewed(seen.node)
        if not views or seen is None or seen.node is None:
            return
        producer, consumer = self.group_of[seen.node], self.group_of[node]
        groups = [self.group_of[n] for n in reversed(views)]
        if producer is consumer or any(len(g.nodes) > 1 for g in groups) or (moves and producer.kind is not Kind.MOVE):
            return
        if not self.view_fits(producer, consumer, seen, node, views) or self.sizes_from(producer, consumer):
            return
        if not consumer.is_apart_from(producer, groups):
            return
        if self.joint.fit_one_kernel([*producer.nodes, *views, *consumer.nodes]):
            for group in (*groups, producer):
                self.merge(group, consumer)

    def take_in_moves(self, group: FusionGroup) -> None:
        """A group that only moves elements and has several readers is fused with them once all of these are in one group."""
        if group.kind not in (Kind.MOVE, Kind.MAP) or len(group.nodes) == 1:
            return
        for node in list(group.nodes):
            for v in self.data(node) if not node.op.view else ():
                if len(self.readers[v]) > 1 and v.node is not None and self.group_of[v.node] is not group:
                    if v.node.op.view:
                        self.try_view(v, node, moves=True)
                    elif self.group_of[v.node].kind is Kind.MOVE:
                        self.try_merge(self.group_of[v.node], group, v, node)

    def view_fits(
        self, producer: FusionGroup, consumer: FusionGroup, value: Value, node: Node, views: Sequence[Node]
    ) -> bool:
        if {producer.kind, consumer.kind} - {Kind.MOVE, Kind.MAP} or producer.apart or consumer.apart:
            return False
        if self.is_alone(producer) or len(producer.nodes) + len(views) + len(consumer.nodes) > MAX_NODES:
            return False
        if (
            value.node is None
            or self.outputs_read(value.node) > 1
            or self.outputs_read(node) > 1
            or any(n.checks for n in views)
        ):
            return False
        inside = {*producer.nodes, *views, *consumer.nodes}
        hidden = [value, *(v for n in views for v in n.outputs)]
        if any(v in self.results or not inside.issuperset(self.readers.get(v, ())) for v in hidden):
            return False
        same = value.type.count() == node.outputs[0].type.count()
        return same or (is_cheap(producer.equations) and not looks_up(producer.equations))

    def try_chain(self, rows: FusionGroup, consumer: FusionGroup, value: Value, node: Node) -> None:
        """A contraction, rows of its result, and a contraction of those rows become one group."""
        kinds = rows.kind is Kind.ROW and consumer.kind is Kind.CONTRACTION
        if not kinds or rows.apart or consumer.apart or consumer.chained or not self.is_private(value, rows, consumer):
            return
        if not multiplies_rows(self.equations[node], self.tensors[value]):
            return
        scores = self.rows_of(rows, value)
        if scores is None or scores.node is None:
            return
        first = self.group_of[scores.node]
        if len(first.nodes) + len(rows.nodes) + len(consumer.nodes) > MAX_NODES:
            return
        if self.sizes_from(first, rows) or self.sizes_from(rows, consumer) or not rows.is_apart_from(first):
            return
        if first.needs(consumer) or not consumer.is_apart_from(rows):
            return
        if not self.joint.fit_one_kernel([*first.nodes, *rows.nodes, *consumer.nodes]):
            return
        self.merge(first, rows)
        self.merge(rows, consumer)
        consumer.chained = True

    def rows_of(self, rows: FusionGroup, value: Value) -> Value | None:
        """The result of a contraction of which the group computes its own, row by row, if nothing else reads it."""
        inputs = dict.fromkeys(
            v for n in rows.nodes for v in self.data(n) if v.node is not None and v.node not in rows.nodes
        )
        for v in inputs:
            assert v.node is not None
            products_group = self.group_of[v.node]
            same = products_group.kind is Kind.CONTRACTION and products_group.shape == v.type.shape == value.type.shape
            if same and not (products_group.chained or products_group.apart) and self.is_private(v, rows, rows):
                products = [
                    self.equations[n] for n in products_group.nodes if classify(self.equations[n]) is Kind.CONTRACTION
                ]
                if has_own_rows(products) and by_rows(rows.equations, self.tensors[v]):
                    return v
        return None

    def is_private(self, value: Value, producer: FusionGroup, consumer: FusionGroup) -> bool:
        """Whether only these two groups read the value."""
        return value not in self.results and all(
            self.group_of.get(r) in (producer, consumer) for r in self.readers[value]
        )

    @staticmethod
    def is_alone(group: FusionGroup) -> bool:
        return len(group.nodes) == 1 and stands_alone(group.nodes[0])

    def forms_fit(self, producer: FusionGroup, consumer: FusionGroup, value: Value, node: Node) -> bool:
        kinds = {producer.kind, consumer.kind}
        if Kind.CONTRACTION in kinds and (Kind.ROW in kinds or producer.kind is consumer.kind):
            return False
        if any(self.outputs_read(n) > 1 for n in (value.node, node) if n is not None):
            return False
        private = self.is_private(value, producer, consumer)
        same = consumer.kind in (Kind.MAP, Kind.MOVE) and self.same_domain(producer, consumer)
        if producer.kind is Kind.CONTRACTION:
            return (same and (consumer.kind is Kind.MAP or private)) or (private and self.stores_by_rows(node, value))
        if producer.kind is Kind.ROW:
            return same and consumer.kind is Kind.MAP
        if same and consumer.kind is Kind.MAP and producer.kind is Kind.MAP:
            return True
        return private and self.computed_as_read(producer, consumer, value, node)

    def computed_as_read(self, producer: FusionGroup, consumer: FusionGroup, value: Value, node: Node) -> bool:
        """Whether maps may be computed where the consumer, which alone reads them, does."""
        if consumer.kind is Kind.CONTRACTION:
            # a permutation or slice folds into strides, a move of an epilogue's operand too; gathers do not come here
            return producer.kind is Kind.MOVE and len(producer.nodes) == 1
        if consumer.kind is Kind.ROW:
            return producer.kind is Kind.MOVE or self.reads_once(node, value)
        return (
            producer.kind is Kind.MOVE or is_cheap(producer.equations) or value.type.shape == node.outputs[0].type.shape
        )

    def outputs_read(self, node: Node) -> int:
        """How many outputs of the node anything reads."""
        return sum(v in self.results or v in self.readers for v in node.outputs)

    def stores_by_rows(self, node: Node, value: Value) -> bool:
        """Whether the node only puts the value's rows elsewhere: every axis once, the last one staying last."""
        (q, *others) = self.equations[node]
        if others or not puts_rows(q, self.tensors[value]):
            return False
        # where its elements are found by no index of the value, it would have to be in memory first
        definition = self.equations[value.node][-1] if value.node in self.equations else q
        return all(isinstance(i, Var) for i in definition.index)

    def reads_once(self, node: Node, value: Value) -> bool:
        """Elementwise work before a row reduction: the rows are its own domain, so that nothing is computed twice per row pass."""
        return value.type.shape == self.widest(node)

    @staticmethod
    def widest(node: Node) -> Shape | None:
        shapes = [v.type.shape for v in node.inputs if v is not None and v.type.shape is not None]
        return max(shapes, key=len) if shapes else None

    @staticmethod
    def same_domain(producer: FusionGroup, consumer: FusionGroup) -> bool:
        return producer.shape == consumer.shape

    @staticmethod
    def sizes_from(producer: FusionGroup, consumer: FusionGroup) -> bool:
        """Whether elements of the producer may decide sizes of the consumer, which a kernel has to know before it starts."""
        operands = (v for n in consumer.nodes for v in n.param_operands)
        return any(v is not None and v.node in producer.nodes for v in operands)

    def merge(self, producer: FusionGroup, consumer: FusionGroup) -> None:
        """Moves every node of a group into its consumer, which is the later one in the order."""
        order = {Kind.MOVE: 0, Kind.MAP: 1, Kind.ROW: 2, Kind.CONTRACTION: 3}
        consumer.kind = max(producer.kind, consumer.kind, key=order.__getitem__)
        consumer.nodes = [*producer.nodes, *consumer.nodes]
        consumer.equations = [*producer.equations, *consumer.equations]
        consumer.chained = consumer.chained or producer.chained
        consumer.take_in(producer)
        for n in producer.nodes:
            self.group_of[n] = consumer
        producer.nodes = []

    # --- groups side by side ---

    def put_side_by_side(self) -> None:
        last: dict[LeftOperand, FusionGroup] = {}
        for group in self.groups:
            left = self.left_operand(group)
            if left is None:
                continue
            other = last.get(left)
            if other is not None and self.may_stand_beside(other, group):
                count = other.beside + 1
                self.merge(other, group)
                group.beside = count
            last[left] = group

    def left_operand(self, group: FusionGroup) -> LeftOperand | None:
        """Inputs of the group that other groups may read in the same kernel; no constants, since sharing those would share weights."""
        if group.kind is not Kind.CONTRACTION or group.chained or group.apart or not group.nodes:
            return None
        left = left_operand(group.equations)
        if left is None:
            return None
        values = (v for n in group.nodes for v in self.data(n) if self.tensors.get(v) is left.tensor)
        return left if all(v.constant is None for v in values) else None

    def may_stand_beside(self, first: FusionGroup, second: FusionGroup) -> bool:
        apart = not (first.needs(second) or second.needs(first))
        nodes = [*first.nodes, *second.nodes]
        few = first.beside < MOST_BESIDE and len(nodes) <= MAX_NODES
        return apart and few and self.joint.fit_one_kernel(nodes)

    # --- steps ---

    def place(self, group: FusionGroup, steps: list[Step], placed: set[int]) -> None:
        """Places groups depth first, as a group that a later node was merged into may need groups made after it."""
        stack, begun = [group], set[int]()
        while stack:
            top = stack[-1]
            if top.id in placed or not top.nodes:
                stack.pop()
                continue
            missing = [g for g in self.operands_of(top) if g.id not in placed]
            if missing:
                if top.id in begun:
                    raise VerifyError("fusion made groups that need each other")
                begun.add(top.id)
                stack += missing
                continue
            stack.pop()
            placed.add(top.id)
            steps += self.steps(top)

    def operands_of(self, group: FusionGroup) -> list[FusionGroup]:
        operands: dict[int, FusionGroup] = {}
        for n in group.nodes:
            for v in waits_for(n, self.sizes):
                if v.node is not None and self.group_of[v.node] is not group:
                    g = self.group_of[v.node]
                    operands[g.id] = g
        return list(operands.values())

    def steps(self, group: FusionGroup) -> list[Step]:
        if self.is_alone(group):
            (node,) = group.nodes
            if node.regions:
                return [RegionStep(node, tuple(fuse(r) for r in node.regions))]
            if not node.op.view:
                return [table_step(node, self.tensors)]
            source = node.grouped_inputs()[next(iter(node.op.view.values()))]
            assert isinstance(source, Value)
            return [ViewStep(node, source, node.outputs[0])]
        if group.apart:
            (node,) = group.nodes
            live = [v for v in node.outputs if v in self.results or v in self.readers]
            return [*steps_of(node, self.equations[node], self.tensors, live)]
        return [self.kernel(group)]

    def kernel(self, group: FusionGroup) -> KernelStep:
        inside = set(group.nodes)
        nodes = [n for n in in_order(group.nodes) if not n.op.view]
        inputs = dict.fromkeys(v for n in nodes for v in self.data(n) if v.node not in inside)
        outputs = [
            v
            for n in nodes
            for v in n.outputs
            if v in self.results or any(r not in inside for r in self.readers.get(v, ()))
        ]
        joined = self.joint.rewritten(group.nodes)
        assert joined is not None
        results = tuple(v for n in nodes for v in n.outputs)
        border = {v: joined.tensor(self.tensors[v]) for v in (*inputs, *results)}
        equations = joined.equations
        if any(n.op.view for n in group.nodes) or in_pieces(self.joint.of(nodes)):
            equations = tuple(needed(equations, [border[v] for v in outputs]))
        return KernelStep(tuple(nodes), equations, tuple(inputs), tuple(outputs), border, results)

    @staticmethod
    def data(node: Node) -> Sequence[Value]:
        return [v for v in node.data_inputs if v is not None]
