"""Words that the native loop and Python share: the state of one call, and why the loop returns.

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
    """Address of the instruction to run next, or of the one at which the loop returned."""
    REGISTERS = 2
    ARGUMENTS = 3
    """Addresses of the elements and of the dims, per argument."""
    CONSTANTS = 4
    KERNELS = 5
    REGIONS = 6
    """Address and capacity in bytes, per region."""
    RESULTS = 7
    """Addresses of results that were made and not yet taken; 0: not made."""
    FRAME = 8
    """Address of a kernel's scalars and buffers; the failure report lies ahead of them (`anyshape.failure_report`)."""
    LOST = 9
    """Words by register: 1 if it overflowed."""
    HOLD = 10
    """1: the loop returns before a kernel, so that its caller can give the interpreter's lock back."""
    KERNEL_STATUS = 11
    ENDED = 12
    """The `End` of the last call through the direct entry."""
    ARGUMENT_COUNT = 13
    RESULT_COUNT = 14
    ARGUMENT_TYPES = 15
    """Address of the dtype object, rank and bytes of an element, per argument."""
    RESULT_TYPES = 16
    """Address of the dtype object, bytes of an element, and number of the argument that it may be computed over, or -1; per result."""
    DESTINATIONS = 17
    """Address of the object that is the caller's destination for a result, or 0, per result."""
    ARRAY_TYPE = 18
    """Address of the type of arrays, and of None: compiled code must not hold what differs between processes."""
    NONE = 19
    LOOK = 20
    """Address of the function that kernels ask whether to stop; its argument, the root, is the word ASKED. Kernels have the address of
    this word and those behind it, up to THREADS (`lower/llvm/polling.py`)."""
    ASKED = 21
    SHARE = 22
    """Address of the function that shares a function of a kernel over the pool."""
    POOL = 23
    """Address of the pool of threads (`pool_layout`)."""
    THREADS = 24
    """Number of threads that a kernel may use, 1 if the program shares none."""
    HEAP = 25
    """Address of words of the heap of lists: handle of the newest object, or 0; number of objects; bytes that may be taken before the
    system is asked again. All frames share them."""
    CALLEES = 26
    """Address of the state of a call from here, or 0, per function."""
    CALLED = 27
    """Address of the state of the last call from here."""
    INSIDE = 28
    """1: the call at CALLED is not over."""
    DEPTH = 29
    """Number of calls around the current one."""
    PASS = 30
    """Place in the state where a word of a function's arguments goes, per word."""
    RETURNS = 31
    """Address of the words that a function returns."""
    ALLOCATOR = 32
    """Address of the result allocator's words (`allocator_code.py`), or 0."""
    CLOCK = 33
    """Address of the words of the clock (`ticker.py`)."""
    ROOT = 34
    """Address of the state of the outermost call, from which the words below are read."""
    STOP = 35
    """Reason why the call is to stop, a `Stop`."""
    DEADLINE = 36
    """Time at which the call is to stop, in nanoseconds of the monotonic clock; 0: never."""
    SEEN = 37
    """Tick of the clock that the loop saw last."""
    RAISED = 38
    """Exception of a signal's handler: type, value and traceback, as Python fetches them."""
    CANCELS = 41
    """Address of a word that counts how often calls of the executable were cancelled."""
    CANCELS_SEEN = 42
    """Value of the word at CANCELS when the call began."""
    BEGUN = 43
    """1: Python began the call before it called the direct entry, which leaves STOP and CANCELS_SEEN as they are."""
    COUNT = 44


ARGUMENT_WORDS, RESULT_WORDS = 3, 3
"""Number of words per entry of ARGUMENT_TYPES and of RESULT_TYPES."""


class Stop(IntEnum):
    """Reason why a call stops."""

    NONE = 0
    CANCELLED = 1
    DEADLINE = 2
    RAISED = 3
    """A signal's handler raised an exception."""


class End(IntEnum):
    """Reason why the loop returns. The first two are those of `program`."""

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
    """The region of the instruction at AT is too small; the loop goes on at AT when it has grown."""
    OUTPUT = 7
    """The result of the instruction at AT is to be made; the loop goes on at AT when its address is in RESULTS."""
    BLOCKING = 8
    """A kernel comes, and HOLD is set; the loop goes on at AT."""
    ARGUMENTS = 9
    """An argument is not exactly what the program takes; from the direct entry alone."""
    UNKNOWN = 10
    """Code for no instruction at AT: the table was changed after it was verified."""
    MEMORY = 11
    """Code for no memory for an object of a list."""
    CALL = 12
    """The function that the instruction at AT calls has no state yet; the loop goes on at AT."""
    DEPTH = 13
    """The call at AT would be nested too deeply."""
    STOPPED = 14
    """The call is to stop: STOP says why."""
