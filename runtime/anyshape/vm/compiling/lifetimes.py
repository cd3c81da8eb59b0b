"""Lifetimes of values: which values of a schedule need memory of their own, and from which step to which. Memory plans are made of them.

In: a schedule and its liveness. Out: a `Storage` for every value that is computed, views sharing that of their base, and the
groups of tenants that are laid out together. A group is *ready* after the step that defines the last symbol in its sizes; that of the
entry, -1, holds all tenants whose sizes follow from the arguments, or that are laid out by their upper bounds. A kernel's result takes the
place of an operand that dies with it where the kernel permits that, and scratch is a tenant for one step.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np

from anyshape.dims import Size, free_symbols
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, TableStep
from anyshape.types import ListType
from anyshape.vm.compiling.liveness import Liveness
from anyshape.vm.compiling.size_bounds import at_most, upper_bounds
from anyshape.vm.program.memory_layout import Tenant, at_large_points, most_alive
from anyshape.vm.run.arena import SMALL

ENTRY = -1


@dataclass(eq=False, slots=True)
class Storage:
    """Memory of a value and all its views, from step `start` to step `end`. `address` is a register once the memory is emitted."""

    value: Value
    start: int
    end: int
    _: KW_ONLY
    address: int | None = None
    result: int | None = None
    """Number of the result that is computed in this memory, if there is one."""
    root: Storage = field(init=False)
    """The first of the storages that have the same place, one after the other."""
    place: TenantPlace | None = None
    elsewhere: bool = False
    """Whether code of control flow or of lists sets the address."""

    def __post_init__(self) -> None:
        self.root = self

    def take_over(self, old: Storage) -> None:
        """Takes the place of `old`, whose value dies."""
        self.root = old.root


@dataclass(frozen=True, slots=True)
class TenantPlace:
    """Place of a tenant: its group, by the step after which the group is ready, and its number there."""

    ready: int
    number: int


@dataclass(eq=False, slots=True)
class StorageGroup:
    """Tenants laid out together, with the values that live in each (none: scratch of the step)."""

    ready: int
    tenants: list[Tenant] = field(default_factory=list)
    values: list[tuple[Value, ...]] = field(default_factory=list)

    def add(self, tenant: Tenant, values: tuple[Value, ...]) -> TenantPlace:
        self.tenants.append(tenant)
        self.values.append(values)
        return TenantPlace(self.ready, len(self.tenants) - 1)

    @property
    def start(self) -> int:
        return min(t.start for t in self.tenants)

    @property
    def end(self) -> int:
        return max(t.end for t in self.tenants)


Occupancy = tuple[Tenant, tuple[Value, ...]]
"""A tenant, and the values that live in it"""


@dataclass(eq=False, slots=True)
class Lifetimes:
    storages: dict[Value, Storage]
    groups: dict[int, StorageGroup]
    scratch: dict[int, TenantPlace]
    """Places of kernels' scratch, by step."""


def lifetimes(
    schedule: Schedule,
    liveness: Liveness,
    bytes_of: Callable[[Value], Size],
    aligned: Callable[[Size], Size],
    direct: Container[int] | None = None,
) -> Lifetimes:
    """Computes storages and groups. `bytes_of` counts the bytes of a value's elements; `aligned` rounds up. `direct`: the results with
    places of their own, None for all."""
    storages = _storages(schedule, liveness, range(len(schedule.function.results)) if direct is None else direct)
    _take_over(schedule, liveness, storages, bytes_of)
    chains: dict[Storage, list[Storage]] = {}
    for s in dict.fromkeys(storages.values()):
        if s.result is None and not s.elsewhere:
            chains.setdefault(s.root, []).append(s)
    steps = [at for at in sorted(liveness.lowered) if liveness.lowered[at].scratch != 0]
    tenants = [
        *(
            (
                Tenant(aligned(bytes_of(c[0].value)), min(s.start for s in c), max(s.end for s in c)),
                tuple(s.value for s in c),
            )
            for c in chains.values()
        ),
        *((Tenant(aligned(liveness.lowered[at].scratch) * liveness.lowered[at].parts, at, at), ()) for at in steps),
    ]
    groups, places = _grouped(_at_bounds(tenants, schedule.function, liveness, bytes_of), liveness)
    for chain, place in zip(chains.values(), places):
        for s in chain:
            s.place = place
    return Lifetimes(storages, groups, dict(zip(steps, places[len(chains) :])))


def _grouped(tenants: Sequence[Occupancy], liveness: Liveness) -> tuple[dict[int, StorageGroup], list[TenantPlace]]:
    """Groups of tenants, and the place of each."""
    groups: dict[int, StorageGroup] = {}
    places = []
    for tenant, values in tenants:
        ready = _ready_after(tenant.bytes, liveness)
        places.append(groups.setdefault(ready, StorageGroup(ready)).add(tenant, values))
    return groups, places


def _ready_after(size: Size, liveness: Liveness) -> int:
    """The step that defines the last symbol of a size."""
    return max((liveness.defined_at.get(s, ENTRY) for s in free_symbols(size)), default=ENTRY)


def _at_bounds(
    tenants: Sequence[Occupancy], f: Function, liveness: Liveness, bytes_of: Callable[[Value], Size]
) -> Sequence[Occupancy]:
    """The tenants, those of later groups with the bytes that they have at most where that saves a region: a growth check in every call,
    and memory that grows from call to call.

    It must not be wasteful. A region that varies has `SMALL` bytes at least, so that as many cost nothing; beyond them, what is alive at
    once may become more by what the arguments take, however large these are: a call holds as much again at most."""
    most = upper_bounds(f, ENTRY, liveness.defined_at)
    if not most:
        return tenants
    ready = [_ready_after(tenant.bytes, liveness) for tenant, _ in tenants]
    bounded = [at_most(tenant.bytes, most) for tenant, _ in tenants]
    late = {at for at, n in zip(ready, bounded) if n is None or _ready_after(n, liveness) != ENTRY}
    moved = [
        (tenant if n is None or at in late else replace(tenant, bytes=n), values)
        for (tenant, values), at, n in zip(tenants, ready, bounded)
    ]
    before, after = (len({*regions_of(_grouped(w, liveness)[0]).values()}) for w in (tenants, moved))
    early = [(tenant, at == ENTRY) for (tenant, _), at in zip(moved, ready) if at not in late or at == ENTRY]
    if after >= before:
        return tenants
    argument_bytes = sum(
        (bytes_of(p) for p in f.params if not isinstance(p.type, ListType) and p.type.shape is not None), start=0
    )
    sizes = at_large_points([*(tenant for tenant, _ in early), Tenant(argument_bytes, 0, 0)], f.symbols())
    of_entry = [k for k, (_, is_entry) in enumerate(early) if is_entry]
    more = most_alive([t for t, _ in early], sizes[:-1]) - most_alive([early[k][0] for k in of_entry], sizes[of_entry])
    return moved if bool((more <= np.maximum(sizes[-1], SMALL)).all()) else tenants


def regions_of(groups: Mapping[int, StorageGroup]) -> dict[int, int]:
    """Numbers a region for every group. A region may lose its contents to a later group when none of its values is alive any more."""
    free_after: list[int] = []
    region_of: dict[int, int] = {}
    for ready in sorted(groups, key=lambda ready: (ready != ENTRY, groups[ready].start)):
        group = groups[ready]
        region = next((k for k, end in enumerate(free_after) if k > 0 and end < group.start), None)
        if region is None or ready == ENTRY:
            region = len(free_after) if ready == ENTRY else max(len(free_after), 1)
            free_after += [-1] * (region + 1 - len(free_after))
        free_after[region] = group.end
        region_of[ready] = region
    return region_of


def _storages(schedule: Schedule, liveness: Liveness, direct: Container[int]) -> dict[Value, Storage]:
    """Makes a storage for every value that a step computes, and marks those of results that can be computed in their place."""
    storages: dict[Value, Storage] = {}
    end = len(schedule.steps)
    for at, step in enumerate(schedule.steps):
        for v in liveness.reads.get(at, ()):
            if v in storages:
                storages[v].end = at
        if isinstance(step, KernelStep):
            for v in liveness.outputs.get(at, ()):
                storages[v] = Storage(v, at, at)
        elif isinstance(step, RegionStep):
            for v in liveness.outputs.get(at, ()):
                storages[v] = Storage(v, at, at, elsewhere=True)
        elif isinstance(step, TableStep):
            for v in liveness.outputs.get(at, ()):
                storages[v] = Storage(v, at, at, elsewhere=isinstance(v.type, ListType))
        elif at in liveness.steps and step.input in storages:
            storages[step.output] = storages[step.input]
    for k, v in enumerate(schedule.function.results):
        storage = storages.get(v)
        if storage is not None:
            storage.end = end
            if (
                storage.result is None
                and k in direct
                and not storage.elsewhere
                and _is_sized_by(v, storage.start, liveness)
            ):
                storage.result = k
    _keep_for_regions(schedule, liveness, storages)
    return storages


def _keep_for_regions(schedule: Schedule, liveness: Liveness, storages: dict[Value, Storage]) -> None:
    """Lengthens lifetimes of values that branches and loops read: their results may be the same memory."""
    for at, step in reversed(list(enumerate(schedule.steps))):
        if isinstance(step, RegionStep):
            end = max((storages[v].end for v in liveness.outputs.get(at, ())), default=at)
            for v in liveness.reads.get(at, ()):
                if v in storages:
                    storages[v].end = max(storages[v].end, end)


def _is_sized_by(v: Value, step: int, liveness: Liveness) -> bool:
    """Tests whether the dims of v have values before the step runs."""
    return all(liveness.defined_at.get(s, ENTRY) < step for s in v.type.symbols())


def _take_over(
    schedule: Schedule, liveness: Liveness, storages: dict[Value, Storage], bytes_of: Callable[[Value], Size]
) -> None:
    """Computes in place: an output gets the storage of an operand that no later step reads, and that the step reads once."""
    for at, step in enumerate(schedule.steps):
        if not isinstance(step, KernelStep) or at not in liveness.lowered:
            continue
        readers = [storages.get(v) for v in liveness.reads[at]]
        value_of = {step.tensors[v]: v for v in (*step.inputs, *liveness.outputs[at])}
        taken: set[Storage] = set()
        for to, source in liveness.lowered[at].reusable:
            new, old = storages.get(value_of[to]), storages.get(value_of[source])
            if new is None or old is None or new.root is not new or new.result is not None or old.result is not None:
                continue
            if old.elsewhere:
                continue
            dies = old.end == at and old not in taken and readers.count(old) == 1
            if dies and bytes_of(new.value) == bytes_of(old.value):
                new.take_over(old)
                taken.add(old)
