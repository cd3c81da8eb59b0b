"""Detection of stalls: a worker that loses its processor in the middle of a part is moved to the processor of its caller, which waits.

Beside a process that computes all the time, a worker has its processor for a time slice, and then has not: the caller would wait
milliseconds for its part. So a caller that waits looks at the workers' clocks, and moves a worker that holds a part and has not run since
the last look to its own processor. The worker sleeps as soon as it has nothing to do, so that the caller has its processor back, and keeps
off it from then on as before (`pool_affinity.py`).

In: an open module. Out: `pool_look(pool)` and `pool_end_looking(pool)`, for the owner of the pool while it waits, and after.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I32, I64, PTR, VOID, Val, const
from anyshape.vm.native.clock_code import nanoseconds
from anyshape.vm.native.pool_affinity import at_line
from anyshape.vm.native.pool_layout import Line, PoolWord
from anyshape.vm.run.policies import Policy, in_use

_OF_THREAD = 6
"""Low three bits of the number of a clock that counts a thread's time on processors, on Linux; above them is the thread, inverted."""


def add_stalls(module: Module) -> None:
    """Defines both functions, which do nothing on systems other than Linux."""
    pool = [("pool", PTR)]
    looks = "linux" in module.target.triple and in_use(Policy.STALLS)
    if looks:
        with module.function("pool_clock", I64, [("worker", I64)], internal=True) as f:
            f.ret(_clock(f))
    for name, body in (("pool_look", _look), ("pool_end_looking", _end_looking)):
        with module.function(name, VOID, pool, internal=True, noalias=False) as f:
            if looks:
                body(f)
            f.ret()


def _clock(f: FunctionBuilder) -> Val:
    """Reads how long a thread has been on processors."""
    number = f.or_(f.shl(f.binary("xor", f.args[0], const(I64, -1)), 3), _OF_THREAD)
    return nanoseconds(f, f.convert("trunc", number, I32))


def _look(f: FunctionBuilder) -> None:
    """Moves the workers that hold a part and have not run since the last look. A worker that began its part after the last look has run
    since then, so the first look of a wait moves none."""
    (pool,) = f.args
    with f.if_(f.compare("ne", f.atomic_load(pool, I64, PoolWord.PINNED, order="monotonic"), 0)):
        f.ret()
    count = f.atomic_load(pool, I64, PoolWord.WORKERS, order="monotonic")
    with f.for_range(0, count) as loop:
        holds, id_, clock = (at_line(f, loop.index, word) for word in (Line.HOLDS, Line.ID, Line.CLOCK))
        with f.if_(f.compare("ne", f.atomic_load(pool, I64, holds), 0)):
            worker = f.atomic_load(pool, I64, id_, order="monotonic")
            now, before = f.call("pool_clock", I64, [worker]), f.atomic_load(pool, I64, clock, order="monotonic")
            f.atomic_store(now, pool, clock, order="monotonic")
            readable = f.compare("ne", now, 0)  # it is 0 where a clock may not be read
            with f.if_(f.and_(readable, f.compare("eq", now, before))):
                f.atomic_store(const(I64, 1), pool, PoolWord.BROUGHT)
                f.call("pool_bring", VOID, [worker])


def _end_looking(f: FunctionBuilder) -> None:
    """Resets affinity if workers were moved: those may run anywhere now, others still keep off a processor; later calls decide anew."""
    (pool,) = f.args
    with f.if_(f.compare("ne", f.atomic_load(pool, I64, PoolWord.BROUGHT), 0)):
        f.atomic_store(const(I64, -1), pool, PoolWord.AVOIDED)
        for word in (PoolWord.SEEN_ON, PoolWord.BROUGHT):
            f.atomic_store(const(I64, 0), pool, word)
