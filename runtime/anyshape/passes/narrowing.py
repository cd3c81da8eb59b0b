"""Narrowing: both factors of every contraction of f32 are rounded to bf16, and summed up in f32 as before.

In: a schedule. Out: the schedule with such equations, and the nodes that have one. What a contraction is, says
`kernel_model/contractions.py`; nothing else is rounded. Factors that are floats of 16 bits in memory stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyshape.dtypes import F32
from anyshape.equations import Equation
from anyshape.equations.expr import Expr, Reduce, Var, apply, reduce_node
from anyshape.equations.traversal import replace_node, walk
from anyshape.graph.value import Node
from anyshape.kernel_model.contractions import EXPRESSIONS, ROUND, Contraction, as_stored, contraction_of
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, ScheduleStep, TableStep


def narrowed(schedule: Schedule, is_kept: Callable[[Node], bool] = lambda node: False) -> tuple[Schedule, list[Node]]:
    """The schedule with all its contractions of f32 narrowed, those of regions too, and the nodes in which there are any. Those of a node
    that `is_kept` stay as they are; it is asked once about each that has contractions."""
    pass_ = _Narrowing(is_kept)
    return pass_.of_schedule(schedule), [node for node, kept in pass_.nodes.items() if not kept]


class _Narrowing:
    def __init__(self, is_kept: Callable[[Node], bool]) -> None:
        self.is_kept = is_kept
        self.nodes: dict[Node, bool] = {}
        """Nodes with contractions, and whether these stay as they are."""

    def of_schedule(self, schedule: Schedule) -> Schedule:
        return replace(schedule, steps=tuple(map(self.of_step, schedule.steps)))

    def of_step(self, step: ScheduleStep) -> ScheduleStep:
        match step:
            case KernelStep():
                return self.of_kernel(step)
            case RegionStep():
                return replace(step, bodies=tuple(map(self.of_schedule, step.bodies)))
            case TableStep(kernel=KernelStep() as kernel):
                return replace(step, kernel=self.of_kernel(kernel))
        return step

    def of_kernel(self, step: KernelStep) -> KernelStep:
        return replace(step, equations=tuple(self.of_equation(q, step) for q in step.equations))

    def of_equation(self, q: Equation, step: KernelStep) -> Equation:
        equation = narrowed_equation(q)
        if equation is q:
            return q
        node = q.maker if isinstance(q.maker, Node) else step.nodes[0]
        if node not in self.nodes:
            self.nodes[node] = self.is_kept(node)
        return q if self.nodes[node] else equation


def narrowed_equation(q: Equation) -> Equation:
    """The equation with its contractions narrowed; the equation itself if it has none."""
    rounded: dict[Expr, Expr] = {}
    for c in contractions_of_f32(q.value):
        a, b = (apply(ROUND, replace_node(x, rounded)) for x in c.factors)
        rounded[c.term] = reduce_node("sum", c.summed, a * b, None, F32)
    return replace(q, value=replace_node(q.value, rounded)) if rounded else q


def contractions_of_f32(value: Expr) -> list[Contraction[Expr, Var]]:
    """The contractions of f32 in a value, those inside of others first."""
    sums = sorted((e for e in walk(value) if isinstance(e, Reduce) and e.dtype is F32), key=lambda e: e.serial)
    matched = (contraction_of(EXPRESSIONS, e) for e in sums)
    return [c for c in matched if c is not None and all(as_stored(EXPRESSIONS, x) is x for x in c.factors)]
