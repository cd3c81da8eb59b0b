"""Trials of sharing: kernels are timed alone and shared now and then, and run alone until the next trial where sharing does not pay.

Two processors may be two halves of one core, have no common cache, or be held back by a limit that a container sets; a host may make them
so for a while, and no interface says so. So one of some hundred kernels is timed alone, the same kernel at the same sizes soon after
shared, and sharing goes on while it takes less time by a twentieth. Results are the same either way.

A trial has stages. Kernels run alone for `_STEP` nanoseconds, each put down by its address and its scalars. Then they are shared and not
timed, until workers that went to sleep are awake: beside processes that compute that may take long, and the owner runs all parts itself
meanwhile. Then they are shared and timed, until those that were put down have run again for as long.

In: an open module. Out, for the owner of the pool: `pool_choose(pool)`, whether (1) or not (0) the next kernel should run alone;
`pool_start(pool)`, the time at which it begins, 0 outside of a trial; `pool_tell(pool, start, kernel, scalars, count)`, at its end.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I64, PTR, VOID, Val, const
from anyshape.vm.native.clock_code import nanoseconds
from anyshape.vm.native.pool_layout import TABLE_PLACES, PoolWord, Stage
from anyshape.vm.run.policies import Policy, in_use

_STEP = 100_000
"""Nanoseconds of a stage: some ten kernels of a small model, and about what a worker needs to wake up in a virtual machine."""
_WAKES = 10_000_000
"""Nanoseconds of kernels after which a trial no longer waits for workers: a few time slices of the system."""
_EVERY = 256
"""Number of kernels between trials for each that is timed alone: a trial costs 1/256 of what sharing brings."""
_PATIENCE = 1024
"""Number of kernels that may be shared before those that were timed alone run again."""
_OUTLIER = 2
"""Factor: a kernel counts as at most so many times as long shared as alone, and alone as shared. More means that a thread lost its
processor, or that there are more than two threads, and would decide nothing else."""
_KEEPS = 7, 8
"""Fraction of the sums that goes on to the next trial: some eight trials decide."""
_PAYS = 19, 20
"""Fraction: sharing pays where it takes less than this of the time alone. It takes processors from other processes, which no trial sees."""
_MIX = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 over the golden ratio, odd: multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4)."""


TELL = [("pool", PTR), ("start", I64), ("kernel", PTR), ("scalars", PTR), ("count", I64)]


def add_trials(module: Module) -> None:
    """Defines the three functions; on systems other than Linux every kernel is shared, without trials."""
    pool = [("pool", PTR)]
    if "linux" in module.target.triple and in_use(Policy.TRIALS):
        with module.function("pool_now", I64, [], internal=True, inline=False) as f:
            f.ret(nanoseconds(f))
        for name, body in (("pool_begin_trial", _begin), ("pool_end_trial", _end)):
            with module.function(name, VOID, pool, internal=True, inline=False, noalias=False) as f:
                body(f)
        choose, start, tell = _choose, _start, _tell
    else:
        choose = start = tell = _nothing
    for name, body in (("pool_choose", choose), ("pool_start", start)):
        with module.function(name, I64, pool, internal=True, noalias=False) as f:
            body(f)
    with module.function("pool_tell", VOID, TELL, internal=True, inline=False, noalias=False) as f:
        tell(f)


def _nothing(f: FunctionBuilder) -> None:
    f.ret(const(I64, 0) if f.result == I64 else None)


def _choose(f: FunctionBuilder) -> None:
    """Counts kernels down to the next trial."""
    (pool,) = f.args
    stage = f.load(pool, I64, PoolWord.STAGE)
    with f.if_(f.compare("ne", stage, Stage.NONE)):
        f.ret(f.convert("zext", f.compare("eq", stage, Stage.ALONE), I64))
    left = f.sub(f.load(pool, I64, PoolWord.LEFT), 1)
    f.store(left, pool, PoolWord.LEFT)
    with f.if_(f.compare("lt", left, 0)):
        f.call("pool_begin_trial", VOID, [pool])
        f.ret(const(I64, 1))
    f.ret(f.load(pool, I64, PoolWord.ALONE))


def _start(f: FunctionBuilder) -> None:
    (pool,) = f.args
    with f.if_(f.compare("ne", f.load(pool, I64, PoolWord.STAGE), Stage.NONE)):
        f.ret(f.call("pool_now", I64, []))
    f.ret(const(I64, 0))


def _begin(f: FunctionBuilder) -> None:
    (pool,) = f.args
    with f.for_range(0, 2 * TABLE_PLACES) as each:
        f.store(const(I64, 0), pool, f.add(each.index, int(PoolWord.TABLE)))
    _go_to(f, pool, Stage.ALONE)
    f.ret()


def _go_to(f: FunctionBuilder, pool: Val, stage: Stage) -> None:
    for word, value in ((PoolWord.STAGE, stage), (PoolWord.SPENT, 0), (PoolWord.KERNELS, 0)):
        f.store(const(I64, value), pool, word)


def _add(f: FunctionBuilder, pool: Val, word: PoolWord, value: Val | int) -> Val:
    total = f.add(f.load(pool, I64, word), value)
    f.store(total, pool, word)
    return total


def _tell(f: FunctionBuilder) -> None:
    """Puts down the time of a kernel, and goes on to the next stage when this one has had enough kernels."""
    pool, start, kernel, scalars, count = f.args
    taken = f.smax(f.sub(f.call("pool_now", I64, []), start), 1)
    stage, kernels = f.load(pool, I64, PoolWord.STAGE), _add(f, pool, PoolWord.KERNELS, 1)
    name = _name(f, kernel, scalars, count)
    place = f.add(f.mul(f.lshr(name, 65 - TABLE_PLACES.bit_length()), 2), int(PoolWord.TABLE))
    with f.if_(f.compare("eq", stage, Stage.ALONE)):
        f.store(name, pool, place)
        f.store(taken, pool, f.add(place, 1))
        f.store(kernels, pool, PoolWord.TIMED)
    with f.if_(f.compare("eq", stage, Stage.SHARED)):
        _compare(f, pool, name, place, taken)
        known = f.compare("ge", f.load(pool, I64, PoolWord.SPENT), _STEP)
        with f.if_(f.or_(known, f.compare("ge", kernels, _PATIENCE))):
            f.call("pool_end_trial", VOID, [pool])
        f.ret()
    spent = _add(f, pool, PoolWord.SPENT, taken)
    with f.if_(f.compare("lt", spent, _STEP)):
        f.ret()
    with f.if_(f.compare("eq", stage, Stage.ALONE)):
        _go_to(f, pool, Stage.WAKING)
        f.ret()
    there = f.compare("le", f.load(pool, I64, PoolWord.TOOK), 1)
    with f.if_(f.or_(there, f.compare("ge", spent, _WAKES))):
        _go_to(f, pool, Stage.SHARED)
    f.ret()


def _name(f: FunctionBuilder, kernel: Val, scalars: Val, count: Val) -> Val:
    """Hashes a kernel and its sizes; the high bits are as well mixed as any."""
    first = f.mul(f.convert("ptrtoint", kernel, I64), _MIX)
    with f.for_range(0, count, carried=[first]) as each:
        so_far = f.xor(each.carried[0], f.lshr(each.carried[0], 32))
        each.next(f.mul(f.xor(so_far, f.load(scalars, I64, each.index)), _MIX))
    return each.results[0]


def _compare(f: FunctionBuilder, pool: Val, name: Val, place: Val, shared: Val) -> None:
    """Adds both times of a kernel to the sums, if it was timed alone."""
    alone = f.load(pool, I64, f.add(place, 1))
    same = f.and_(f.compare("eq", f.load(pool, I64, place), name), f.compare("gt", alone, 0))
    with f.if_(same):
        for word, time, other in ((PoolWord.SUM_ALONE, alone, shared), (PoolWord.SUM_SHARED, shared, alone)):
            _add(f, pool, word, f.smin(time, f.mul(other, _OUTLIER)))
        _add(f, pool, PoolWord.SPENT, alone)


def _end(f: FunctionBuilder) -> None:
    """Decides whether sharing pays, and when the next trial is. Where no kernel could be compared, kernels are shared."""
    (pool,) = f.args
    alone, shared = (f.load(pool, I64, word) for word in (PoolWord.SUM_ALONE, PoolWord.SUM_SHARED))
    compared = f.compare("gt", f.load(pool, I64, PoolWord.SPENT), 0)
    costs = f.compare("ge", f.mul(shared, _PAYS[1]), f.mul(alone, _PAYS[0]))
    f.store(f.convert("zext", f.and_(compared, costs), I64), pool, PoolWord.ALONE)
    for word, total in ((PoolWord.SUM_ALONE, alone), (PoolWord.SUM_SHARED, shared)):
        f.store(f.sdiv(f.mul(total, _KEEPS[0]), _KEEPS[1]), pool, word)
    f.store(f.mul(f.load(pool, I64, PoolWord.TIMED), _EVERY), pool, PoolWord.LEFT)
    f.store(const(I64, Stage.NONE), pool, PoolWord.STAGE)
    f.ret()
