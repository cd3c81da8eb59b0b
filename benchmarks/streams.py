"""What is measured of a model: calls at one shape after another, calls in a shuffled stream of shapes, first calls at a new shape.

In: engines over one model, and its shapes. Out: seconds. Engines take turns, so that whatever else the machine does, it does to all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engines import Engine, prepare
from benchmarks.models import Arrays, Model

Shape = tuple[int, int]
Times = dict[str, dict[Shape, list[float]]]
"""By engine and shape, seconds of each call, or of a batch of calls divided by their number."""

BATCH_SECONDS = 0.002
"""Shorter than the turn that a scheduler gives, so that some batches see no other process."""
FIRST_SECONDS = 5.0
"""Of making engines, after which first calls are not measured again."""
ROUNDS, PASSES = (3, 400), (3, 200)
"""At least and at most, whatever the time."""


def seconds(engine: Engine, arguments: Arrays, repeats: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        engine.run(arguments)
    return (time.perf_counter() - started) / repeats


def steady(engines: Sequence[Engine], calls: dict[Shape, Arrays], limit: float) -> Times:
    """Rounds of equal calls at each shape, in `limit` seconds for all."""
    found: Times = {e.name: {s: [] for s in calls} for e in engines}
    for shape, arguments in calls.items():
        repeats = {}
        for e in engines:
            e.run(arguments)
            repeats[e.name] = max(1, int(BATCH_SECONDS / max(seconds(e, arguments), 1e-7)))
        end = time.perf_counter() + limit / len(calls)
        for k in range(ROUNDS[1]):
            if k >= ROUNDS[0] and time.perf_counter() > end:
                break
            for e in engines:
                found[e.name][shape].append(seconds(e, arguments, repeats[e.name]))
    return found


def shuffled(engines: Sequence[Engine], calls: dict[Shape, Arrays], limit: float, seed: int = 0) -> Times:
    """All shapes in random order, again and again, in `limit` seconds; each engine runs each pass whole."""
    found: Times = {e.name: {s: [] for s in calls} for e in engines}
    order, rng = list(calls), random.Random(seed)
    end = time.perf_counter() + limit
    for k in range(PASSES[1]):
        if k >= PASSES[0] and time.perf_counter() > end:
            break
        rng.shuffle(order)
        for e in engines:
            for shape in order:
                found[e.name][shape].append(seconds(e, calls[shape]))
    return found


def first_calls(names: Sequence[str], path: Path, threads: int, model: Model, seed: int = 0) -> Times:
    """Every engine made anew and called once at each shape, in an order of its own each time; the very first call does not count."""
    found: Times = {name: {s: [] for s in model.SHAPES} for name in names}
    rng, spent = random.Random(seed), 0.0
    for _ in range(2):
        if spent > FIRST_SECONDS:  # large models: once
            break
        order = list(model.SHAPES)
        rng.shuffle(order)
        for name in names:
            engine = prepare(name, path, threads)
            spent += engine.seconds
            engine.run(model.inputs(*order[0], seed=1))
            for shape in order[1:]:
                found[name][shape].append(seconds(engine, model.inputs(*shape, seed=1)))
    return found
