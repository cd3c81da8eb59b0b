"""Stopping of calls in generated code: the clock that makes calls look, and the look itself.

In: an open module. Out: `anyshape_tick(clock)`, the life of the thread that counts ticks; `anyshape_look(state) -> i32`, which loops and
kernels call after a tick: whether the call is to stop, because it was cancelled, its deadline is over, or a signal's handler raised.

A call that looks sets the word LOOKED. The thread ticks every 20 ms; after a second in which no call looked it sleeps until a call begins
that finds it asleep. It sets the word ASLEEP before its last tick: a call that did not see the word sees the tick, and wakes the thread.

Handlers of signals run in Python's main thread, with the interpreter's lock, as always: a call in that thread takes the lock and asks
Python, so any handler of a user's, of any signal, does what it does elsewhere, exceptions included. Where another thread holds the lock
for long, Python is asked more seldom, so that waiting costs no more than a twentieth.
"""

from __future__ import annotations

from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I32, I64, PTR, VOID, Val, const
from anyshape.vm.native.clock_code import nanoseconds
from anyshape.vm.native.layout import Stop, Word
from anyshape.vm.native.pool_code import futex_of
from anyshape.vm.native.ticker import ASLEEP_NOW, PERIOD, ClockWord

_IDLE_TICKS = 50
_SHARE_OF_LOCK = 20
PYTHON = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")
"""Functions of Python that `anyshape_look` calls."""


def add_stops(module: Module) -> None:
    """Defines both functions; `pool_sleep` and `pool_wake` are defined already."""
    with module.function("stop_now", I64, [], internal=True, inline=False) as f:
        f.ret(nanoseconds(f))
    with module.function("anyshape_wake", VOID, [("clock", PTR)], inline=False, noalias=False) as f:
        (clock,) = f.args
        f.atomic_store(const(I64, 0), clock, ClockWord.ASLEEP)
        f.call("pool_wake", VOID, [f.gep(clock, int(ClockWord.ASLEEP), I64), const(I64, 1)])
        f.ret()
    module.define("anyshape_tick", VOID, [("clock", PTR)], _tick, internal=False)
    module.define("stop_signals", I1, [("state", PTR)], _signals, inline=False)
    module.define("anyshape_look", I32, [("state", PTR)], _look, inline=False, internal=False)


def _pause(f: FunctionBuilder, clock: Val) -> None:
    """Sleeps for one period, or until the thread is to end."""
    if futex_of(f.target) is not None:
        stop = f.gep(clock, int(ClockWord.STOP), I64)
        f.call("pool_sleep", VOID, [stop, const(I64, 0), const(I64, PERIOD)])
        return
    f.module.declare("nanosleep", I32, [PTR, PTR])
    time = f.alloca(I64, 2)
    f.store(const(I64, 0), time, 0)
    f.store(const(I64, PERIOD), time, 1)
    f.call("nanosleep", I32, [time, f.convert("inttoptr", const(I64, 0), PTR)])


def _tick(f: FunctionBuilder) -> None:
    (clock,) = f.args
    left = f.alloca(I64, 1)
    f.store(const(I64, _IDLE_TICKS), left)
    awake, end = f.new_block(), f.new_block()

    def tick() -> None:
        _pause(f, clock)
        with f.if_(f.compare("ne", f.atomic_load(clock, I64, ClockWord.STOP), 0)):
            f.jump(end)
        f.atomic_update("add", clock, const(I64, 1), ClockWord.TICKS)

    def go_on_if_wanted() -> None:
        with f.if_(f.compare("ne", f.atomic_update("xchg", clock, const(I64, 0), ClockWord.LOOKED), 0)):
            f.atomic_store(const(I64, 0), clock, ClockWord.ASLEEP)
            f.store(const(I64, _IDLE_TICKS), left)
            f.jump(awake)

    f.jump(awake)
    f.start(awake)
    tick()
    go_on_if_wanted()
    idle = f.sub(f.load(left, I64), 1)
    f.store(idle, left)
    with f.if_(f.compare("ge", idle, 0)):
        f.jump(awake)
    if futex_of(f.target) is None:
        f.jump(awake)
    else:
        f.atomic_store(const(I64, ASLEEP_NOW), clock, ClockWord.ASLEEP)
        tick()
        go_on_if_wanted()
        asleep = f.new_block()
        f.jump(asleep)
        f.start(asleep)
        word = f.gep(clock, int(ClockWord.ASLEEP), I64)
        f.call("pool_sleep", VOID, [word, const(I64, ASLEEP_NOW), const(I64, 0)])
        with f.if_(f.compare("ne", f.atomic_load(clock, I64, ClockWord.STOP), 0)):
            f.jump(end)
        with f.if_(f.compare("ne", f.atomic_load(clock, I64, ClockWord.ASLEEP), 0)):
            f.jump(asleep)
        f.store(const(I64, _IDLE_TICKS), left)
        f.jump(awake)
    f.start(end)
    f.ret()


def _look(f: FunctionBuilder) -> None:
    (state,) = f.args
    clock = f.load(state, PTR, Word.CLOCK)
    f.atomic_store(const(I64, 1), clock, ClockWord.LOOKED)
    with f.if_(f.compare("eq", f.atomic_load(clock, I64, ClockWord.ASLEEP), ASLEEP_NOW)):
        f.call("anyshape_wake", VOID, [clock])
    cancels = f.atomic_load(f.load(state, PTR, Word.CANCELS), I64)
    with f.if_(f.compare("ne", cancels, f.load(state, I64, Word.CANCELS_SEEN))):
        f.compare_exchange(state, 0, Stop.CANCELLED, I64, Word.STOP)
    deadline = f.load(state, I64, Word.DEADLINE)
    with f.if_(f.compare("ne", deadline, 0)), f.if_(f.compare("ge", f.call("stop_now", I64, []), deadline)):
        f.compare_exchange(state, 0, Stop.DEADLINE, I64, Word.STOP)
    with f.if_(f.compare("ne", f.atomic_load(state, I64, Word.STOP), 0)):
        f.ret(const(I32, 1))
    f.module.declare("pthread_self", I64, [])
    is_main = f.compare("eq", f.call("pthread_self", I64, []), f.atomic_load(clock, I64, ClockWord.MAIN))
    with f.if_(is_main), f.if_(f.call("stop_signals", I1, [state])):
        f.compare_exchange(state, 0, Stop.RAISED, I64, Word.STOP)
        f.ret(const(I32, 1))
    f.ret(const(I32, 0))


def _signals(f: FunctionBuilder) -> None:
    """Runs handlers of signals that wait; returns whether one raised an exception, which is kept in the state."""
    (state,) = f.args
    for name, result, types in (
        ("PyGILState_Ensure", I32, []),
        ("PyGILState_Release", VOID, [I32]),
        ("PyErr_CheckSignals", I32, []),
        ("PyErr_Fetch", VOID, [PTR, PTR, PTR]),
    ):
        f.module.declare(name, result, types)
    clock = f.load(state, PTR, Word.CLOCK)
    start = f.call("stop_now", I64, [])
    with f.if_(f.compare("lt", start, f.load(clock, I64, ClockWord.NEXT))):
        f.ret(const(I1, 0))
    held = f.call("PyGILState_Ensure", I32, [])
    got = f.call("stop_now", I64, [])
    f.store(f.add(got, f.mul(f.sub(got, start), _SHARE_OF_LOCK)), clock, ClockWord.NEXT)
    raised = f.compare("ne", f.call("PyErr_CheckSignals", I32, []), 0)
    with f.if_(raised):
        raised_words = [f.gep(state, int(Word.RAISED) + k, I64) for k in range(3)]
        f.call("PyErr_Fetch", VOID, raised_words)
    f.call("PyGILState_Release", VOID, [held])
    f.ret(raised)
