"""Fork and join in generated code: a kernel's parts shared between the thread that calls it and those of a pool.

In: an open module. Out: `anyshape_share(pool, kernel, scalars, buffers, scratch, stride, parts, slice, slices) -> status`;
`anyshape_sliced`, which does so slice by slice and looks in between whether the call is to stop (parts of slices are parts of the whole:
the shares of a loop nest); `anyshape_work(pool, thread)`, which is the life of a worker; and `anyshape_dismiss(pool)`, which ends all
workers. A part belongs to the thread that increments the claim word, so a call never waits for a
thread that has not begun: the caller runs the parts that no worker takes. Both sides spin for a while before they sleep. A kernel's
results do not depend on which thread runs which part, nor on how many parts there are; of several failures the lowest part's counts.

The claim word holds the job's epoch beside the part's number: a worker that read the fields of a job which has ended since cannot claim.
"""

from __future__ import annotations

from anyshape.failure_report import ASK
from anyshape.lower.llvm import polling
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.instructions import BasicBlock
from anyshape.lower.llvm.types import I8, I32, I64, PTR, VOID, Val, const
from anyshape.lower.target import Target
from anyshape.vm.native.pool_affinity import add_affinity, at_line
from anyshape.vm.native.pool_layout import MOST_THREADS, PART_BITS, Line, PoolWord
from anyshape.vm.native.pool_stalls import add_stalls
from anyshape.vm.run.policies import Policy, in_use

SHARE = [
    ("pool", PTR), ("kernel", PTR), ("scalars", PTR), ("buffers", PTR), ("scratch", PTR), ("stride", I64), ("parts", I64),
    ("slice", I64), ("slices", I64),
]  # fmt: skip
_POOL = [("pool", PTR)]
_WORK = [("pool", PTR), ("thread", I64)]
_OWNER = MOST_THREADS - 1
"""Number of the line of the thread that owns the pool, behind those of workers."""
_SPINS = 4000
"""Number of looks at the claim word, with a pause after each, before a thread sleeps: some 50 us, the time between kernels of a model."""
_LOOK = 200_000
"""Nanoseconds of sleep after which an owner looks whether workers run. `benchmarks.turns --beside 1` compares it with another value."""
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""Number of the system call on Linux, by processor (the kernel's tables of system calls)."""
_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129
_NONE_FAILED = -1


def add_pool(module: Module) -> None:
    """Defines the functions above, and those of affinity and stalls."""
    module.define("pool_pause", VOID, [], _pause, inline=True)
    sleep = [("word", PTR), ("seen", I64), ("most", I64)]
    module.define("pool_sleep", VOID, sleep, _sleep)
    module.define("pool_wake", VOID, [("word", PTR), ("count", I64)], _wake)
    add_affinity(module)
    add_stalls(module)
    module.define("anyshape_dismiss", VOID, _POOL, _dismiss, internal=False)
    module.define("pool_take_parts", VOID, _WORK, _take_parts)
    module.define("pool_fork_join", I32, SHARE, _fork_join)
    module.define("anyshape_share", I32, SHARE, _share, internal=False)
    sliced = [a for a in SHARE if a[0] != "slice"]
    module.define("anyshape_sliced", I32, sliced, _sliced, inline=False)
    module.define("anyshape_work", VOID, _WORK, _work, internal=False)


def spins() -> int:
    """Number of looks before a thread sleeps."""
    return _SPINS if in_use(Policy.SPINS) else 2


def futex_of(target: Target) -> int | None:
    """The number of the system call, if the target has it."""
    return _FUTEX.get(target.triple.split("-")[0]) if "linux" in target.triple else None


def _pause(f: FunctionBuilder) -> None:
    if f.target.triple.startswith("x86_64"):
        f.call_intrinsic("llvm.x86.sse2.pause", VOID, [])
    elif f.target.triple.startswith(("aarch64", "arm64")):
        f.call_intrinsic("llvm.aarch64.hint", VOID, [const(I32, 1)])
    f.ret()


def _system_call(f: FunctionBuilder, word: Val, op: int, value: Val, time: Val) -> None:
    number = futex_of(f.target)
    if number is None:
        return
    f.module.declare("syscall", I64, [I64, PTR, I64, I64, I64])
    f.call("syscall", I64, [const(I64, number), word, const(I64, op), value, time])


def _sleep(f: FunctionBuilder) -> None:
    """Sleeps until the word is no longer what was seen, for so many nanoseconds at most (0: any); it may wake for no reason. Where there
    is no futex, it sleeps for the rest of a time slice."""
    word, seen, most = f.args
    if futex_of(f.target) is None:
        f.module.declare("sched_yield", I32, [])
        f.call("sched_yield", I32, [])
    time = f.alloca(I64, 2)
    f.store(const(I64, 0), time, 0)
    f.store(most, time, 1)
    address = f.select(f.compare("eq", most, 0), const(I64, 0), f.convert("ptrtoint", time, I64))
    _system_call(f, word, _WAIT_PRIVATE, seen, address)
    f.ret()


def _wake(f: FunctionBuilder) -> None:
    word, count = f.args
    _system_call(f, word, _WAKE_PRIVATE, count, const(I64, 0))
    f.ret()


def _dismiss(f: FunctionBuilder) -> None:
    """Makes all workers end."""
    (pool,) = f.args
    f.atomic_store(const(I64, 0), pool, PoolWord.WORKERS)
    f.atomic_store(const(I64, 1), pool, PoolWord.STOP)
    f.atomic_update("add", pool, const(I64, 1), PoolWord.EPOCH)
    f.call("pool_wake", VOID, [_word(f, pool, PoolWord.EPOCH), const(I64, MOST_THREADS)])
    f.ret()


def _word(f: FunctionBuilder, pool: Val, word: PoolWord) -> Val:
    return f.gep(pool, int(word), I64)


def _parts_left(f: FunctionBuilder, claim: Val) -> Val:
    """Tests whether the claim word has a part that no thread has taken (i1)."""
    mask = (1 << PART_BITS) - 1
    parts = f.and_(f.lshr(claim, PART_BITS), mask)
    return f.compare("lt", f.and_(claim, mask), parts)


def _take_parts(f: FunctionBuilder) -> None:
    """Takes and runs parts until none is left."""
    pool, thread = f.args
    holds = at_line(f, thread, Line.HOLDS)
    mask = (1 << PART_BITS) - 1
    again, end, run = f.new_block(), f.new_block(), f.new_block()
    f.jump(again)
    f.start(again)
    claim = f.atomic_load(pool, I64, PoolWord.CLAIM)
    with f.if_(f.not_(_parts_left(f, claim))):
        f.jump(end)
    fields = (
        PoolWord.KERNEL, PoolWord.SCALARS, PoolWord.BUFFERS, PoolWord.SCRATCH, PoolWord.STRIDE, PoolWord.FIRST, PoolWord.TOTAL
    )  # fmt: skip
    kernel, scalars, buffers, scratch, stride, first, total = (
        f.atomic_load(pool, I64, w, order="monotonic") for w in fields
    )
    taken = f.compare_exchange(pool, claim, f.add(claim, 1), I64, PoolWord.CLAIM)
    f.branch(taken, run, again)
    f.start(run)
    part, parts = f.and_(claim, mask), f.and_(f.lshr(claim, PART_BITS), mask)
    kernel, scalars, buffers, scratch = (f.convert("inttoptr", v, PTR) for v in (kernel, scalars, buffers, scratch))
    own = f.gep(scratch, f.mul(stride, part), I8)
    f.atomic_store(const(I64, 1), pool, holds, order="release")
    status = f.call_pointer(kernel, I32, [scalars, buffers, own, f.add(first, part), total])
    f.atomic_store(const(I64, 0), pool, holds, order="release")
    with f.if_(f.compare("ne", status, 0)):
        failure = f.or_(f.shl(part, 32), f.convert("zext", status, I64))
        f.atomic_update("umin", pool, failure, PoolWord.ERROR)
    done = f.add(f.atomic_update("add", pool, const(I64, 1), PoolWord.DONE), 1)
    waiting = f.atomic_load(pool, I64, PoolWord.WAITING)
    with f.if_(f.and_(f.compare("eq", done, parts), f.compare("ne", waiting, 0))):
        f.call("pool_wake", VOID, [_word(f, pool, PoolWord.DONE), const(I64, 1)])
    f.jump(again)
    f.start(end)
    f.ret()


def _share(f: FunctionBuilder) -> None:
    """Shares a kernel with the pool. The caller runs it alone where there are no workers, and where another call has the pool."""
    pool, kernel, scalars, buffers, scratch, stride, parts, slice_, slices = f.args
    workers = f.atomic_load(pool, I64, PoolWord.WORKERS, order="monotonic")
    parts = f.smin(parts, f.add(workers, 1))
    alone, ours = f.new_block(), f.new_block()
    with f.if_(f.compare("le", parts, 1)):
        f.jump(alone)
    f.branch(f.compare_exchange(pool, 0, 1, I64, PoolWord.OWNER), ours, alone)
    f.start(alone)
    f.ret(f.call_pointer(kernel, I32, [scalars, buffers, scratch, slice_, slices]))
    f.start(ours)
    status = f.call("pool_fork_join", I32, [pool, kernel, scalars, buffers, scratch, stride, parts, slice_, slices])
    f.atomic_store(const(I64, 0), pool, PoolWord.OWNER)
    f.ret(status)


def _fork_join(f: FunctionBuilder) -> None:
    pool, kernel, scalars, buffers, scratch, stride, parts, slice_, slices = f.args
    f.call("pool_keep_apart", VOID, [pool])
    fields = {PoolWord.KERNEL: kernel, PoolWord.SCALARS: scalars, PoolWord.BUFFERS: buffers, PoolWord.SCRATCH: scratch}
    for word, value in fields.items():
        f.atomic_store(f.convert("ptrtoint", value, I64), pool, word, order="monotonic")
    numbers = {PoolWord.STRIDE: stride, PoolWord.FIRST: f.mul(slice_, parts), PoolWord.TOTAL: f.mul(slices, parts)}
    for word, value in numbers.items():
        f.atomic_store(value, pool, word, order="monotonic")
    f.atomic_store(const(I64, 0), pool, PoolWord.DONE)
    f.atomic_store(const(I64, _NONE_FAILED), pool, PoolWord.ERROR)
    epoch = f.add(f.atomic_load(pool, I64, PoolWord.EPOCH), 1)
    f.atomic_store(f.or_(f.shl(epoch, 32), f.shl(parts, PART_BITS)), pool, PoolWord.CLAIM)
    f.atomic_store(epoch, pool, PoolWord.EPOCH)  # behind the claim: who sees the new epoch sees the job
    with f.if_(f.compare("gt", f.atomic_load(pool, I64, PoolWord.SLEEPERS), 0)):
        f.call("pool_wake", VOID, [_word(f, pool, PoolWord.EPOCH), f.sub(parts, 1)])
    f.call("pool_take_parts", VOID, [pool, const(I64, _OWNER)])
    _join(f, pool, parts, scalars)
    error = f.atomic_load(pool, I64, PoolWord.ERROR)
    status = f.select(f.compare("eq", error, _NONE_FAILED), const(I64, 0), error)
    f.ret(f.convert("trunc", status, I32))


def _join(f: FunctionBuilder, pool: Val, parts: Val, scalars: Val) -> None:
    """Waits until all parts have ended: it spins for a while, then sleeps. Now and then it looks at the workers that have parts, and asks
    whether the call is to stop, which the parts then read in the state of the call."""
    looked_at = f.alloca(I64, 1)
    f.store(const(I64, 0), looked_at)
    joined, looked = f.new_block(), f.new_block()

    def done() -> Val:
        return f.compare("eq", f.atomic_load(pool, I64, PoolWord.DONE), parts)

    def spin(end: BasicBlock) -> None:
        with f.for_range(0, spins() // 2, at_least_once=True):
            with f.if_(done()):
                f.jump(end)
            f.call("pool_pause", VOID, [])

    spin(joined)
    f.call("pool_look", VOID, [pool])
    spin(looked)
    f.atomic_store(const(I64, 1), pool, PoolWord.WAITING)
    asleep, awake = f.new_block(), f.new_block()
    f.jump(asleep)
    f.start(asleep)
    seen = f.atomic_load(pool, I64, PoolWord.DONE)
    with f.if_(f.compare("eq", seen, parts)):
        f.jump(awake)
    f.call("pool_look", VOID, [pool])
    f.call("pool_sleep", VOID, [_word(f, pool, PoolWord.DONE), seen, const(I64, _LOOK)])
    now = f.atomic_load(f.module.declare_word(polling.SYMBOL), I64, order="monotonic")
    with f.if_(f.compare("ne", now, f.load(looked_at, I64))):
        f.store(now, looked_at)
        _ask(f, scalars)
    f.jump(asleep)
    f.start(awake)
    f.atomic_store(const(I64, 0), pool, PoolWord.WAITING)
    f.jump(looked)
    f.start(looked)
    f.call("pool_end_looking", VOID, [pool])
    f.jump(joined)
    f.start(joined)


def _ask(f: FunctionBuilder, scalars: Val) -> Val:
    """Asks whether the call is to stop, an i32; 0 where there is no function to ask."""
    ask = f.load(scalars, PTR, ASK)
    with f.if_else(f.compare("ne", f.convert("ptrtoint", ask, I64), 0)) as branch:
        with branch.then():
            branch.give(f.call_pointer(f.load(ask, PTR), I32, [f.load(ask, PTR, 1)]))
        with branch.otherwise():
            branch.give(const(I32, 0))
    return branch.results[0]


def _sliced(f: FunctionBuilder) -> None:
    pool, kernel, scalars, buffers, scratch, stride, parts, slices = f.args
    ticks = f.module.declare_word(polling.SYMBOL)
    seen = f.alloca(I64, 1)
    f.store(f.atomic_load(ticks, I64, order="monotonic"), seen)
    with f.for_range(0, slices) as each:
        with f.if_else(f.compare("le", parts, 1)) as branch:
            with branch.then():
                branch.give(f.call_pointer(kernel, I32, [scalars, buffers, scratch, each.index, slices]))
            with branch.otherwise():
                shared = [pool, kernel, scalars, buffers, scratch, stride, parts, each.index, slices]
                branch.give(f.call("anyshape_share", I32, shared))
        with f.if_(f.compare("ne", branch.results[0], 0)):
            f.ret(branch.results[0])
        now = f.atomic_load(ticks, I64, order="monotonic")
        with f.if_(f.compare("ne", now, f.load(seen, I64))):
            f.store(now, seen)
            with f.if_(f.compare("ne", _ask(f, scalars), 0)):
                f.ret(const(I32, polling.STOPPED))
    f.ret(const(I32, 0))


def _work(f: FunctionBuilder) -> None:
    pool, thread = f.args
    idle, work, sleep, end = (f.new_block() for _ in range(4))

    def look(claim: Val) -> None:
        with f.if_(_parts_left(f, claim)):
            f.jump(work)

    f.jump(idle)
    f.start(idle)
    with f.for_range(0, spins(), at_least_once=True):
        look(f.atomic_load(pool, I64, PoolWord.CLAIM))
        f.call("pool_pause", VOID, [])
    f.jump(sleep)
    f.start(work)
    f.call("pool_take_parts", VOID, [pool, thread])
    f.branch(f.compare("eq", f.atomic_load(pool, I64, PoolWord.BROUGHT), 0), idle, sleep)
    f.start(sleep)
    seen = f.atomic_load(pool, I64, PoolWord.EPOCH)
    f.atomic_update("add", pool, const(I64, 1), PoolWord.SLEEPERS)
    nothing = f.not_(_parts_left(f, f.atomic_load(pool, I64, PoolWord.CLAIM)))
    going_on = f.compare("eq", f.atomic_load(pool, I64, PoolWord.STOP), 0)
    with f.if_(f.and_(nothing, going_on)):
        f.call("pool_sleep", VOID, [_word(f, pool, PoolWord.EPOCH), seen, const(I64, 0)])
    f.atomic_update("sub", pool, const(I64, 1), PoolWord.SLEEPERS)
    f.branch(f.compare("eq", f.atomic_load(pool, I64, PoolWord.STOP), 0), idle, end)
    f.start(end)
    f.ret()
