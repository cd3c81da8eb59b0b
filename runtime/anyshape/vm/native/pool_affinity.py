"""Affinity of workers: they keep off the processor of the thread that they work for.

A scheduler that packs threads onto few processors, as those of virtual machines may, wakes a worker on its caller's processor: only one of
the two runs at a time then, and a shared call is slower than one alone. So a caller that is on the same processor as at the call before
takes that processor out of those that workers may run on. Nothing changes where that leaves fewer processors than there are workers, nor
for a caller that moves each time.

In: an open module. Out: `pool_keep_apart(pool)`, for the owner of the pool before it wakes anybody, and `pool_bring(worker)`, the opposite:
a worker is moved where its caller is.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I32, I64, PTR, VOID, Val, const
from anyshape.lower.target import Target
from anyshape.vm.native.pool_layout import Line, PoolWord, place
from anyshape.vm.run.policies import Policy, in_use

_AFFINITY = {"x86_64": (203, 204), "aarch64": (122, 123), "riscv64": (122, 123)}
"""Numbers of the system calls sched_setaffinity and sched_getaffinity on Linux, by processor (the kernel's tables of system calls)."""
_SET_WORDS = 16
"""Number of words of a set of processors: as many processors as the C library's `cpu_set_t` has room for."""
_NOWHERE = 0
"""Number for no processor: they are counted from 1 in the pool's words."""


def add_affinity(module: Module) -> None:
    """Defines both functions, which do nothing on systems other than Linux."""
    numbers = affinity_of(module.target)
    with module.function("pool_keep_off", VOID, [("pool", PTR), ("cpu", I64)], internal=True, noalias=False) as f:
        if numbers is not None:
            _keep_off(f, *numbers)
        f.ret()
    with module.function("pool_bring", VOID, [("worker", I64)], internal=True) as f:
        if numbers is not None:
            _bring(f, *numbers)
        f.ret()
    with module.function("pool_keep_apart", VOID, [("pool", PTR)], internal=True, noalias=False) as f:
        if numbers is not None and in_use(Policy.AFFINITY):
            _keep_apart(f)
        f.ret()


def at_line(f: FunctionBuilder, thread: Val, word: Line) -> Val:
    """Computes the place of a word in the line of a thread."""
    return f.add(f.mul(thread, int(Line.WORDS)), place(0, word))


def affinity_of(target: Target) -> tuple[int, int] | None:
    """The numbers of the system calls that set and get, if the target has them."""
    return _AFFINITY.get(target.triple.split("-")[0]) if "linux" in target.triple else None


def _keep_apart(f: FunctionBuilder) -> None:
    (pool,) = f.args
    cpu = f.add(_cpu(f), 1)
    before = f.atomic_load(pool, I64, PoolWord.SEEN_ON, order="monotonic")
    f.atomic_store(cpu, pool, PoolWord.SEEN_ON, order="monotonic")
    avoided = f.atomic_load(pool, I64, PoolWord.AVOIDED, order="monotonic")
    pinned = f.atomic_load(pool, I64, PoolWord.PINNED, order="monotonic")
    stays = f.and_(f.compare("eq", cpu, before), f.compare("ne", cpu, avoided))
    stays = f.and_(stays, f.compare("eq", pinned, 0))
    with f.if_(f.and_(stays, f.compare("gt", cpu, _NOWHERE))):
        f.atomic_store(cpu, pool, PoolWord.AVOIDED, order="monotonic")
        f.call("pool_keep_off", VOID, [pool, f.sub(cpu, 1)])


def _empty_set(f: FunctionBuilder) -> Val:
    set_of = f.alloca(I64, _SET_WORDS)
    for word in range(_SET_WORDS):
        f.store(const(I64, 0), set_of, word)
    return set_of


def _bring(f: FunctionBuilder, set_: int, get: int) -> None:
    """Moves the worker where its caller is, by letting it run nowhere else; then it may run wherever the caller may."""
    (worker,) = f.args
    cpu, size = _cpu(f), const(I64, 8 * _SET_WORDS)
    here, anywhere = _empty_set(f), _empty_set(f)
    got = _call(f, get, const(I64, 0), size, anywhere)
    with f.if_(f.and_(f.compare("gt", got, 0), f.compare("lt", cpu, 64 * _SET_WORDS, unsigned=True))):
        f.store(f.shl(const(I64, 1), f.and_(cpu, 63)), here, f.lshr(cpu, 6))
        for places in (here, anywhere):
            _call(f, set_, worker, size, places)


def _cpu(f: FunctionBuilder) -> Val:
    """Asks on which processor the thread is, counted from 0."""
    f.module.declare("sched_getcpu", I32, [])
    return f.convert("sext", f.call("sched_getcpu", I32, []), I64)


def _keep_off(f: FunctionBuilder, set_: int, get: int) -> None:
    """Lets workers run on all processors of the caller but this one, if those are enough for all workers."""
    pool, cpu = f.args
    set_of, size = _empty_set(f), const(I64, 8 * _SET_WORDS)
    got = _call(f, get, const(I64, 0), size, set_of)
    known = f.and_(f.compare("gt", got, 0), f.compare("lt", cpu, f.mul(size, 8)))
    with f.if_(known):
        at, bit = f.lshr(cpu, 6), f.shl(const(I64, 1), f.and_(cpu, 63))
        f.store(f.and_(f.load(set_of, I64, at), f.binary("xor", bit, const(I64, -1))), set_of, at)
        left = const(I64, 0)
        for k in range(_SET_WORDS):
            left = f.add(left, f.call_intrinsic("llvm.ctpop", I64, [f.load(set_of, I64, k)]))
        count = f.atomic_load(pool, I64, PoolWord.WORKERS, order="monotonic")
        with f.for_range(0, f.select(f.compare("ge", left, count), count, const(I64, 0))) as loop:
            worker = f.atomic_load(pool, I64, at_line(f, loop.index, Line.ID), order="monotonic")
            _call(f, set_, worker, size, set_of)


def _call(f: FunctionBuilder, number: int, thread: Val, size: Val, set_of: Val) -> Val:
    f.module.declare("syscall", I64, [I64, PTR, I64, I64, I64])
    arguments = [
        const(I64, number),
        f.convert("inttoptr", thread, PTR),
        size,
        f.convert("ptrtoint", set_of, I64),
        const(I64, 0),
    ]
    return f.call("syscall", I64, arguments)
