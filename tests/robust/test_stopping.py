"""Calls that are stopped: Ctrl-C, any signal's handler, `cancel` and `deadline`, in loops and within kernels; and are right afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import AnyshapeError, ArgumentError, Cancelled, DeadlineExceeded
from anyshape.lower.llvm.polling import WORDS
from anyshape.vm.compiling import kernels
from anyshape.vm.native.ticker import ASLEEP_NOW, ClockWord
from tests.resident import HANGS

LONG = 2**62
SOON = 0.05
PATIENCE = 5.0
"""Seconds after which a call is as good as never stopped; most of it is for machines that do other things. The figure that is promised is
printed by `python -m benchmarks.stopping`."""


def iterations(loop: str = "native") -> anyshape.Executable:
    """A loop of `trip` turns around one addition."""
    trip, x = anyshape.input("trip", "i64[]"), anyshape.input("x", "f32[]")
    (y,) = control.loop(trip, lambda _, s: [ops.add(s, 1.0)], [x])
    return anyshape.compile(anyshape.function([trip, x], y), loop=loop)


def scalars() -> anyshape.Executable:
    """One whose turns run no kernel: it is all in registers, and holds the interpreter's lock at first."""
    trip, x = anyshape.input("trip", "i64[]"), anyshape.input("x", "i64[]")
    (y,) = control.loop(trip, lambda _, s: [ops.sub(ops.add(s, 3), 3)], [x])
    return anyshape.compile(anyshape.function([trip, x], y))


Case = tuple[anyshape.Executable, list[Any], list[Any]]


def looping() -> Case:
    return iterations(), [np.array(LONG), np.float32(0)], [np.array(7), np.float32(0)]


def in_registers() -> Case:
    return scalars(), [np.array(LONG), np.array(5)], [np.array(7), np.array(5)]


def product() -> Case:
    a, b = anyshape.input("a", "f32[m, k]"), anyshape.input("b", "f32[k, n]")
    exe = anyshape.compile(anyshape.function([a, b], ops.matmul(a, b)))
    large, small = np.ones((6000, 6000), np.float32), np.ones((64, 64), np.float32)
    return exe, [large, large], [small, small]


def elementwise() -> Case:
    """Run in slices. A sum of many terms in each element, since many elements take memory."""
    a, b = anyshape.input("a", "f32[m, 1, k]"), anyshape.input("b", "f32[1, n, k]")
    exe = anyshape.compile(anyshape.function([a, b], ops.sum(ops.abs(ops.sub(a, b)), axes=(2,))))
    large, small = np.ones((9000, 9000), np.float32), np.ones((9, 20), np.float32)
    return exe, [large[:, None], large[None]], [small[:, None], small[None]]


def broadcast() -> Case:
    """A sum over a dim that is in no memory: all the time is that of one element."""
    x, k = anyshape.input("x", "f32[1]"), anyshape.input("k", "i64[1]")
    exe = anyshape.compile(anyshape.function([x, k], ops.sum(ops.broadcast_to(x, k))))
    one = np.ones(1, np.float32)
    return exe, [one, np.array([LONG])], [one, np.array([9])]


def broadcast_product() -> Case:
    """Makes a product that is long below two loops."""
    x, y, k = (anyshape.input(name, t) for name, t in (("x", "f32[m, 1]"), ("y", "f32[1, n]"), ("k", "i64[1]")))
    left = ops.broadcast_to(x, ops.concat([np.array([1]), k], axis=0))
    right = ops.broadcast_to(y, ops.concat([k, np.array([1])], axis=0))
    exe = anyshape.compile(anyshape.function([x, y, k], ops.matmul(left, right)))
    one = np.ones((1, 1), np.float32)
    return exe, [one, one, np.array([LONG])], [one, one, np.array([9])]


def padded() -> Case:
    """A sum of what is read, and any number of ones around it."""
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[2]")
    exe = anyshape.compile(anyshape.function([x, k], ops.sum(ops.pad(x, np.float32(1), pads=k))))
    four = np.arange(4, dtype=np.float32)
    return exe, [four, np.array([0, LONG])], [four, np.array([2, 3])]


CASES: dict[str, Callable[[], Case]] = {
    "loop": looping, "registers": in_registers, "product": product, "elementwise": elementwise, "broadcast": broadcast,
    "broadcast product": broadcast_product, "padded": padded,
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


@contextmanager
def after(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def cancelling(exe: Any) -> Iterator[None]:
    """Cancels again and again: who cancels once may be there before the call has begun, which then never ends."""
    over = threading.Event()

    def cancel() -> None:
        while not over.wait(SOON):
            exe.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def stopped(call: Callable[[], object], error: type[BaseException]) -> None:
    start = time.monotonic()
    with pytest.raises(error):
        call()
    assert time.monotonic() - start < PATIENCE


def test_a_deadline_ends_a_call(case: Case) -> None:
    exe, large, small = case
    expected = exe(*small)
    stopped(lambda: exe.run(dict(zip(exe.input_names, large)), deadline=SOON), DeadlineExceeded)
    np.testing.assert_array_equal(exe(*small), expected)
    np.testing.assert_array_equal(exe.run(dict(zip(exe.input_names, small)), deadline=HANGS)[0], expected)


def test_another_thread_cancels(case: Case) -> None:
    exe, large, small = case
    expected = exe(*small)
    with cancelling(exe):
        stopped(lambda: exe(*large), Cancelled)
    exe.cancel()  # nobody is there
    np.testing.assert_array_equal(exe(*small), expected)


def test_a_cancellation_stops_its_own_call(case: Case) -> None:
    exe, large, small = case
    expected, other = exe(*small), anyshape.Cancellation()
    named = dict(zip(exe.input_names, large))
    stop = anyshape.Cancellation()
    with after(SOON, stop.cancel):
        stopped(lambda: exe.run(named, cancellation=stop), Cancelled)
    stopped(lambda: exe.run(named, cancellation=stop), Cancelled)  # which had not begun
    stop.cancel()
    np.testing.assert_array_equal(exe.run(dict(zip(exe.input_names, small)), cancellation=other)[0], expected)
    np.testing.assert_array_equal(exe(*small), expected)


@pytest.mark.parametrize("loop", ["python", "native"])
def test_a_cancellation_leaves_other_calls_alone(loop: str) -> None:
    exe = iterations(loop)
    one, other = anyshape.Cancellation(), anyshape.Cancellation()
    ended: list[str] = []

    def call(name: str, cancellation: anyshape.Cancellation) -> None:
        try:
            exe.run({"trip": np.array(LONG), "x": np.float32(0)}, cancellation=cancellation)
        except Cancelled:
            ended.append(name)

    threads = [threading.Thread(target=call, args=pair) for pair in (("one", one), ("other", other))]
    for t in threads:
        t.start()
    time.sleep(4 * SOON)
    one.cancel()
    threads[0].join(HANGS)
    assert ended == ["one"] and threads[1].is_alive()
    other.cancel()
    threads[1].join(HANGS)
    assert ended == ["one", "other"]


@pytest.mark.parametrize("cancellation", [True, 0, "stop", threading.Event()])
def test_what_a_cancellation_may_be(cancellation: Any) -> None:
    with pytest.raises(ArgumentError, match="cancellation must be"):
        iterations().run({"trip": np.array(1), "x": np.float32(1)}, cancellation=cancellation)


def test_ctrl_c(case: Case) -> None:
    exe, large, small = case
    expected = exe(*small)
    with after(SOON, lambda: os.kill(os.getpid(), signal.SIGINT)):
        stopped(lambda: exe(*large), KeyboardInterrupt)
    np.testing.assert_array_equal(exe(*small), expected)


def test_a_users_handler_runs_while_the_call_goes_on_and_may_raise() -> None:
    exe, large, _ = looping()
    seen: list[int] = []

    def handler(number: int, frame: object) -> None:
        seen.append(number)
        if len(seen) == 2:
            raise LookupError("enough")

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    old = signal.signal(signal.SIGUSR1, handler)
    try:
        with after(SOON, kill), after(4 * SOON, kill):
            stopped(lambda: exe(*large), LookupError)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert seen == [signal.SIGUSR1] * 2


def test_a_call_in_another_thread_leaves_signals_to_the_main_one() -> None:
    exe, large, _ = looping()
    raised: list[BaseException] = []

    def call() -> None:
        try:
            exe(*large)
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(4 * SOON)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE)
    assert thread.is_alive()
    exe.cancel()
    thread.join(HANGS)
    assert [type(e) for e in raised] == [Cancelled]


def test_only_the_executable_that_is_asked_to_stops() -> None:
    """The two calls of it in two threads both end; another executable goes on."""
    exe, large, _ = looping()
    other = iterations()
    ended: list[type[BaseException]] = []

    def call(of: anyshape.Executable) -> None:
        try:
            of(*large)
        except AnyshapeError as e:
            ended.append(type(e))

    threads = [threading.Thread(target=call, args=(e,)) for e in (exe, exe, other)]
    for t in threads:
        t.start()
    time.sleep(4 * SOON)
    exe.cancel()
    for t in threads[:2]:
        t.join(HANGS)
    assert ended == [Cancelled] * 2 and threads[2].is_alive()
    other.cancel()
    threads[2].join(HANGS)
    assert ended == [Cancelled] * 3


@pytest.mark.parametrize("loop", ["python", "native"])
def test_every_executor_keeps_deadlines(loop: str) -> None:
    exe = iterations(loop)
    stopped(lambda: exe.run({"trip": np.array(LONG), "x": np.float32(0)}, deadline=SOON), DeadlineExceeded)
    with cancelling(exe):
        stopped(lambda: exe.run({"trip": np.array(LONG), "x": np.float32(0)}), Cancelled)
    assert exe(np.array(3), np.float32(1)) == 4


def test_a_function_of_unknown_rank_is_stopped_in_its_tail() -> None:
    trip, x = anyshape.input("trip", "i64[]"), anyshape.input("x", "f32[...]")
    (y,) = control.loop(trip, lambda _, s: [ops.add(s, 1.0)], [ops.exp(x)])
    exe = anyshape.compile(anyshape.function([trip, x], y))
    exe(np.array(1), np.zeros(2, np.float32))
    stopped(lambda: exe.run({"trip": np.array(LONG), "x": np.zeros(2, np.float32)}, deadline=SOON), DeadlineExceeded)
    with cancelling(exe):
        stopped(lambda: exe(np.array(LONG), np.zeros(2, np.float32)), Cancelled)
    stop = anyshape.Cancellation()
    with after(SOON, stop.cancel):
        stopped(lambda: exe.run({"trip": np.array(LONG), "x": np.zeros(2, np.float32)}, cancellation=stop), Cancelled)


@pytest.mark.parametrize("deadline", [-1, float("nan"), "1", True, None, 0, 1e300, np.float64(3)])
def test_what_a_deadline_may_be(deadline: Any) -> None:
    exe = iterations()
    feed = {"trip": np.array(1), "x": np.float32(1)}
    if deadline is None or (deadline is not True and isinstance(deadline, float) and deadline >= 1):
        assert exe.run(feed, deadline=deadline) == [2]
    elif deadline == 0 and deadline is not True:
        stopped(lambda: exe.run({**feed, "trip": np.array(LONG)}, deadline=0), DeadlineExceeded)
    else:
        with pytest.raises(ArgumentError, match="deadline must be"):
            exe.run(feed, deadline=deadline)


def test_slices_compute_what_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: any number of them, alone and shared."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((301, 257)).astype(np.float32)
    v = anyshape.input("x", "f32[n, m]")
    results = [
        ops.softmax(v),
        ops.sum(v, axes=(0,)),
        ops.transpose(ops.exp(v), axes=(1, 0)),
        ops.sum(ops.exp(v), axes=(1,)),
    ]
    expected = [anyshape.compile(anyshape.function([v], m), threads=1)(x) for m in results]
    for cycles in (50, 1000, 20_000):
        monkeypatch.setattr(kernels, "CYCLES_PER_SLICE", cycles)
        for threads in (1, 2):
            for m, w in zip(results, expected):
                exe = anyshape.compile(anyshape.function([v], m), threads=threads)
                np.testing.assert_array_equal(exe(x), w)
                assert "slices" in exe.disassemble()


def test_the_clock_sleeps_and_is_woken() -> None:
    exe, large, small = looping()
    exe(*small)
    end = time.monotonic() + HANGS
    while WORDS[ClockWord.ASLEEP] != ASLEEP_NOW:
        assert time.monotonic() < end, "it ticks for nobody"
        time.sleep(0.05)
    stopped(lambda: exe.run(dict(zip(exe.input_names, large)), deadline=SOON), DeadlineExceeded)
    while WORDS[ClockWord.ASLEEP] != ASLEEP_NOW:
        time.sleep(0.05)
    with cancelling(exe):
        stopped(lambda: exe(*large), Cancelled)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_clock_of_its_own() -> None:
    exe, large, small = looping()
    exe(*small)
    child = os.fork()
    if child == 0:
        try:
            exe.run(dict(zip(exe.input_names, large)), deadline=SOON)
        except DeadlineExceeded:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
