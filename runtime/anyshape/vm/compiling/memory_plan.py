"""Memory plan of a program, made of the lifetimes and layouts that its code was generated from.

In: a schedule, lifetimes and layouts. Out: a `MemoryPlan`, for people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from anyshape.dims import Size
from anyshape.graph.value import Value
from anyshape.passes.steps import KernelStep, Schedule, step_name
from anyshape.types import TensorType
from anyshape.vm.compiling.arena_code import ArenaCode
from anyshape.vm.compiling.lifetimes import Lifetimes
from anyshape.vm.program.memory_plan import SCRATCH, Area, Inside, MemoryPlan


def memory_plan(
    schedule: Schedule, memory: Lifetimes, arena: ArenaCode, inside: Sequence[Inside], spelled: Callable[[Size], Size]
) -> MemoryPlan:
    """Makes the plan. `spelled` puts names of inputs into a size."""
    names = tuple(step_name(s) if isinstance(s, KernelStep) else s.node.op.name for s in schedule.steps)
    areas = []
    for ready, layout in arena.layouts.items():
        group = memory.groups[ready]
        contents = tuple(_described(values, spelled) for values in group.values)
        tenants = tuple(replace(t, bytes=spelled(t.bytes)) for t in group.tenants)
        areas.append(Area(arena.region_of[ready], tenants, contents, layout))
    return MemoryPlan(names, tuple(areas), tuple(inside))


def _described(values: Sequence[Value], spelled: Callable[[Size], Size]) -> str:
    """The first value of a place, and how many are written over it in turn."""
    if not values:
        return SCRATCH
    more = f", {len(values) - 1} more over it in turn" if len(values) > 1 else ""
    t = values[0].type
    return f"{TensorType(t.dtype, tuple(map(spelled, t.shape or ())))}{more}"
