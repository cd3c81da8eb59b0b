"""Tries programs from many seeds, in one process or several.

In: a first seed. Out: outcomes in the order of seeds, so that a run is the same for any number of processes.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Event

from anyshape_testing.calls.packages import register
from anyshape_testing.programs.seeds import run_seed
from anyshape_testing.programs.tally import Tally

TOGETHER = 25
"""The number of seeds in one outcome"""


@dataclass
class Outcome:
    """The outcome of some seeds; `finds` maps seeds to failures of laws."""

    seeds: range
    tally: Tally = field(default_factory=Tally)
    finds: dict[int, str] = field(default_factory=dict)


_over: list[Event] = []
"""The event of a process of a pool that is set when no more outcomes are needed"""


def tried(seeds: range, package: str) -> Outcome:
    ops, outcome = tuple(register(package)), Outcome(seeds)
    for seed in seeds:
        if any(over.is_set() for over in _over):
            break
        try:
            run_seed(seed, ops, outcome.tally)
        except Exception as e:  # a search reports everything that it finds
            outcome.finds[seed] = f"{e}\n{traceback.format_exc(limit=-4)}"
    return outcome


def outcomes(start: int, package: str, jobs: int) -> Iterator[Outcome]:
    """Yields outcomes of all seeds from `start` on, in their order; several processes work ahead."""

    def seeds() -> Iterator[range]:
        at = start
        while True:
            yield range(at, at + TOGETHER)
            at += TOGETHER

    if jobs == 1:
        yield from (tried(s, package) for s in seeds())
        return
    context = get_context("spawn")
    over = context.Event()
    with ProcessPoolExecutor(jobs, context, _over.append, (over,)) as pool:
        ahead: list[Future[Outcome]] = []
        try:
            for s in seeds():
                ahead.append(pool.submit(tried, s, package))
                if len(ahead) > 2 * jobs:
                    yield ahead.pop(0).result()
        finally:
            over.set()
            pool.shutdown(cancel_futures=True)


def search(results: Iterator[Outcome], count: int, say: Callable[[str], None]) -> tuple[Tally, Sequence[int], int]:
    """Collects outcomes of `count` programs or a few more; returns their tally, the seeds of failures, and the next seed."""
    tally, finds, said = Tally(), list[int](), time.perf_counter()
    for outcome in results:
        tally.merge(outcome.tally)
        finds += outcome.finds
        for seed, text in outcome.finds.items():
            say(f"seed {seed}: {text}")
        if tally.programs + len(finds) >= count:
            break
        if time.perf_counter() - said > 30:
            said = time.perf_counter()
            say(f"... {tally.programs} programs hold, {len(finds)} do not")
    return tally, finds, outcome.seeds.stop
