"""A worker that the system does not let run goes on where its caller is."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from anyshape.vm.native.pool import Pool
from anyshape.vm.native.pool_layout import MOST_THREADS, Line, PoolWord, place
from tests.threads.native_pool import KERNEL, native, share, words, working_pool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there is it told how long a thread ran")

HERE = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
needs_two = pytest.mark.skipif(len(HERE) < 2, reason="there is one processor")


@contextmanager
def asleep() -> Iterator[int]:
    """A thread whose clock stands still, and that may run on the last processor alone."""
    end, started = threading.Event(), threading.Event()

    def life() -> None:
        os.sched_setaffinity(0, HERE[-1:])
        started.set()
        end.wait()

    thread = threading.Thread(target=life, daemon=True)
    thread.start()
    started.wait(20)
    try:
        yield thread.native_id or 0
    finally:
        end.set()
        thread.join(20)


def settled_clock(thread: int) -> int:
    """The clock of a thread that is on its way to sleep, when it stands."""
    before = -1
    while (now := time.clock_gettime_ns(~thread << 3 | 6)) != before:
        before = now
        time.sleep(0.01)
    return now


@needs_two
@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("ran", [True, False])
def test_who_holds_a_part_and_did_not_run_since_the_last_look_is_moved(holds: bool, ran: bool) -> None:
    pool = words()
    with asleep() as worker:
        clock = settled_clock(worker)
        pool[PoolWord.WORKERS] = 1
        for word, value in ((Line.ID, worker), (Line.HOLDS, holds), (Line.CLOCK, clock - ran)):
            pool[place(0, word)] = value
        native("pool_look", None, ctypes.c_int64)(pool.ctypes.data)
        moved = os.sched_getaffinity(worker) == set(HERE)
    assert (moved, pool[PoolWord.BROUGHT]) == (holds and not ran, holds and not ran)
    assert pool[place(0, Line.CLOCK)] == (clock if holds else clock - ran)


def test_a_thread_that_is_gone_is_let_be() -> None:
    """The clock of a thread that is gone cannot be read."""
    pool = words()
    pool[PoolWord.WORKERS], pool[place(0, Line.ID)], pool[place(0, Line.HOLDS)] = 1, (1 << 22) + 1, 1
    native("pool_look", None, ctypes.c_int64)(pool.ctypes.data)
    assert pool[PoolWord.BROUGHT] == 0


@needs_two
def test_a_worker_that_stands_still_in_its_part_may_go_on_where_its_caller_is() -> None:
    """A worker keeps off its caller's processor, or would if it were not the only other one, and sleeps in its part."""
    pool, places, helped = words(), [], threading.Event()
    address, caller = pool.ctypes.data, threading.get_ident()

    def part_of_kernel(_scalars: int, _buffers: int, _scratch: int, part: int, _parts: int) -> int:
        if threading.get_ident() == caller:
            helped.wait(20)
            return 0
        os.sched_setaffinity(0, HERE[-1:])
        helped.set()
        end = time.monotonic() + 20
        while os.sched_getaffinity(0) != set(HERE) and time.monotonic() < end:
            time.sleep(0.01)
        places.append(os.sched_getaffinity(0))
        return 0

    work = native("anyshape_work", None, ctypes.c_int64, ctypes.c_int64)
    worker = threading.Thread(target=work, args=(address, 0), daemon=True)
    worker.start()
    pool[place(0, Line.ID)], pool[PoolWord.WORKERS] = worker.native_id or 0, 1
    try:
        for _ in range(3):
            helped.clear()
            assert share(address, KERNEL(part_of_kernel), 2) == 0
            assert (pool[PoolWord.BROUGHT], pool[PoolWord.AVOIDED]) == (0, -1)
            assert not any(pool[place(thread, Line.HOLDS)] for thread in range(MOST_THREADS))
        assert places == [set(HERE)] * 3
    finally:
        native("anyshape_dismiss", None, ctypes.c_int64)(address)
        worker.join(20)
    assert not worker.is_alive()


def places_of(pool: Pool) -> list[set[int]]:
    """Returns the processors on which each worker may run."""
    return [os.sched_getaffinity(thread.native_id or 0) for thread in pool._threads]


@needs_two
def test_a_pool_that_grows_after_a_worker_was_moved_lets_the_others_go_anywhere_too() -> None:
    """Two keep off the first processor, as far as the pool knows, and one of them is moved: the other keeps off it still, until there are
    three. On two processors that would leave them one for all."""
    begun, caller = threading.Event(), threading.get_ident()

    def part_of_kernel(_scalars: int, _buffers: int, _scratch: int, _part: int, _parts: int) -> int:
        if threading.get_ident() == caller:
            begun.wait(20)
            return 0
        begun.set()
        end = time.monotonic() + 20
        while os.sched_getaffinity(0) != set(HERE) and time.monotonic() < end:
            time.sleep(0.01)
        return 0

    with working_pool() as pool:
        pool.ensure(3)
        for thread in pool._threads:
            os.sched_setaffinity(thread.native_id or 0, HERE[1:])
        pool._words[PoolWord.AVOIDED] = HERE[0] + 1
        assert share(pool.address, KERNEL(part_of_kernel), 2) == 0
        assert places_of(pool) == [set(HERE), set(HERE[1:])]
        pool.ensure(4)
        assert places_of(pool) == [set(HERE)] * 3
