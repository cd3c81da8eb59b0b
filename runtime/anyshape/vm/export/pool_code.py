"""Code of kernels in parts, which a thread pool of the caller runs.

In: an open module. Out: `share(pool, kernel, scalars, buffers, scratch, each, parts) -> status`. The pool is `anyshape_pool` of the header:
`threads, context, parallel_for`, or NULL. A job lies on the stack of the call that waits for it. Of several parts that fail, the first
one's status is returned, in whatever order they run.
"""

from __future__ import annotations

from enum import IntEnum

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I8, I32, I64, PTR, VOID, Val, const
from anyshape.vm.native import MOST_THREADS

CONTEXT = 8
"""Bytes from the head of a pool to its context; the address of its function follows."""
_NONE_FAILED = (1 << 63) - 1
SHARE = "pool_share"


class _Job(IntEnum):
    """Words of a job; addresses are words too."""

    KERNEL = 0
    SCALARS = 1
    BUFFERS = 2
    SCRATCH = 3
    EACH = 4
    PARTS = 5
    FAILURE = 6
    """Number of the first part that failed, above 32 bits of its status."""


def define_pool(module: Module) -> None:
    module.define("pool_part", VOID, [("job", PTR), ("part", I64)], _part, inline=False)
    places = [(name, PTR) for name in ("pool", "kernel", "scalars", "buffers", "scratch")]
    module.define(SHARE, I32, [*places, ("each", I64), ("parts", I64)], _share, inline=False)


def threads_of(f: FunctionBuilder, pool: Val) -> Val:
    """How many threads a pool has, from 1 to the most that there can be; 1 for NULL."""
    with f.if_else(f.compare("eq", f.convert("ptrtoint", pool, I64), 0)) as branch:
        with branch.then():
            branch.give(const(I64, 1))
        with branch.otherwise():
            branch.give(limited(f, f.load(pool, I64)))
    return branch.results[0]


def lacks_function(f: FunctionBuilder, pool: Val) -> Val:
    """Whether a pool has several threads, and no function to share parts over them."""
    with f.if_else(f.compare("gt", threads_of(f, pool), 1)) as branch:
        with branch.then():
            branch.give(f.compare("eq", f.convert("ptrtoint", f.load(f.gep(pool, CONTEXT, I8), PTR, 1), I64), 0))
        with branch.otherwise():
            branch.give(const(I1, 0))
    return branch.results[0]


def limited(f: FunctionBuilder, threads: Val) -> Val:
    return f.smin(f.smax(threads, const(I64, 1)), const(I64, MOST_THREADS))


def _part(f: FunctionBuilder) -> None:
    """Runs one part; what a pool calls."""
    job, part = f.args

    def address(word: _Job) -> Val:
        return f.convert("inttoptr", f.load(job, I64, word), PTR)

    offset = f.mul(f.load(job, I64, _Job.EACH), part)
    own = f.convert("inttoptr", f.add(f.load(job, I64, _Job.SCRATCH), offset), PTR)
    arguments = [address(_Job.SCALARS), address(_Job.BUFFERS), own, part, f.load(job, I64, _Job.PARTS)]
    status = f.call_pointer(address(_Job.KERNEL), I32, arguments)
    with f.if_(f.compare("ne", status, 0)):
        failure = f.or_(f.shl(part, 32), f.convert("zext", status, I64))
        f.atomic_update("umin", job, failure, _Job.FAILURE)
    f.ret()


def _share(f: FunctionBuilder) -> None:
    pool, kernel, scalars, buffers, scratch, each, parts = f.args
    alone = f.or_(f.compare("le", parts, 1), f.compare("eq", f.convert("ptrtoint", pool, I64), 0))
    with f.if_(alone):
        f.ret(f.call_pointer(kernel, I32, [scalars, buffers, scratch, const(I64, 0), const(I64, 1)]))
    job = f.alloca(I64, len(_Job), 8)
    words = {_Job.KERNEL: kernel, _Job.SCALARS: scalars, _Job.BUFFERS: buffers, _Job.SCRATCH: scratch}
    for word, address in words.items():
        f.store(f.convert("ptrtoint", address, I64), job, word)
    for word, number in ((_Job.EACH, each), (_Job.PARTS, parts), (_Job.FAILURE, const(I64, _NONE_FAILED))):
        f.store(number, job, word)
    pointers = f.gep(pool, CONTEXT, I8)
    context, parallel_for = f.load(pointers, PTR), f.load(pointers, PTR, 1)
    f.call_pointer(parallel_for, VOID, [context, parts, Val("@pool_part", PTR), job])
    failure = f.atomic_load(job, I64, _Job.FAILURE)
    failed = f.compare("ne", failure, _NONE_FAILED)
    f.ret(f.select(failed, f.convert("trunc", failure, I32), const(I32, 0)))
