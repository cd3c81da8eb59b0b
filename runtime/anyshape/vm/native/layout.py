"""Words that the native loop and Python share: the state of one call, and what a turn of the loop ends with.

A state is a row of 64-bit words. Its first words are addresses of tables and a few numbers, by the names of `Word`; what they point to
is owned by the executable (code, constants, kernels) or by the context (everything else).
"""

from __future__ import annotations

from enum import IntEnum


class Word(IntEnum):
    """Places in a state."""

    CODE = 0
    """Address of the program's table."""
    AT = 1
    """Address of the instruction to run next, or of the one that ended the turn."""
    REGISTERS = 2
    ARGUMENTS = 3
    """Pairs: address of the elements, address of the dims."""
    CONSTANTS = 4
    KERNELS = 5
    REGIONS = 6
    """Pairs: address, capacity in bytes."""
    RESULTS = 7
    """Addresses of results that were made and not yet taken; 0: not made."""
    FRAME = 8
    """Where scalars and buffers are put for a kernel, behind what it tells where it fails (`anyshape.failure_report`)."""
    LOST = 9
    """One word per register: 1 if it overflowed. Read by the careful loop alone."""
    REGISTER_COUNT = 10
    CAREFUL = 11
    """1 once something overflowed in this call."""
    HOLD = 12
    """1: stop before a kernel (the caller holds the interpreter lock and wants to give it back first)."""
    KERNEL_STATUS = 13
    ENDED = 14
    """How the last call through `entry` ended."""
    ARGUMENT_COUNT = 15
    RESULT_COUNT = 16
    ARGUMENT_TYPES = 17
    """Per argument: address of the dtype object, rank, bytes of an element."""
    RESULT_TYPES = 18
    """Per result: address of the dtype object, bytes of an element."""
    DESTINATIONS = 19
    """Per result: address of the object that the caller gave for it, or 0."""
    ARRAY_TYPE = 20
    """Address of the type of arrays, and of None: compiled code must not hold what differs between processes."""
    NONE = 21
    POOL = 22
    """Address of the pool of threads (`pool_layout`)."""
    THREADS = 23
    """How many threads a kernel may use, 1 if the program shares none."""
    HEAP = 24
    """Address of two words: handle of the object of lists that was made last, or 0; how many there are. The same for all frames."""
    CALLEES = 25
    """Per function: address of the state of a call from here, or 0."""
    CALLED = 26
    """Address of the state of the last call from here."""
    INSIDE = 27
    """1: that call is not over."""
    DEPTH = 28
    """Calls around this one."""
    PASS = 29
    """Of a function's state: per word of its arguments, the place in the state where it goes."""
    RETURNS = 30
    """Of a function's state: what it gives."""
    ALLOCATOR = 31
    """Address of what allocates memory to results (`allocator_code.py`), or 0."""
    CLOCK = 32
    """Address of the words of the clock (`ticker.py`)."""
    ROOT = 33
    """Address of the state of the call that this one is within, its own if it is within none: what the next words are read from."""
    STOP = 34
    """Why the call is to stop, a `Stop`."""
    DEADLINE = 35
    """When, by the system's monotonic clock in nanoseconds; 0: never."""
    SEEN = 36
    """The tick at which the loop looked last."""
    LOOK = 37
    """The function that kernels ask, and what they give it, the root; kernels have the address of this pair."""
    ASKED = 38
    RAISED = 39
    """What a signal's handler raised: type, value and traceback, as Python fetches them."""
    CANCELS = 42
    """Address of a word that counts how often calls of the executable were cancelled."""
    CANCELS_SEEN = 43
    """What it was when this call began."""
    BEGUN = 44
    """1: the call began before the direct entry was called, which is to leave its marks as they are."""
    COUNT = 45


ARGUMENT_WORDS, RESULT_WORDS = 3, 2
"""Words per entry of WANTED and of RESULT_TYPES."""


class Stop(IntEnum):
    """Why a call stops."""

    NONE = 0
    CANCELLED = 1
    DEADLINE = 2
    RAISED = 3
    """A signal's handler raised something."""


class End(IntEnum):
    """What a turn of the loop ends with. The first two are those of `program`."""

    DONE = 0
    DECLINED = 1
    CHECK = 2
    """The check at AT failed."""
    OVERFLOW = 3
    """The instruction at AT needs a value that overflowed."""
    STORE = 4
    """The number that AT stores does not fit its type."""
    KERNEL = 5
    """The kernel at AT returned KERNEL_STATUS."""
    REGION = 6
    """The region at AT is too small; goes on at AT when it has grown."""
    OUTPUT = 7
    """The result at AT is to be made; goes on at AT when its address is in RESULTS."""
    BLOCKING = 8
    """A kernel comes, and HOLD is set; goes on at AT."""
    ARGUMENTS = 9
    """Only from `entry`: an argument is not exactly what the program takes."""
    UNKNOWN = 10
    """AT is no instruction: the table was changed after it was verified."""
    MEMORY = 11
    """There is no memory for an object of a list."""
    CALL = 12
    """The function that AT calls has no state yet; goes on at AT."""
    DEPTH = 13
    """The call at AT would be nested too deeply."""
    STOPPED = 14
    """The call is to stop: STOP says why."""
