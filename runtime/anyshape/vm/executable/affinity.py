"""Affinity of the threads that kernels are shared with, as the program or the environment sets it.

In: numbers of processors. Out: the workers of the process's one pool, which all its models share, on these processors alone. Threads that
call models are the program's own, and stay where it has them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress

from anyshape.errors import ArgumentError, UnsupportedError
from anyshape.public import edge
from anyshape.vm import native

_MOST_PROCESSORS = 4096


@edge
def set_affinity(processors: Sequence[int] | None) -> None:
    """Has the worker threads of this process run on these processors alone, as taskset numbers them; None: on all that the process may use.
    It holds for all models. Raises ArgumentError for a processor that the process may not use, and UnsupportedError on a system other
    than Linux."""
    if not hasattr(os, "sched_setaffinity"):
        raise UnsupportedError("set_affinity: threads are pinned on Linux alone")
    chosen = frozenset(processors or ())
    if processors is not None and not chosen:
        raise ArgumentError("set_affinity: there must be a processor at least, or None for all")
    if strange := sorted(chosen - _obtained(chosen)):
        listed = ", ".join(map(str, strange[:16])) + (", …" if len(strange) > 16 else "")
        raise ArgumentError(f"set_affinity: the process may not use the processors {listed}")
    native.pin_workers(chosen)


def _obtained(processors: Collection[int]) -> set[int]:
    """The processors among these that the system lets a thread run on, tried by a thread of its own."""
    obtained: set[int] = set()

    def ask() -> None:
        with suppress(OSError):  # none of them
            os.sched_setaffinity(0, possible)
            obtained.update(os.sched_getaffinity(0))

    possible = [n for n in processors if 0 <= n < _MOST_PROCESSORS]
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return obtained
