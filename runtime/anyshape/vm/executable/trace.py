"""Traces of calls in the Trace Event format of Chrome, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

In: calls of a profile. Out: data for JSON. A track has the whole calls, as users run them, on so many threads; another one the kernels of
each, timed one by one on one thread and drawn one after the other, without what is between them. Counters are the memory in use while a
kernel runs. Times are microseconds, exact to a nanosecond, so that slices of a track never overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anyshape.vm.run.recorder import Sample
from anyshape.wording import counted

if TYPE_CHECKING:
    from anyshape.vm.executable.profile import ProfiledCall

PROCESS, CALLS, KERNELS = 1, 1, 2
"""Numbers of the process and of its tracks."""
GAP = 1000
"""Nanoseconds between calls, at least."""
SHORTEST = 1
"""Nanoseconds of a kernel, at least: a slice of no length would be drawn within the next one, or outside of its call."""

Event = dict[str, Any]


def trace_of(title: str, calls: Sequence[ProfiledCall], threads: int) -> dict[str, Any]:
    """Makes the data of a trace, its events in the order of time."""
    return {
        "displayTimeUnit": "ns",
        "otherData": {"model": title, "threads": threads},
        "traceEvents": [*_names(title, threads), *sorted(_events(calls), key=lambda e: e["ts"])],
    }


def _names(title: str, threads: int) -> Iterator[Event]:
    tracks = {CALLS: f"calls, on {counted(threads, 'thread')}", KERNELS: "kernels, one by one on one thread"}
    yield {"ph": "M", "name": "process_name", "pid": PROCESS, "tid": 0, "args": {"name": title}}
    for track, name in tracks.items():
        yield {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": track, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": track, "args": {"sort_index": track}}


def _events(calls: Sequence[ProfiledCall]) -> Iterator[Event]:
    at = 0
    for k, call in enumerate(calls):
        lengths = [max(_nanoseconds(s.seconds), SHORTEST) for s in call.samples]
        whole, kernels = _nanoseconds(call.seconds), sum(lengths)
        work = {"operations": sum(s.operations for s in call.samples), "bytes": sum(s.moved for s in call.samples)}
        yield _slice(f"call {k}", "call", CALLS, at, whole, {"kernels": len(lengths), **work})
        yield _slice(f"kernels of call {k}", "call", KERNELS, at, kernels, {"kernels": len(lengths), **work})
        begin = at
        for s, length in zip(call.samples, lengths):
            yield _slice(s.name, "kernel", KERNELS, begin, length, _arguments(s))
            yield _counter(begin, s.in_use, s.results)
            begin += length
        yield _counter(begin, 0, 0)
        at += max(whole, kernels) + GAP


def _arguments(s: Sample) -> dict[str, Any]:
    """What a slice shows of a kernel: the ops in it with their names in the model, sizes, work."""
    ops = [n.source or n.op.full_name for n, _ in s.nodes]
    speed = {"GFLOP/s": s.operations / s.seconds / 1e9, "GB/s": s.moved / s.seconds / 1e9} if s.seconds else {}
    return {
        "ops": ops,
        "result": list(s.result),
        "dims": dict(s.sizes),
        "operations": s.operations,
        "bytes": s.moved,
        **{unit: round(n, 3) for unit, n in speed.items()},
    }


def _slice(name: str, kind: str, track: int, start: int, length: int, arguments: dict[str, Any]) -> Event:
    place = {"ph": "X", "pid": PROCESS, "tid": track, "ts": start / 1000, "dur": length / 1000}
    return {"name": name, "cat": kind, **place, "args": arguments}


def _counter(at: int, in_use: int, results: int) -> Event:
    values = {"intermediate values": in_use, "results": results}
    return {"ph": "C", "name": "memory in use (bytes)", "pid": PROCESS, "tid": 0, "ts": at / 1000, "args": values}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
