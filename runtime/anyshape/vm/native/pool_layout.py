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
    """Processor, counted from 1, on which the last call was."""
    AVOIDED = 2
    """Processor that workers keep off; 0: none, -1: not all workers keep off the same one."""
    EPOCH = 8
    """Number of jobs so far; sleeping workers wait for it to change."""
    CLAIM = 16
    """Epoch of the job, its number of parts and the next part that no thread has taken: 32, 16 and 16 bits."""
    DONE = 24
    """Number of parts that have ended; the owner may wait for it to change."""
    WAITING = 25
    """1 if the owner sleeps."""
    ERROR = 32
    """Lowest part that failed and its status, 32 bits each; all ones while none has."""
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
    """Number, among the parts of the whole kernel, of the job's first part; TOTAL is how many parts the whole kernel has."""
    WORKERS = 56
    """Number of workers."""
    BROUGHT = 57
    """1 while workers may be where their caller is: they sleep as soon as they have nothing to do."""
    LINES = 64
    """Lines of the cache, one for each thread, by the order in which workers were started; the last one is the owner's."""
    STAGE = 64 + 64 * 8
    """Stage of the trial, a `Stage`: only the owner, in `pool_trials.py`, uses the words from here on."""
    ALONE = STAGE + 1
    """1 while sharing does not pay, and the owner runs all parts."""
    LEFT = STAGE + 2
    """Number of kernels until the next trial."""
    SPENT = STAGE + 3
    """Nanoseconds of kernels in this stage; in the last stage, of those alone that were compared."""
    KERNELS = STAGE + 4
    """Number of kernels that ran in this stage."""
    TIMED = STAGE + 5
    """Number of kernels that were timed alone."""
    SUM_ALONE = STAGE + 6
    """Nanoseconds of kernels alone; SUM_SHARED is those of the same kernels shared. Trials count less the longer ago they were."""
    SUM_SHARED = STAGE + 7
    TOOK = STAGE + 8
    """Number of parts of the last job that the owner ran itself."""
    TABLE = STAGE + 9
    """Kernels that were timed alone, two words each: a hash of the kernel and its sizes, and nanoseconds."""
    COUNT = TABLE + 2 * 64


class Line(IntEnum):
    """Places in the line of a thread."""

    ID = 0
    """The system's number of the worker."""
    HOLDS = 1
    """1 while the worker runs a part."""
    CLOCK = 2
    """Nanoseconds that the worker had been on processors when the owner looked."""
    WORDS = 8


class Stage(IntEnum):
    """Stage of a trial."""

    NONE = 0
    ALONE = 1
    """Kernels run alone and are timed."""
    WAKING = 2
    """Kernels are shared again, until workers that went to sleep are awake."""
    SHARED = 3
    """Kernels are shared, and those that were timed alone are timed again."""


PART_BITS = 16
MOST_THREADS = 64
TABLE_PLACES = 64
FIRST_TRIAL = 256
"""Number of kernels of a new pool before the first trial: kernels of first calls say little of those that follow."""


def place(thread: int, word: Line) -> int:
    """Place of a word in the line of a thread."""
    return PoolWord.LINES + thread * Line.WORDS + word
