"""Memory plan of a call: a record kept beside a program's table, and executed by nothing.

In: layouts. Out: their places for any sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anyshape.dims import Size, maximum
from anyshape.vm.program.memory_layout import MemoryLayout, Tenant

SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Area:
    """Tenants laid out together in one region, and what each of them is."""

    region: int
    tenants: tuple[Tenant, ...]
    contents: tuple[str, ...]
    layout: MemoryLayout

    def places(self, sizes: Sequence[Size]) -> tuple[list[Size], Size]:
        """Returns (offsets, total) for sizes of the tenants."""
        offsets: list[Size] = [0] * len(sizes)
        ends: list[Size] = [0] * len(sizes)
        for k in self.layout.order:
            offsets[k] = maximum(0, *(ends[j] for j in self.layout.below[k]))
            ends[k] = offsets[k] + sizes[k]
        return offsets, maximum(0, *(ends[k] for k in self.layout.top))


@dataclass(frozen=True, slots=True)
class Held:
    """Memory that a loop keeps from iteration to iteration: `bytes` that one iteration makes, as often as there are iterations where it is
    collected."""

    what: str
    regions: tuple[int, ...]
    bytes: Size
    collected: bool = False


@dataclass(frozen=True, slots=True)
class Inside:
    """Memory of a body, laid out anew each time it runs and kept for the next time."""

    title: str
    plan: MemoryPlan
    held: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """`steps` are the steps' names; the other memory of a call is that of its results."""

    steps: tuple[str, ...]
    areas: tuple[Area, ...]
    inside: tuple[Inside, ...] = ()

    def sizes(self) -> Iterator[Size]:
        """Every size in the plan."""
        yield from (t.bytes for area in self.areas for t in area.tenants)
        for i in self.inside:
            yield from (h.bytes for h in i.held)
            yield from i.plan.sizes()
