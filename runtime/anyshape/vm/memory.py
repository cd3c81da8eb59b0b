"""Which values share memory: lifetimes in, slots out.

A slot holds one value at a time. Values share a slot whenever their lifetimes are disjoint, whatever their dtypes and even where
their sizes are unequal symbols: max(a, b) <= a + b, so sharing never costs. Of several free slots the one of the same size is taken,
then one that is surely large enough, then one that surely is not larger (it grows), then any. A value whose size is known only
after the program began (`late`) gets a slot among its like, whose region grows when the size is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anyshape.dims import Size, nonneg


@dataclass(frozen=True, slots=True)
class Tenant:
    """A value that needs memory: its bytes, the step that writes it first and the last one that reads it."""

    bytes: Size
    start: int
    end: int
    late: bool = False


@dataclass(slots=True)
class Slot:
    """Memory of several values with disjoint lifetimes; `sizes` are the different sizes among them."""

    late: bool
    busy_until: int
    sizes: dict[Size, None] = field(default_factory=dict)


def plan_slots(tenants: Sequence[Tenant]) -> tuple[list[int], list[Slot]]:
    """(the slot of each tenant, the slots). No two tenants of one slot are alive at one step."""
    slots: list[Slot] = []
    chosen = [0] * len(tenants)
    for k in sorted(range(len(tenants)), key=lambda k: tenants[k].start):
        t = tenants[k]
        free = [i for i, s in enumerate(slots) if s.late == t.late and s.busy_until < t.start]
        if free:
            best = min(free, key=lambda i: _fit(slots[i], t.bytes))
        else:
            best = len(slots)
            slots.append(Slot(t.late, -1))
        slots[best].busy_until = t.end
        slots[best].sizes[t.bytes] = None
        chosen[k] = best
    return chosen, slots


def _fit(slot: Slot, size: Size) -> int:
    """The smaller the better."""
    if size in slot.sizes:
        return 0
    if any(nonneg(s - size) for s in slot.sizes):
        return 1
    return 2 if all(nonneg(size - s) for s in slot.sizes) else 3
