"""Sharing is tried now and then, and kernels run alone as long as it does not pay."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from anyshape.vm.native.pool import Pool
from anyshape.vm.native.pool_layout import FIRST_TRIAL, Line, PoolWord, Stage, place
from anyshape.vm.native.pool_trials import _EVERY, _KEEPS, _OUTLIER, _PATIENCE, _STEP, _WAKES
from tests.threads.native_pool import KERNEL, NEVER, native, share, words, working_pool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere everything is shared, untried")


class Calls:
    """Kernels that take as long as is said: each is chosen, and told to have begun so long ago."""

    def __init__(self) -> None:
        self.pool = words()
        self._choose = native("pool_choose", ctypes.c_int64, ctypes.c_int64)
        self._tell = native("pool_tell", None, *[ctypes.c_int64] * 5)

    def call(self, alone: int, shared: int, kernel: int = 64, scalars: tuple[int, ...] = (7, 3)) -> bool:
        """Nanoseconds in either case; whether it ran alone."""
        chosen = bool(self._choose(self.pool.ctypes.data))
        if self.pool[PoolWord.STAGE] != Stage.NONE:
            sizes = np.array(scalars, np.int64)
            start = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - (alone if chosen else shared)
            self._tell(self.pool.ctypes.data, start, kernel, sizes.ctypes.data, len(scalars))
        return chosen

    def trial(self, alone: int, shared: int, **told: Any) -> list[int]:
        """The next one at once, and whole: its stages, kernel by kernel."""
        self.pool[PoolWord.LEFT], stages = 0, []
        while True:
            self.call(alone, shared, **told)
            stages.append(int(self.pool[PoolWord.STAGE]))
            if stages[-1] == Stage.NONE:
                return stages

    @property
    def alone(self) -> bool:
        return bool(self.pool[PoolWord.ALONE])


SECOND = 1_000_000_000
"""Beside it, what a call really takes is nothing, even of a test that loses its processor."""
AT_ONCE = -60 * SECOND
"""Of a kernel that began in the future: it counts as a nanosecond."""


def test_a_trial_comes_after_so_many_kernels_and_then_after_more_the_more_were_timed() -> None:
    calls = Calls()
    calls.pool[PoolWord.LEFT] = 3
    assert [calls.call(_STEP // 4, _STEP // 8) for _ in range(4)] == [False] * 3 + [True]
    calls.trial(_STEP // 4, _STEP // 8)
    timed = calls.pool[PoolWord.TIMED]
    assert 1 <= timed <= 4 and calls.pool[PoolWord.LEFT] == timed * _EVERY
    calls.trial(2 * _STEP, SECOND)
    assert calls.pool[PoolWord.TIMED] == 1 and calls.pool[PoolWord.LEFT] == _EVERY


def test_a_trial_runs_kernels_alone_then_wakes_workers_then_compares() -> None:
    stages = Calls().trial(_STEP // 4, _STEP // 2)
    assert [stage for stage, _ in groupby(stages)] == [Stage.ALONE, Stage.WAKING, Stage.SHARED, Stage.NONE]


def waking(took: int) -> Calls:
    """Kernels were timed alone, and of those that are shared now the owner runs so many parts."""
    calls = Calls()
    calls.pool[PoolWord.LEFT] = 0
    calls.call(_STEP, _STEP)
    calls.pool[PoolWord.TOOK] = took
    assert calls.pool[PoolWord.STAGE] == Stage.WAKING
    return calls


def test_a_trial_waits_for_workers_that_have_no_processor_yet() -> None:
    """Beside a process that computes they may need milliseconds, and what is shared with nobody says nothing of sharing."""
    calls = waking(took=2)
    calls.pool[PoolWord.SPENT] = _STEP
    for _ in range(50):
        assert not calls.call(0, AT_ONCE)
        assert calls.pool[PoolWord.STAGE] == Stage.WAKING
    calls.pool[PoolWord.TOOK] = 1
    calls.call(0, AT_ONCE)
    assert calls.pool[PoolWord.STAGE] == Stage.SHARED


@pytest.mark.parametrize("took,until", [(2, _WAKES), (1, _STEP)])
def test_a_trial_waits_no_longer_than_that_and_gives_workers_time_to_have_their_data_near(
    took: int, until: int
) -> None:
    calls = waking(took)
    calls.pool[PoolWord.SPENT] = until - 2
    for stage in (Stage.WAKING, Stage.SHARED):
        calls.call(0, AT_ONCE)
        assert calls.pool[PoolWord.STAGE] == stage


@pytest.mark.parametrize("parts", [2, 3])
def test_the_owner_tells_how_many_parts_it_ran_when_nobody_comes(parts: int) -> None:
    pool, ran = words(), list[tuple[int, int]]()
    pool[PoolWord.WORKERS] = parts - 1
    for worker in range(parts - 1):
        pool[place(worker, Line.ID)] = (1 << 22) + 1  # more than there can be: nobody is moved

    def run(_scalars: int, _buffers: int, _scratch: int, part: int, count: int) -> int:
        ran.append((part, count))
        return 0

    assert share(pool.ctypes.data, KERNEL(run), parts) == 0
    assert ran == [(part, parts) for part in range(parts)] and pool[PoolWord.TOOK] == parts


def test_the_owner_tells_how_many_parts_it_ran_beside_a_worker() -> None:
    both = threading.Barrier(2)

    def meet(_scalars: int, _buffers: int, _scratch: int, _part: int, _parts: int) -> int:
        both.wait(60)
        return 0

    with working_pool() as pool:
        pool.ensure(2)
        assert share(pool.address, KERNEL(meet), 2) == 0
        assert pool._words[PoolWord.TOOK] == 1


@pytest.mark.parametrize("share,pays", [(0.5, True), (0.9, True), (1.0, False), (1.5, False)])
def test_sharing_goes_on_while_it_pays_by_a_twentieth(share: float, pays: bool) -> None:
    calls = Calls()
    for _ in range(3):
        calls.trial(10 * SECOND, int(share * 10 * SECOND))
        assert calls.alone is not pays
        assert calls.call(0, 0) is not pays


def test_one_trial_does_not_decide_against_several_but_a_few_do() -> None:
    calls = Calls()
    for _ in range(20):
        calls.trial(10 * SECOND, 6 * SECOND)
    calls.trial(10 * SECOND, 12 * SECOND)
    assert not calls.alone
    for _ in range(9):
        calls.trial(10 * SECOND, 12 * SECOND)
    assert calls.alone
    for _ in range(6):
        calls.trial(10 * SECOND, 6 * SECOND)
    assert not calls.alone


def test_a_thread_that_lost_its_processor_counts_little() -> None:
    """A kernel of a second takes a thousand once: as much as two."""
    calls = Calls()
    for alone, shared, word in (
        (SECOND, 1000 * SECOND, PoolWord.SUM_SHARED),
        (1000 * SECOND, SECOND, PoolWord.SUM_ALONE),
    ):
        before = int(calls.pool[word])
        calls.trial(alone, shared)
        assert int(calls.pool[word]) == pytest.approx((before + _OUTLIER * SECOND) * _KEEPS[0] / _KEEPS[1], rel=0.1)


@pytest.mark.parametrize("other", [{"kernel": 128}, {"scalars": (7, 4)}, {"scalars": (7,)}, {"scalars": (3, 7)}])
def test_only_the_same_kernel_at_the_same_sizes_is_compared(other: dict[str, Any]) -> None:
    calls = Calls()
    calls.pool[PoolWord.LEFT] = 0
    assert calls.call(SECOND, SECOND)
    for _ in range(_PATIENCE):
        assert not calls.call(SECOND, SECOND, **other)
    assert calls.pool[PoolWord.STAGE] == Stage.SHARED and calls.pool[PoolWord.SUM_ALONE] == 0
    calls.call(SECOND, SECOND)
    assert calls.pool[PoolWord.STAGE] == Stage.NONE and calls.pool[PoolWord.SUM_ALONE] > 0


def test_what_does_not_come_again_is_shared() -> None:
    """Sizes that are new with each call say nothing; nor does what was found before, by now."""
    calls = Calls()
    calls.trial(SECOND, 2 * SECOND)
    assert calls.alone
    calls.pool[PoolWord.LEFT] = 0
    for k in range(_PATIENCE + 2):
        calls.call(SECOND, 2 * SECOND, scalars=(k,))
    assert calls.pool[PoolWord.STAGE] == Stage.NONE and not calls.alone


def timed_alone(*kernels: int) -> Calls:
    """However long they really took: whoever runs the test may lose its processor."""
    calls = Calls()
    for kernel in kernels:
        calls.pool[PoolWord.STAGE], calls.pool[PoolWord.SPENT] = Stage.ALONE, 0
        calls.call(0, 0, kernel=kernel)
    return calls


def test_of_two_kernels_that_have_one_place_in_the_table_the_later_one_is_compared() -> None:
    names = slice(int(PoolWord.TABLE), int(PoolWord.COUNT), 2)
    other = next(k for k in range(65, 10_000) if np.count_nonzero(timed_alone(64, k).pool[names]) == 1)
    for kernel, compared in ((64, False), (other, True)):
        calls = timed_alone(64, other)
        calls.pool[PoolWord.STAGE] = Stage.SHARED
        calls.call(0, SECOND, kernel=kernel)
        assert (calls.pool[PoolWord.SUM_SHARED] > 0) == compared


def test_a_pool_begins_and_a_child_begins_with_calls_that_are_not_tried() -> None:
    pool = Pool(lambda address, thread: None, lambda address: None)
    assert pool._words[PoolWord.LEFT] == FIRST_TRIAL
    pool._words[:] = 1
    pool.forget()
    assert pool._words[PoolWord.LEFT] == FIRST_TRIAL and not pool._words[PoolWord.ALONE]


class Slow:
    """A kernel of two parts that sleeps: for as long in both parts together as alone, or for as long in each."""

    def __init__(self) -> None:
        self.pays, self.ran = True, set[int]()

    def __call__(self, _scalars: int, _buffers: int, _scratch: int, _part: int, parts: int) -> int:
        self.ran.add(threading.get_ident())
        time.sleep(0.004 / parts if self.pays else 0.004)
        return 0


def test_real_kernels_run_alone_while_sharing_does_not_pay_and_are_shared_when_it_does() -> None:
    slow = Slow()
    kernel = KERNEL(slow)

    def helpers(pool: Pool) -> int:
        slow.ran.clear()
        for _ in range(10):
            assert share(pool.address, kernel, 2) == 0
        return len(slow.ran)

    with working_pool() as pool:
        pool.ensure(2)
        told = pool._words
        for pays in (True, False, True):
            slow.pays, end = pays, time.monotonic() + 60
            while True:  # a trial, which takes some kernels
                told[PoolWord.LEFT] = 0
                helpers(pool)
                if bool(told[PoolWord.ALONE]) is not pays or time.monotonic() > end:
                    break
            told[PoolWord.LEFT] = NEVER
            assert helpers(pool) == (2 if pays else 1)
