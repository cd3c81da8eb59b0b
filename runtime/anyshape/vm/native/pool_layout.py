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
    """Flag: 1 while workers may be where their caller is: they sleep as soon as they have nothing to do."""
    PINNED = 58
    """Flag: 1 while the program says on which processors workers run; nothing else moves them then."""
    LINES = 64
    """Lines of the cache, one for each thread, by the order in which workers were started; the last one is the owner's."""
    COUNT = 64 + 64 * 8


class Line(IntEnum):
    """Places in the line of a thread."""

    ID = 0
    """The system's number of the worker."""
    HOLDS = 1
    """1 while the worker runs a part."""
    CLOCK = 2
    """Nanoseconds that the worker had been on processors when the owner looked."""
    WORDS = 8


PART_BITS = 16
MOST_THREADS = 64


def place(thread: int, word: Line) -> int:
    """Place of a word in the line of a thread."""
    return PoolWord.LINES + thread * Line.WORDS + word
