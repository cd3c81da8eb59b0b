"""After a call that had to wait for a worker which the system did not let run, the next ones are run alone for a while.

Beside a process that computes all the time a worker has its processor for a time slice, and then has not: whoever waits for its part
waits for milliseconds, and gains nothing on the whole. A wait counts if workers had a processor for less than half of it; that they are
at work for longer than their caller is no stall. One wait is followed by as long a time alone, since it may have been the only one; one
that comes soon after such a time by twice as much as the last (exponential backoff).

In: an open module. Out: `pool_is_stalled(pool) -> i1`, `pool_clocks(pool, clocks)`, which reads the time and that of the workers'
processors, and `pool_waited(pool, clocks)`, for the owner of the pool after it slept, with the clocks as they were before.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import Function, Module
from anyshape.lower.llvm.types import I1, I32, I64, PTR, VOID, Val, const
from anyshape.vm.native.pool_layout import PoolWord

MOST = 16
"""How many times as long as the wait kernels are run alone, at most: a sixteenth of the time is spent on finding out."""
SOON = 8
"""Within so many times the wait: a process that computes all the time takes a processor in every few time slices."""
LEAST = 500_000
"""Nanoseconds: what is shorter may be the way of a thread from sleep to work; time slices are longer."""
_MONOTONIC = 1
"""Linux: the clock that only goes forward."""
_OF_THREAD = 6
"""Linux: what a clock's number ends with that counts a thread's time on processors; above these three bits is the thread, inverted."""
_SECOND = 1_000_000_000


def add_stalls(module: Module) -> None:
    """Defines them; where Linux is not, no time passes."""
    with module.function("pool_clock", I64, [("number", I32)], internal=True) as f:
        f.ret(_clock(f))
    with module.function("pool_is_stalled", I1, [("pool", PTR)], internal=True, noalias=False) as f:
        _is_stalled(f)
    arguments = [("pool", PTR), ("clocks", PTR)]
    with module.function("pool_clocks", VOID, arguments, internal=True, noalias=False) as f:
        _clocks(f)
    with module.function("pool_waited", VOID, arguments, internal=True, noalias=False) as f:
        _waited(f)


def _clock(f: Function) -> Val:
    if "linux" not in f.target.triple:
        return const(I64, 0)
    f.module.declare("clock_gettime", I32, [I32, PTR])
    time = f.alloca(I64, 2)
    for word in range(2):
        f.store(const(I64, 0), time, word)
    f.call("clock_gettime", I32, [f.args[0], time])
    return f.add(f.mul(f.load(time, I64, 0), _SECOND), f.load(time, I64, 1))


def _now(f: Function) -> Val:
    return f.call("pool_clock", I64, [const(I32, _MONOTONIC)])


def _is_stalled(f: Function) -> None:
    (pool,) = f.args
    alone_until = f.atomic_load(pool, I64, PoolWord.ALONE_UNTIL, order="monotonic")
    with f.if_(f.compare("eq", alone_until, 0)):
        f.ret(const(I1, 0))
    with f.if_(f.compare("lt", _now(f), alone_until)):
        f.ret(const(I1, 1))
    f.atomic_store(const(I64, 0), pool, PoolWord.ALONE_UNTIL, order="monotonic")
    f.ret(const(I1, 0))


def _clocks(f: Function) -> None:
    pool, clocks = f.args
    count = f.atomic_load(pool, I64, PoolWord.WORKERS, order="monotonic")
    with f.for_range(0, count, carried=[const(I64, 0)]) as loop:
        worker = f.atomic_load(pool, I64, f.add(loop.index, int(PoolWord.IDS)), order="monotonic")
        number = f.or_(f.shl(f.binary("xor", worker, const(I64, -1)), 3), _OF_THREAD)
        loop.next(f.add(loop.carried[0], f.call("pool_clock", I64, [f.convert("trunc", number, I32)])))
    f.store(_now(f), clocks, 0)
    f.store(loop.results[0], clocks, 1)
    f.ret()


def _waited(f: Function) -> None:
    pool, before = f.args
    after = f.alloca(I64, 2)
    f.call("pool_clocks", VOID, [pool, after])
    wait, ran = (f.sub(f.load(after, I64, word), f.load(before, I64, word)) for word in range(2))
    with f.if_(f.and_(f.compare("gt", wait, LEAST), f.compare("lt", f.mul(ran, 2), wait))):
        now = f.load(after, I64, 0)
        since = f.sub(now, f.atomic_load(pool, I64, PoolWord.SHARED_SINCE, order="monotonic"))
        last = f.atomic_load(pool, I64, PoolWord.PATIENCE, order="monotonic")
        more = f.smax(f.smin(f.mul(last, 2), MOST), 1)
        patience = f.select(f.compare("lt", since, f.mul(wait, SOON)), more, const(I64, 1))
        until = f.add(now, f.mul(wait, patience))
        f.atomic_store(patience, pool, PoolWord.PATIENCE, order="monotonic")
        f.atomic_store(until, pool, PoolWord.SHARED_SINCE, order="monotonic")
        f.atomic_store(until, pool, PoolWord.ALONE_UNTIL, order="monotonic")
    f.ret()
