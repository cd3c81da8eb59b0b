"""Seeds that are tried in a child process with limited time and memory: one that dies or hangs costs one seed.

In: what a seed does, which says what went wrong. Out: (seed, what went wrong) of each, in order.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

LONGEST = 60.0
"""Seconds of the processor for one seed"""
MEMORY = 6 << 30
"""Bytes of address space for the child"""


def run_isolated(
    seeds: Sequence[int], outcome: Callable[[int], str], name: Callable[[int], str]
) -> Iterator[tuple[int, str]]:
    context = multiprocessing.get_context("fork")
    at = 0
    while at < len(seeds):
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(there, seeds[at:], outcome), daemon=True)
        child.start()
        there.close()
        while at < len(seeds):
            ended = awaited(here, child, LONGEST)
            if not ended:
                try:
                    yield seeds[at], here.recv()
                    at += 1
                    continue
                except EOFError:
                    pass
            child.kill()
            child.join()
            yield seeds[at], f"{name(seeds[at])}: {ended or f'the process ended with {child.exitcode}'}"
            at += 1
            break
        child.join()


def awaited(pipe: Any, child: Any, limit: float) -> str:
    """Why nothing comes from a child any more; empty as soon as something does."""
    started, began = _seconds(child.pid), time.monotonic()
    while not pipe.poll(1.0):
        if _seconds(child.pid) - started > limit or time.monotonic() - began > 20 * limit:
            return f"more than {limit:.0f} seconds"
    return ""


def _seconds(process: int) -> float:
    """What a process has had of the processors so far."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(pipe: Any, seeds: Sequence[int], outcome: Callable[[int], str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in seeds:
        pipe.send(outcome(seed))


def run_from_command_line(
    program: str,
    about: str | None,
    run: Callable[..., Iterable[tuple[int, str]]],
    **texts: str,
) -> int:
    """--first, --count, and an option of text for each of `texts`, which says what it is for; prints what went wrong."""
    parser = argparse.ArgumentParser(program, description=about, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    for option, help_ in texts.items():
        parser.add_argument(f"--{option}", default="", help=help_)
    args = parser.parse_args()
    wrong = 0
    seeds = range(args.first, args.first + args.count)
    for k, (seed, why) in enumerate(run(seeds, **{option: getattr(args, option) for option in texts})):
        wrong += bool(why)
        if why:
            print(f"seed {seed}: {' '.join(why.split())[:300]}", flush=True)
        if k % 500 == 499:
            print(f"… {k + 1} of {args.count}", flush=True)
    print(f"{args.count} seeds, {wrong} ended in something else than a result or an AnyshapeError")
    return 1 if wrong else 0
