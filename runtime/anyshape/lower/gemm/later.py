"""Packing of large constants, put off until all of them are known, and then shared out to threads.

In: jobs that fill arrays which exist already. Nearly all of their time goes to page faults of fresh memory, outside of the interpreter's
lock. Outside of `collected` a job is done at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

Job = Callable[[], object]

LARGE = 1 << 18
"""Bytes of an array from which on filling it is put off."""

_collecting: ContextVar[list[Job] | None] = ContextVar("collecting", default=None)


@contextmanager
def collected() -> Iterator[list[Job]]:
    """The jobs that were put off inside. Whoever opens it does them, before anybody reads the arrays."""
    jobs: list[Job] = []
    token = _collecting.set(jobs)
    try:
        yield jobs
    finally:
        _collecting.reset(token)


def later(job: Job, size: int) -> None:
    """Does the job, which fills an array of so many bytes, or puts it off."""
    jobs = _collecting.get()
    if jobs is None or size < LARGE:
        job()
    else:
        jobs.append(job)


def do_all(jobs: Sequence[Job], threads: int) -> None:
    """All of them, by this thread and others. Raises what the first job that failed raised."""
    left = iter(jobs)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for job in left:  # taking the next one is a single operation
                job()
        except BaseException as e:
            failures.append(e)

    others = [threading.Thread(target=work) for _ in range(min(threads, len(jobs)) - 1)]
    started = []
    for t in others:
        try:
            t.start()
        except RuntimeError:  # no more threads are to be had
            break
        started.append(t)
    work()
    for t in started:
        t.join()
    if failures:
        raise failures[0]


__all__ = ["collected", "do_all", "later"]
