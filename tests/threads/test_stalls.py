"""A worker that the system does not let run is not waited for twice: kernels are run alone for a while."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import PTR, VOID
from anyshape.lower.target import host_target
from anyshape.vm.native.pool_code import SHARE, add_pool
from anyshape.vm.native.pool_layout import PoolWord

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there is it told how long a thread ran")

SECOND = 1_000_000_000
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)


@cache
def pool_code() -> Loaded:
    module = Module(host_target())
    add_pool(module)
    for name in ("waited", "clocks"):
        with module.function(name, VOID, [("pool", PTR), ("clocks", PTR)], noalias=False) as f:
            f.call(f"pool_{name}", VOID, list(f.args))
            f.ret()
    library = ctypes.CDLL(None)
    return compile_module(
        module, {n: ctypes.cast(getattr(library, n), ctypes.c_void_p).value or 0 for n in module.imports}
    )


def native(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    function: Callable[..., Any] = ctypes.CFUNCTYPE(result, *arguments)(pool_code().address(name))
    return function


def words() -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.zeros(int(PoolWord.COUNT), np.int64)


@pytest.mark.parametrize(
    ("wait", "ran", "counts"), [(1.0, 0.1, True), (1.0, 0.9, False), (0.0, 0.0, False), (9.0, 0.0, True)]
)
def test_which_waits_count(wait: float, ran: float, counts: bool) -> None:
    """Those in which workers had a processor for less than half of the time; without workers the sum of their clocks is 0 in the end."""
    pool, clocks = words(), np.array([time.monotonic_ns() - wait * SECOND, -ran * SECOND], np.int64)
    native("waited", None, ctypes.c_int64, ctypes.c_int64)(pool.ctypes.data, clocks.ctypes.data)
    until = pool[PoolWord.ALONE_UNTIL]
    assert bool(until) == counts
    assert not counts or 0.9 * wait * SECOND < until - time.monotonic_ns() < 1.1 * wait * SECOND


def test_waits_that_follow_each_other_soon_count_for_more() -> None:
    pool, found = words(), []
    for gap in (1000, 0, 1, 7, 9, 0, 0, 0, 0, 0, 0):
        now = time.monotonic_ns()
        pool[PoolWord.SHARED_SINCE] = now - gap * SECOND
        clocks = np.array([now - SECOND, 0], np.int64)
        native("waited", None, ctypes.c_int64, ctypes.c_int64)(pool.ctypes.data, clocks.ctypes.data)
        found.append(round((pool[PoolWord.ALONE_UNTIL] - now) / SECOND))
    assert found == [1, 2, 4, 8, 1, 2, 4, 8, 16, 16, 16]


def test_what_a_worker_ran_is_its_time_on_processors() -> None:
    pool, clocks = words(), np.zeros(2, np.int64)
    pool[PoolWord.IDS], pool[PoolWord.WORKERS] = threading.get_native_id(), 1
    before = time.monotonic_ns(), time.thread_time_ns()
    native("clocks", None, ctypes.c_int64, ctypes.c_int64)(pool.ctypes.data, clocks.ctypes.data)
    after = time.monotonic_ns(), time.thread_time_ns()
    assert before[0] <= clocks[0] <= after[0]
    assert before[1] <= clocks[1] <= after[1]


def test_kernels_are_run_alone_after_a_stall() -> None:
    """A worker that sleeps in its part has no processor meanwhile."""
    share = native("anyshape_share", ctypes.c_int32, *[ctypes.c_int64] * len(SHARE))
    pool, seen, helped = words(), [], threading.Event()
    address, caller = pool.ctypes.data, threading.get_ident()

    def part_of_kernel(_scalars: int, _buffers: int, _scratch: int, _part: int, parts: int) -> int:
        seen.append(parts)
        if parts == 2 and threading.get_ident() == caller:
            helped.wait(20)
        elif parts == 2:
            helped.set()
            time.sleep(0.1)
        return 0

    kernel = KERNEL(part_of_kernel)
    place = ctypes.cast(kernel, ctypes.c_void_p).value
    worker = threading.Thread(target=native("anyshape_work", None, ctypes.c_int64), args=(address,), daemon=True)
    worker.start()
    pool[PoolWord.IDS], pool[PoolWord.WORKERS] = worker.native_id or 0, 1
    try:
        for alone_until, expected in ((0, [2, 2]), (1 << 62, [1]), (1, [2, 2])):
            pool[PoolWord.ALONE_UNTIL] = alone_until
            seen.clear()
            helped.clear()
            assert share(address, place, 0, 0, 0, 0, 2) == 0
            assert seen == expected
            assert pool[PoolWord.ALONE_UNTIL] > time.monotonic_ns() - SECOND
    finally:
        native("anyshape_dismiss", None, ctypes.c_int64)(address)
        worker.join(20)
