"""Narrowing: both factors of every contraction of f32 are rounded to bf16 or f16, and summed up as before.

In: a schedule. Out: the schedule with such equations, and the nodes that have one. What a contraction is, says
`kernel_model/contractions.py`; nothing else is rounded. Factors that are floats of 16 bits in memory stay as they are. A factor of f16 that
is an element of a constant becomes one of a constant of f16, which takes half the memory; where an operation rounds (`ROUNDINGS`) the
matrix product packs constants itself, and chooses how it adds up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np

from anyshape.dtypes import F16, F32
from anyshape.equations import Equation, Tensor
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Var, apply, cast, read, reduce_node
from anyshape.equations.traversal import replace_node, walk
from anyshape.graph.value import Node, Value, constant
from anyshape.kernel_model.contractions import (
    EXPRESSIONS,
    FACTOR_ROUNDINGS,
    Contraction,
    FactorRounding,
    as_stored,
    contraction_of,
)
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, ScheduleStep, TableStep
from anyshape.precision import Narrow


def narrowed(
    schedule: Schedule, precision: Narrow, is_kept: Callable[[Node], bool] = lambda node: False
) -> tuple[Schedule, list[Node]]:
    """The schedule with all its contractions of f32 narrowed, those of regions too, and the nodes in which there are any. Those of a node
    that `is_kept` stay as they are; it is asked once about each that has contractions."""
    pass_ = _Narrowing(precision, is_kept)
    return pass_.of_schedule(schedule), [node for node, kept in pass_.nodes.items() if not kept]


class _Narrowing:
    def __init__(self, precision: Narrow, is_kept: Callable[[Node], bool]) -> None:
        self.precision: Narrow = precision
        self.is_kept = is_kept
        self.nodes: dict[Node, bool] = {}
        """Nodes with contractions, and whether these stay as they are."""
        self.constants: dict[Value, Value] = {}
        """Constants of f16 in place of those of f32; several kernels may read one."""

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
        narrow = widened_in(step.equations)
        return self.with_narrow_constants(
            replace(step, equations=tuple(self.of_equation(q, step, narrow) for q in step.equations))
        )

    def with_narrow_constants(self, step: KernelStep) -> KernelStep:
        """The step that reads constants of f16 where it rounds elements of constants to these."""
        constants = {t: v for v, t in step.tensors.items() if v.constant is not None}
        own: dict[Tensor, Tensor] = {}
        reads: dict[Expr, Expr] = {}
        for e in (e for q in step.equations for e in walk(q.value)):
            x = e.args[0] if isinstance(e, Apply) and e.op == "cast" and e.dtype is F16 else None
            if isinstance(x, Read) and x.tensor in constants and x.dtype is F32:
                narrow = own.setdefault(x.tensor, replace(x.tensor, dtype=F16))
                reads[e] = read(narrow, x.index, None if x.outside is None else cast(x.outside, F16))
        if not reads:
            return step
        values = {t: self.narrow_constant(constants[t]) for t in own}
        equations = tuple(replace(q, value=replace_node(q.value, reads)) for q in step.equations)
        left = {e.tensor for q in equations for e in walk(q.value) if isinstance(e, Read)}
        gone = {constants[t] for t in own if t not in left}
        return replace(
            step,
            equations=equations,
            inputs=(*(v for v in step.inputs if v not in gone), *values.values()),
            tensors={
                **{v: t for v, t in step.tensors.items() if v not in gone},
                **{values[t]: narrow for t, narrow in own.items()},
            },
        )

    def narrow_constant(self, v: Value) -> Value:
        if v not in self.constants:
            assert v.constant is not None
            with np.errstate(over="ignore"):  # beyond the largest f16 is infinity
                self.constants[v] = constant(v.constant.astype(np.float16))
        return self.constants[v]

    def of_equation(self, q: Equation, step: KernelStep, narrow: Set[Tensor]) -> Equation:
        equation = narrowed_equation(q, self.precision, narrow)
        if equation is q:
            return q
        node = q.maker if isinstance(q.maker, Node) else step.nodes[0]
        if node not in self.nodes:
            self.nodes[node] = self.is_kept(node)
        return q if self.nodes[node] else equation


def widened_in(equations: Sequence[Equation]) -> frozenset[Tensor]:
    """The tensors of a kernel that are narrow numbers, moved, widened and scaled, as a product reads them."""
    narrow: set[Tensor] = set()
    times = Counter(q.target for q in equations)
    for q in equations:
        if times[q.target] == 1 and _is_narrow(q.value, narrow):
            narrow.add(q.target)
    return frozenset(narrow)


def _is_narrow(x: Expr, narrow: Set[Tensor]) -> bool:
    """Whether a factor is widened from fewer bits: itself, or what it reads, times a scale or not."""
    if isinstance(x, Apply) and x.op == "mul":
        return any(_is_narrow(y, narrow) and isinstance(z, Read) for y, z in (x.args, x.args[::-1]))
    return as_stored(EXPRESSIONS, x) is not x or (isinstance(x, Read) and x.tensor in narrow)


def narrowed_equation(q: Equation, precision: Narrow, narrow: Set[Tensor] = frozenset()) -> Equation:
    """The equation with its contractions narrowed; the equation itself if it has none. `narrow`: tensors that stay as they are."""
    rounded: dict[Expr, Expr] = {}
    for c in contractions_of_f32(q.value, narrow):
        a, b = (_rounded(replace_node(x, rounded), FACTOR_ROUNDINGS[precision]) for x in c.factors)
        rounded[c.term] = reduce_node("sum", c.summed, a * b, None, F32)
    return replace(q, value=replace_node(q.value, rounded)) if rounded else q


def _rounded(x: Expr, by: FactorRounding) -> Expr:
    return cast(cast(x, by.dtype), F32) if by.operation is None else apply(by.operation, x)


def contractions_of_f32(value: Expr, narrow: Set[Tensor] = frozenset()) -> list[Contraction[Expr, Var]]:
    """The contractions of f32 in a value, those inside of others first; none that multiplies what is in memory as fewer bits."""
    sums = sorted((e for e in walk(value) if isinstance(e, Reduce) and e.dtype is F32), key=lambda e: e.serial)
    matched = (contraction_of(EXPRESSIONS, e) for e in sums)
    return [c for c in matched if c is not None and not any(_is_narrow(x, narrow) for x in c.factors)]
