"""Seeds that are tried in a child process with limited time and memory: one that dies or hangs costs one seed.

In: what a seed does, which says what went wrong. Out: (seed, what went wrong) of each, in order.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

LONGEST = 60.0
"""Seconds for one seed"""
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
            try:
                if not here.poll(LONGEST):
                    raise EOFError
                yield seeds[at], here.recv()
            except EOFError:
                child.kill()
                child.join()
                why = f"{name(seeds[at])}: the process ended with {child.exitcode}, or took {LONGEST:.0f} s"
                yield seeds[at], why
                at += 1
                break
            at += 1
        child.join()


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
