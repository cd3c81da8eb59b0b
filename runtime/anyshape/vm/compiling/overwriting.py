"""Arguments whose memory may be that of a result, where a caller says so by passing an argument as the destination of a result.

In: a schedule with its liveness and storages. Out: pairs (number of the result, number of the argument). A pair holds if one kernel
computes the result and may overwrite an operand of the same shape with it, if that operand is the argument, and if nothing reads the
argument later. So a cache of keys with room for more is not copied: only what is new is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anyshape.graph.value import Value
from anyshape.passes.steps import KernelStep, Schedule
from anyshape.vm.compiling.lifetimes import Storage
from anyshape.vm.compiling.liveness import Liveness


def overwrites(
    schedule: Schedule, liveness: Liveness, storages: Mapping[Value, Storage]
) -> tuple[tuple[int, int], ...]:
    """Finds the pairs of a program; results of control flow and of lists have none."""
    f = schedule.function
    numbers = {p: j for j, p in enumerate(f.params)}
    last_read = _last_reads(liveness)
    pairs = []
    for k, v in enumerate(f.results):
        storage = storages.get(v)
        if storage is None or storage.result != k or storage.value is not v:
            continue
        for p in _operands_overwritten(schedule, liveness, storage.start, v):
            if p in numbers and last_read.get(p) == storage.start and p not in f.results:
                pairs.append((k, numbers[p]))
    return tuple(pairs)


def _last_reads(liveness: Liveness) -> dict[Value, int]:
    """The last step that reads each value or a view of it."""
    last: dict[Value, int] = {}
    for at, values in liveness.reads.items():
        for v in values:
            origin = liveness.origin(v)
            last[origin] = max(last.get(origin, at), at)
    return last


def _operands_overwritten(schedule: Schedule, liveness: Liveness, at: int, v: Value) -> Iterator[Value]:
    """The operands of a kernel whose memory may be that of its output."""
    step, lowered = schedule.steps[at], liveness.lowered.get(at)
    if not isinstance(step, KernelStep) or lowered is None:
        return
    value_of = {step.tensors[i]: i for i in step.inputs}
    for to, source in lowered.overwrites:
        if to is step.tensors[v] and source in value_of:
            yield value_of[source]
