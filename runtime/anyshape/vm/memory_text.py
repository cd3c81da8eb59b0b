"""The memory plan for people: what lies where from which step to which, with symbolic sizes, and the total as a formula.

In: an executable. Out: text. The plan of a program is kept beside its table and executed by nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyshape.dims import Size, evaluate, free_symbols, maximum
from anyshape.passes.steps import KernelStep, Schedule
from anyshape.vm.memory import Layout, Tenant

if TYPE_CHECKING:
    from anyshape.vm.arena_code import ArenaCode
    from anyshape.vm.executable import Executable
    from anyshape.vm.lifetimes import Lifetimes
    from anyshape.vm.need import Need


@dataclass(frozen=True, slots=True)
class Area:
    """Tenants laid out together in one region, and what each of them is."""

    region: int
    tenants: tuple[Tenant, ...]
    contents: tuple[str, ...]
    layout: Layout

    def ends(self) -> tuple[list[Size], list[Size]]:
        """(offsets, ends) of the tenants."""
        offsets: list[Size] = [0] * len(self.tenants)
        ends: list[Size] = [0] * len(self.tenants)
        for k in self.layout.order:
            offsets[k] = maximum(0, *(ends[j] for j in self.layout.below[k]))
            ends[k] = offsets[k] + self.tenants[k].bytes
        return offsets, ends

    def total(self) -> Size:
        ends = self.ends()[1]
        return maximum(0, *(ends[k] for k in self.layout.top))


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """`steps` are the steps' names; the other memory of a call is that of its results."""

    steps: tuple[str, ...]
    areas: tuple[Area, ...]


def memory_plan(schedule: Schedule, need: Need, memory: Lifetimes, arena: ArenaCode) -> MemoryPlan:
    from anyshape.vm.kernels import step_name

    names = tuple(step_name(s) if isinstance(s, KernelStep) else s.node.op.name for s in schedule.steps)
    tensors = {v: t for s in schedule.steps if isinstance(s, KernelStep) for v, t in s.tensors.items()}
    areas = []
    for ready, layout in arena.layouts.items():
        group = memory.groups[ready]
        contents = tuple(
            ", then ".join(f"{v.name or tensors[v].name}: {v.type}" for v in values) or "scratch"
            for values in group.values
        )
        areas.append(Area(arena.region_of[ready], tuple(group.tenants), contents, layout))
    return MemoryPlan(names, tuple(areas))


def memory_text(executable: Executable, dims: Mapping[str, int] | None = None) -> str:
    """The plans of the programs compiled so far; with `dims`, by name of symbol, in numbers too."""
    texts = []
    for p in executable.plan.programs:
        if p.memory is None:
            texts.append(f"memory of {p.name}: not kept in a saved model")
        else:
            texts.append("\n".join([f"memory of {p.name}:", *_lines(p.memory, dims or {})]))
    return "\n\n".join(texts)


def _lines(plan: MemoryPlan, dims: Mapping[str, int]) -> list[str]:
    if not plan.areas:
        return ["  none but the results"]
    lines = []
    for area in plan.areas:
        total = area.total()
        kept = sum(c != "scratch" for c in area.contents)
        lines.append(
            f"  region {area.region}, {kept} values and {len(area.contents) - kept} scratches in {_sized(total, dims)}"
        )
        offsets = area.ends()[0]
        for k in sorted(range(len(area.tenants)), key=lambda k: (area.tenants[k].start, area.tenants[k].end)):
            t = area.tenants[k]
            steps = f"{t.start}" if t.start == t.end else f"{t.start}-{t.end}"
            by = plan.steps[t.start] if t.start < len(plan.steps) else ""
            lines.append(
                f"    step {steps:>9}  at {_sized(offsets[k], dims)}: {_sized(t.bytes, dims)}  {by}: {area.contents[k]}"
            )
    return lines


def _sized(e: Size, dims: Mapping[str, int]) -> str:
    """An expression, and its value where `dims` has all its symbols."""
    if isinstance(e, int):
        return f"{e:,}" if dims else str(e)
    values = {s: dims[str(s)] for s in free_symbols(e) if str(s) in dims}
    return f"{e} = {evaluate(e, values):,}" if len(values) == len(free_symbols(e)) else str(e)
