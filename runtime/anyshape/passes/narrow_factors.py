"""Constant columns of contractions that were folded from narrower constants are read as these: a quarter or half of the bytes.

In: a schedule. Out: the schedule in which such a kernel has the equations that the constant was folded from, of one call or of several,
which only widen, move and scale; the matrix product widens what it reads, and multiplies its sums by the scales. Where a call is folded
nobody knows yet who reads its result; and what no contraction widens is better computed once, when the model is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyshape.equations import Equation, Tensor
from anyshape.equations.expr import Read, Reduce
from anyshape.equations.recurrences import without_units
from anyshape.equations.traversal import walk
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape.kernel_model.contractions import EXPRESSIONS, QuantisationConstants, contraction_of
from anyshape.kernel_model.forms import reads_as_columns, widens
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, ScheduleStep
from anyshape.passes.wide_factors import MOST_BYTES


def with_narrow_factors(schedule: Schedule) -> Schedule:
    """The schedule of which contractions widen constant columns as they read them."""
    return replace(schedule, steps=tuple(map(_of_step, schedule.steps)))


def _of_step(step: ScheduleStep) -> ScheduleStep:
    match step:
        case KernelStep():
            return _of_kernel(step)
        case RegionStep():
            return replace(step, bodies=tuple(map(with_narrow_factors, step.bodies)))
    return step


def _of_kernel(step: KernelStep) -> KernelStep:
    for v in step.inputs:
        if v.constant is not None and v.constant.nbytes > MOST_BYTES and _is_factor(step.equations, step.tensors[v]):
            step = _with_calls(step, v)
    return step


def _is_factor(equations: Sequence[Equation], t: Tensor) -> bool:
    """Whether a tensor is read once, as the columns of a contraction, and as it is."""
    sums = (e for q in equations for e in walk(q.value) if isinstance(e, Reduce))
    products = (p for e in sums if (p := contraction_of(EXPRESSIONS, e)) is not None)
    bare = any(isinstance(x, Read) and x.tensor is t and x.outside is None for p in products for x in p.factors)
    return bare and reads_as_columns(equations, t)


def _with_calls(step: KernelStep, v: Value) -> KernelStep:
    """The kernel with the calls that a constant was folded from, if these read fewer bytes and the product can do what they do."""
    calls = _calls(v)
    if not calls or v.constant is None or any(len(node.outputs) != 1 for node in calls):
        return step
    results = tuple(node.outputs[0] for node in calls)
    operands = dict.fromkeys(u for node in calls for u in node.data_inputs if u is not None and u not in results)
    tensors = {u: t for u, t in step.tensors.items() if u is not v} | {results[-1]: step.tensors[v]}
    stated = [
        replace(without_units(q), maker=node)
        for node in calls
        for q in equations_of(node, *tensors_of(node, tensors)).equations
    ]
    constants = {tensors[u]: u.constant for u in operands if u.constant is not None}
    fewer = sum(a.nbytes for a in constants.values()) < v.constant.nbytes
    if not fewer or not widens(stated, QuantisationConstants.among(constants)):
        return step
    return replace(
        step,
        nodes=(*calls, *step.nodes),
        equations=(*stated, *step.equations),
        inputs=tuple(dict.fromkeys((*(u for u in step.inputs if u is not v), *operands))),
        tensors=tensors,
        results=(*results, *step.results),
    )


def _calls(v: Value) -> list[Node]:
    """The calls that a constant was folded from, down to constants, in the order in which they are computed."""
    calls: list[Node] = []
    node = v.folded
    while node is not None:
        calls.append(node)
        node = next((u.node for u in node.data_inputs if u is not None and u.node is not None), None)
    return calls[::-1]
