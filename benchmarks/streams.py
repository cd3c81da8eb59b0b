"""What is measured of a model: calls at one shape after another, calls in a shuffled stream of shapes, first calls at a new shape.

In: runners, each an engine over one model and its calls, here or in a process of its own (`workers.py`). Out: seconds. Runners take turns,
so that whatever else the machine does, it does to all; a turn begins with calls that do not count, until caches and threads are awake.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from benchmarks.engines import Engine
from benchmarks.models import Arrays
from benchmarks.patience import PATIENCE, known, quiet

Shape = tuple[int, int]
Times = dict[str, dict[Shape, list[float]]]
"""Seconds of each call by engine and shape, or of a batch of calls divided by their number."""
Surplus = dict[str, dict[Shape, list[float]]]
"""Time of a call over that of later ones of the same engine, by engine and shape, for each engine that was made."""

WARM_SECONDS = 0.004
"""Seconds of calls at the beginning of a turn: longer than threads need to wake, and caches to fill."""
BATCH_SECONDS = 0.002
"""Shorter than the turn that a scheduler gives, so that some batches see no other process."""
TURN_SECONDS = 0.01
"""Seconds of batches in a turn."""
FIRST_SECONDS = 8.0
"""Seconds of first calls of one engine, those of making it among them, after which they are not measured again if their medians are
known."""
ROUNDS, PASSES, ANEW = (2, 400), (8, 400), (1, 25)
"""The least and the most of each, whatever the time; the most of `ANEW`, too, counts only where the medians are known."""
DOUBTFUL = 12
"""Engines made at least while the medians are not known, however long they take: of the five that 32 seconds allow bert_base the median
at 1x7 was 1.25 in one run, and below 1.04 in the next (`python -m benchmarks.models_bench bert_base --json FILE`)."""
LATER = 3
"""Passes after those of first and of second calls, which are compared with the median of these."""
DATA = 2 + LATER
"""Calls at a shape that differ in their data, one for each pass."""


class Runner(Protocol):
    """An engine, wherever it lives, with the calls to measure."""

    name: str

    def turn(self, shape: Shape) -> list[float]:
        """Seconds of a call at the shape, by batches of equal calls."""

    def stream(self, order: Sequence[Shape]) -> list[float]:
        """Seconds of one call at each of the shapes, one after the other."""

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        """Makes the engine anew, and measures seconds of a call at each shape but the first, in that order, again and again, with other
        data."""


class Local:
    """An engine of this process."""

    def __init__(self, make: Callable[[], Engine], calls: Mapping[Shape, Sequence[Arrays]]) -> None:
        """`calls`: at each shape one, or several that differ in their data."""
        self._make, self._calls = make, calls
        self._engines_begun = 0
        self._engine = make()
        self.name, self.seconds = self._engine.name, self._engine.seconds

    def late(self) -> int | None:
        """Kernels compiled since the first call, for who tells."""
        return self._engine.late()

    def results(self, arguments: Arrays) -> list[Any]:
        return list(self._engine.run(arguments))

    def turn(self, shape: Shape) -> list[float]:
        arguments = self._calls[shape][0]
        repeats = max(1, int(BATCH_SECONDS / max(self._warm(self._engine, arguments), 1e-7)))
        seconds: list[float] = []
        end = time.perf_counter() + TURN_SECONDS
        while not seconds or time.perf_counter() < end:
            seconds.append(_seconds(self._engine, arguments, repeats))
        return seconds

    def stream(self, order: Sequence[Shape]) -> list[float]:
        self._warm(self._engine, self._calls[order[-1]][0])
        return [_seconds(self._engine, self._calls[s][0]) for s in order]

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        return self._passes(self._make(), order, lambda a: a.copy())

    def first_of_process(self, order: Sequence[Shape]) -> list[list[float]]:
        """Measures what `first` does on the engine that this was made with, which should not have been called yet. Nothing is copied, and
        what making the arguments left behind goes back to the system: results would find that memory."""
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
        return self._passes(self._engine, order, lambda a: a)

    def _passes(self, engine: Engine, order: Sequence[Shape], own: Callable[[Any], Any]) -> list[list[float]]:
        self._engines_begun += 1
        passes = []
        for k in range(self._engines_begun, self._engines_begun + 2 + LATER):
            data = [self._calls[s][k % len(self._calls[s])] for s in order]
            calls = _once_warm(data[0], data[1:])
            seconds = [_seconds(engine, {n: own(a) for n, a in arguments.items()}) for arguments in calls]
            passes.append(seconds[len(seconds) - len(order) + 1 :])
        return passes

    @staticmethod
    def _warm(engine: Engine, arguments: Arrays) -> float:
        """Seconds of the last of some calls."""
        end = time.perf_counter() + WARM_SECONDS
        last = _seconds(engine, arguments)
        while time.perf_counter() < end:
            last = _seconds(engine, arguments)
        return last


def _seconds(engine: Engine, arguments: Arrays, repeats: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        engine.run(arguments)
    return (time.perf_counter() - started) / repeats


def _once_warm(first: Arrays, rest: Sequence[Arrays]) -> Iterator[Arrays]:
    """The first again and again until caches and threads are awake, then the others."""
    end = time.perf_counter() + WARM_SECONDS
    yield first
    while time.perf_counter() < end:
        yield first
    yield from rest


def steady(runners: Sequence[Runner], shapes: Sequence[Shape], limit: float) -> Times:
    """Turns of equal calls at each shape, in `limit` seconds for all: all shapes, and all once more, since a machine that others use too
    is slow for longer than a shape takes. Shapes at which it was not quiet take longer (`patience.py`)."""
    times: Times = {r.name: {s: [] for s in shapes} for r in runners}
    for shape in (*shapes, *shapes):
        started, share = time.perf_counter(), limit / len(shapes) / 2
        for k in range(ROUNDS[1]):
            spent = time.perf_counter() - started
            if (
                k >= ROUNDS[0]
                and spent > share
                and (spent > PATIENCE * share or quiet(t[shape] for t in times.values()))
            ):
                break
            for r in runners:
                times[r.name][shape] += r.turn(shape)
    return times


def shuffled(runners: Sequence[Runner], shapes: Sequence[Shape], limit: float, seed: int = 0) -> Times:
    """Calls at all shapes in random order, again and again, in `limit` seconds, or more until the medians are known (`patience.py`); each
    engine runs each pass whole."""
    times: Times = {r.name: {s: [] for s in shapes} for r in runners}
    order, rng = list(shapes), random.Random(seed)
    started = time.perf_counter()
    for k in range(PASSES[1]):
        spent = time.perf_counter() - started
        if k >= PASSES[0] and spent > limit and (spent > PATIENCE * limit or all(map(all_known, times.values()))):
            break
        rng.shuffle(order)
        for r in runners:
            for shape, seconds in zip(order, r.stream(order), strict=True):
                times[r.name][shape].append(seconds)
    return times


def first_calls(runners: Sequence[Runner], shapes: Sequence[Shape], seed: int = 0) -> tuple[Surplus, Surplus]:
    """(first, second) calls over later ones of the same engine, of engines made anew and sent through all shapes in random order, the same
    for all passes.

    So a first call differs from the later ones in that its shape is new, and in nothing else: the call before it is the same, and every
    call has data that the engine has not seen, as any call of a service has (a processor learns the branches that the same data take, which
    alone makes a later call of the detector 1.2 times as fast). Second calls tell the noise: their shape is new no more, and they are
    compared with the same later ones. Each time calls at the first shape of the order come before, which do not count: the very first calls
    page in and start what an engine needs at any shape. They are made just as those that count are: the first call from anywhere else takes
    half a microsecond more, whatever its shape, since the processor has not come that way before. Arguments are copied before each call, so
    that they are as warm the first time as later.

    A call is compared with those of the same engine, some milliseconds later: a processor that other guests use has moments of one speed
    and moments of another, each longer than an engine is measured, and medians of all first calls and of all later ones may fall on
    different sides (`tests/models/test_streams.py`). Engines take turns; one that takes long to make is made fewer times, but takes no time
    from the others. Each is made until it took its time or was made often enough, and then on while the medians of its first calls are
    not known, at most `PATIENCE` times as long, or `DOUBTFUL` times where that is longer: those of gpt2 are spread over a fifth, and of
    eighty medians of some fifteen of them two came out at 1.29, at shapes where the next fifteen told 1.0.
    """
    first: Surplus = {r.name: {s: [] for s in shapes} for r in runners}
    second: Surplus = {r.name: {s: [] for s in shapes} for r in runners}
    order, rng = list(shapes), random.Random(seed)
    spent = dict.fromkeys(first, 0.0)
    for k in range(PATIENCE * ANEW[1]):
        rng.shuffle(order)
        for r in runners:
            often = k >= ANEW[1] or spent[r.name] > FIRST_SECONDS
            patient = k >= DOUBTFUL and spent[r.name] > PATIENCE * FIRST_SECONDS
            if k >= ANEW[0] and often and (patient or all_known(first[r.name])):
                continue
            started = time.perf_counter()
            passes = r.first(order)
            spent[r.name] += time.perf_counter() - started
            for shape, new, again in over_later(order, passes):
                first[r.name][shape].append(new)
                second[r.name][shape].append(again)
    return first, second


def all_known(by_shape: Mapping[Shape, Sequence[float]]) -> bool:
    return all(map(known, by_shape.values()))


def points(over: Sequence[float]) -> dict[str, float]:
    """The median of all shapes', and what nineteen of twenty are below, between two of them as NumPy has it."""
    p50, p95 = np.percentile(over, [50, 95]).tolist()
    return {"p50": p50, "p95": p95}


def over_later(order: Sequence[Shape], passes: Sequence[Sequence[float]]) -> Iterator[tuple[Shape, float, float]]:
    """Yields, for each shape but the one in front, the first and the second call over the median of the later ones."""
    new, again, *more = passes
    for at, shape in enumerate(order[1:]):
        later = statistics.median(p[at] for p in more)
        yield shape, new[at] / later, again[at] / later
