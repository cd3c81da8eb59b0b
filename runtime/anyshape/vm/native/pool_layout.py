"""Words of the pool that generated code and Python share: one job at a time, split over threads that wait for it.

Each group of words has a cache line of its own, since different threads write them. A futex is the low half of its word.
"""

from __future__ import annotations

from enum import IntEnum


class PoolWord(IntEnum):
    """Places in a pool, counted in words of 64 bits."""

    OWNER = 0
    """1 while a call's job is in the pool; others run their kernels alone."""
    SEEN_ON = 1
    """The processor, counted from 1, on which the last call was."""
    AVOIDED = 2
    """The one that workers keep off; 0: none, -1: not the same one all of them."""
    EPOCH = 8
    """Counts jobs; sleeping workers wait for it to change."""
    CLAIM = 16
    """The job's epoch, its number of parts and the next part that nobody has taken: 32, 16 and 16 bits."""
    DONE = 24
    """Parts that have ended; the owner may wait for it to change."""
    WAITING = 25
    """1 if the owner sleeps."""
    ERROR = 32
    """The lowest part that failed and its status, 32 bits each; all ones while none has."""
    SLEEPERS = 40
    STOP = 41
    """1: workers end."""
    KERNEL = 48
    SCALARS = 49
    BUFFERS = 50
    SCRATCH = 51
    STRIDE = 52
    """Bytes of scratch from one part to the next."""
    FIRST = 53
    TOTAL = 54
    """Which part of the kernel the job's first one is, and of how many."""
    WORKERS = 56
    """Threads that wait for jobs, beside the one that brings them."""
    BROUGHT = 57
    """1 while workers may be where their caller is: they sleep as soon as they have nothing to do."""
    LINES = 64
    """A line of the cache for each thread, by the order in which workers were started; the last one is the owner's."""
    STAGE = 64 + 64 * 8
    """What is tried just now, a `Stage`: the words from here on are `pool_trials.py`'s, and the owner's alone."""
    ALONE = STAGE + 1
    """1 while sharing does not pay, and the owner runs all parts."""
    LEFT = STAGE + 2
    """Kernels until sharing is tried anew."""
    SPENT = STAGE + 3
    """Nanoseconds in this stage, or of what was timed alone and then shared too."""
    KERNELS = STAGE + 4
    """How many ran in this stage."""
    TIMED = STAGE + 5
    """How many were timed alone."""
    SUM_ALONE = STAGE + 6
    """Nanoseconds of kernels alone, and of the same kernels shared; trials count less the longer ago they were."""
    SUM_SHARED = STAGE + 7
    TOOK = STAGE + 8
    """Parts of the last job that the owner ran itself."""
    TABLE = STAGE + 9
    """Of kernels that were timed alone: which one at which sizes, and nanoseconds."""
    COUNT = TABLE + 2 * 64


class Line(IntEnum):
    """Places in the line of a thread."""

    ID = 0
    """What the system calls the worker."""
    HOLDS = 1
    """1 while it runs a part."""
    CLOCK = 2
    """Its time on processors in nanoseconds, when the owner looked."""
    WORDS = 8


class Stage(IntEnum):
    """Of a trial."""

    NONE = 0
    ALONE = 1
    """Kernels run alone and are timed."""
    WAKING = 2
    """They are shared again, until workers that went to sleep are there."""
    SHARED = 3
    """They are shared, and those that were timed alone are timed again."""


PART_BITS = 16
MOST_THREADS = 64
TABLE_PLACES = 64
FIRST_TRIAL = 256
"""Kernels of a new pool before the first trial: those of first calls say little of those that follow."""


def place(thread: int, word: Line) -> int:
    """Of a word in the line of a thread."""
    return PoolWord.LINES + thread * Line.WORDS + word
