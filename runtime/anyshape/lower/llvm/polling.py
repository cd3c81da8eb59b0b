"""Polls of kernels that take long: now and then, they test whether their call is to stop.

In: an open kernel. Out: polls in it. A poll compares a word that a thread counts up (`vm/native/ticker.py`) with the value that the kernel
saw last: two loads and a branch. Only where the word has changed does the kernel call its caller. The first of the words ahead of its
scalars (`anyshape.failure_report`) is the address of two words, a function to call and its argument; 0 where there is none. A kernel that
is to stop returns `STOPPED`. Three words follow: a function that shares one of the kernel's over a pool of threads, that pool, or 0, and
how many threads the call may use.
"""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from anyshape.failure_report import ASK
from anyshape.lower.llvm.builder import FunctionBuilder
from anyshape.lower.llvm.types import I32, I64, PTR, Val, const

SYMBOL = "anyshape_ticks"
WORDS = (ctypes.c_int64 * 8)()
"""The ticks, and what `vm/native/ticker.py` keeps beside them."""
ADDRESS = ctypes.addressof(WORDS)
Pause = AbstractContextManager[None]
"""Code that gives something up, and takes it back where the kernel goes on."""
STOPPED = -1
"""The status of a kernel that stopped because a poll said so."""


_SHARE, _POOL, _THREADS = 2, 3, 4
"""The words behind those of polls."""


@dataclass(frozen=True, slots=True)
class SharedPool:
    """The caller's pool of threads: the function that shares something over it, the pool, and the number of threads, 1 without a pool."""

    function: Val
    address: Val
    threads: Val

    @staticmethod
    def of_caller(f: FunctionBuilder) -> SharedPool:
        """Reads the words of the caller, if there are any."""
        words = f.load(f.args[0], PTR, ASK)
        nothing = const(I64, 0)
        with f.if_else(f.compare("ne", f.convert("ptrtoint", words, I64), 0)) as known:
            with known.then():
                pool = f.load(words, I64, _POOL)
                threads = f.select(f.compare("ne", pool, 0), f.load(words, I64, _THREADS), const(I64, 1))
                known.give(f.load(words, I64, _SHARE), pool, threads)
            with known.otherwise():
                known.give(nothing, nothing, const(I64, 1))
        function, pool, threads = known.results
        return SharedPool(f.convert("inttoptr", function, PTR), f.convert("inttoptr", pool, PTR), threads)

    def share(self, f: FunctionBuilder, name: str, scratch: Val, stride: Val, parts: Val) -> None:
        """Runs a function of the module, one that has a kernel's parameters, in so many parts, whose scratch is `stride` bytes apart.
        The kernel ends with the status of one that fails."""
        whole = const(I64, 0), const(I64, 1)
        status = f.call_pointer(
            self.function, I32, [self.address, Val(f"@{name}", PTR), *f.args[:2], scratch, stride, parts, *whole]
        )
        with f.if_(f.compare("ne", status, 0)):
            f.ret(status)


class Polls:
    """The polls of one kernel; constructed where the kernel begins. `deep`: each innermost loop polls, however many loops are around it."""

    def __init__(self, f: FunctionBuilder, deep: bool = False) -> None:
        self.f, self.deep = f, deep
        self._ticks = f.module.declare_word(SYMBOL)
        self._seen = f.alloca(I64, 1, 8)
        f.store(self._now(), self._seen)

    def _now(self) -> Val:
        return self.f.atomic_load(self._ticks, I64, order="monotonic")

    def poll(self, pause: Pause | None = None) -> None:
        """Ends the kernel if its call is to stop. `pause`: what is around the call of the caller, which may run any code."""
        f = self.f
        now = self._now()
        ticked, after = f.new_block(), f.new_block()
        f.expect(f.compare("eq", now, f.load(self._seen, I64)), after, ticked)
        f.start(ticked)
        f.store(now, self._seen)
        ask = f.load(f.args[0], PTR, ASK)
        with f.if_(f.compare("ne", f.convert("ptrtoint", ask, I64), 0)), nullcontext() if pause is None else pause:
            stop = f.call_pointer(f.load(ask, PTR), I32, [f.load(ask, PTR, 1)])
            with f.if_(f.compare("ne", stop, 0)):
                f.ret(const(I32, STOPPED))
        f.jump(after)
        f.start(after)
