"""Small results lie in memory of one lender, which lends nothing that anybody still has, and loses none."""

from __future__ import annotations

import copy
import ctypes
import os
import random
import subprocess
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.vm import Executable, compile
from anyshape.vm.native import executor
from anyshape.vm.native.lender import BYTES, new_lender
from anyshape.vm.native.lending import BEFORE, END, HEAD, LENT, NEXT, SIZE, START
from anyshape.vm.program import Op
from anyshape.vm.results import LARGE
from tests.in_threads import in_threads
from tests.resident import HANGS

pytestmark = pytest.mark.parametrize("handmade_ops", ["native"], indirect=True)
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
ROOM = BYTES - 2 * HEAD
"""Of a lender of whom nobody has anything: two heads stand around it."""


class Lender:
    """The words of a lender, read."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.start, self.end = _word(address, START), _word(address, END)

    def has(self, array: np.ndarray[Any, Any]) -> bool:
        return bool(self.start <= array.ctypes.data < self.end)

    def blocks(self) -> list[tuple[int, bool]]:
        """Bytes and whether they are lent, from the low end on; the heads and the ring say the same."""
        found, at, before = [], self.start, 0
        free = set()
        while at <= self.end:
            size = _word(at, SIZE)
            assert _word(at, BEFORE) == before
            found.append((size & ~LENT, bool(size & LENT)))
            if not size & LENT:
                free.add(at)
            before = size & ~LENT
            at += before
        assert at == self.end + HEAD
        at, ring = _word(self.address, NEXT), set()
        while at != self.address:
            ring.add(at)
            at = _word(at, NEXT)
        assert ring == free
        assert all(one[1] or other[1] for one, other in pairwise(found)), "free neighbours are joined"
        return found[1:-1]

    def is_whole(self) -> bool:
        """Whether nobody has anything."""
        return self.blocks() == [(ROOM, False)]


def _word(at: int, place: int) -> int:
    return ctypes.c_int64.from_address(at + 8 * place).value


@pytest.fixture
def lender(monkeypatch: pytest.MonkeyPatch) -> Lender:
    """A new one, of which other tests of the process have nothing."""
    entry, methods = executor._entry(), copy.copy(executor._methods())
    assert entry is not None and methods is not None
    methods.lender = new_lender(entry.address)
    monkeypatch.setattr(executor, "_methods", lambda: methods)
    return Lender(methods.lender)


def doubling() -> Executable:
    """Warm: the first call may have memory to grow, or threads to start, and goes another way."""
    x = anyshape.input("x", "f32[n]")
    exe = compile(anyshape.function([x], ops.add(x, x)), threads=1)
    exe(ones(1))
    return exe


def ones(n: int) -> np.ndarray[Any, Any]:
    return np.ones(n, np.float32)


def test_results_are_made_before_the_first_kernel_unless_data_size_them() -> None:
    x = anyshape.input("x", "f32[n]")
    doubled = ops.add(x, x)
    f = anyshape.function(
        [x], {"places": ops.nonzero(doubled), "doubled": doubled, "sums": ops.cumsum(doubled, axis=0)}
    )
    (program,) = compile(f, threads=1).plan.programs
    kernels = {Op.INVOKE, Op.SHARE}
    listed = [op for _, op, _ in program.instructions() if op in kernels or op is Op.OUTPUT]
    assert listed[:2] == [Op.OUTPUT, Op.OUTPUT] and listed[2] in kernels
    assert listed.count(Op.OUTPUT) == 3


def test_one_place_serves_all_sizes_in_turn(lender: Lender) -> None:
    exe = doubling()
    places = {exe(ones(n)).ctypes.data for n in (1, 2, 16, 17, 1000, LARGE // 4 - 1, 3)}
    assert places == {lender.start + 2 * HEAD}
    assert places.pop() % 64 == 0
    assert lender.is_whole()


def test_results_are_arrays_that_own_their_memory(lender: Lender) -> None:
    found = doubling()(ones(5))
    assert lender.has(found)
    assert type(found) is np.ndarray and found.base is None
    assert found.flags.owndata and found.flags.carray and found.flags.f_contiguous
    found += 1
    assert found.tolist() == [3] * 5


@pytest.mark.parametrize("n", [0, LARGE // 4])
def test_nothing_and_much_lie_elsewhere(lender: Lender, n: int) -> None:
    found = doubling()(ones(n))
    assert found.shape == (n,) and not lender.has(found)


def test_a_view_keeps_the_memory(lender: Lender) -> None:
    exe = doubling()
    part = exe(ones(100))[10:20:3].reshape(2, 2)
    others = [exe(ones(100) * 5) for _ in range(3)]
    assert not any(np.shares_memory(part, o) for o in others)
    assert part.tolist() == [[2, 2], [2, 2]]
    del part, others
    assert lender.is_whole()


def test_what_finds_no_room_is_allocated(lender: Lender) -> None:
    exe, n = doubling(), LARGE // 4 - 100
    held = [exe(ones(n) * k) for k in range(4)]
    assert [lender.has(a) for a in held] == [True, True, False, False]
    small = exe(ones(3))
    assert lender.has(small)
    assert all((a == 2 * k).all() for k, a in enumerate(held))
    del held, small
    assert lender.is_whole()


@pytest.mark.parametrize("n", [1, 40, 60, 3000])
def test_resized_in_place_a_result_leaves(lender: Lender, n: int) -> None:
    found = doubling()(ones(50))
    found.resize(n, refcheck=False)
    assert not lender.has(found) and lender.is_whole()
    assert found.tolist() == [2] * min(n, 50) + [0] * (n - 50)
    found.resize(2 * n, refcheck=False)
    assert found[:n].tolist() == [2] * min(n, 50) + [0] * (n - 50)


def test_results_that_are_kept_and_dropped_in_any_order(lender: Lender) -> None:
    exe, rng = doubling(), random.Random(1)
    kept: list[tuple[int, np.ndarray[Any, Any]]] = []
    for turn in range(600):
        if kept and rng.random() < 0.45:
            kept.pop(rng.randrange(len(kept)))
        else:
            n = rng.choice([1, 3, 16, 17, 100, 5000, 60000])
            kept.append((turn, exe(np.full(n, turn, np.float32))))
        if turn % 50 == 0:
            lender.blocks()
    assert all((a == 2 * turn).all() for turn, a in kept)
    lent = sum(lender.has(a) for _, a in kept)
    assert 0 < lent < len(kept)
    assert sum(is_lent for _, is_lent in lender.blocks()) == lent
    kept.clear()
    assert lender.is_whole()


def test_many_small_pieces_do_not_hide_the_room_behind_them(lender: Lender) -> None:
    exe = doubling()
    held = [exe(ones(1)) for _ in range(40)]
    del held[::2]  # twenty holes of one line each
    assert lender.has(exe(ones(1000)))


def test_threads_have_no_memory_in_common(lender: Lender) -> None:
    exe, wrong = doubling(), []

    def work(number: int) -> None:
        x = np.full(500 * number, number, np.float32)
        kept = [exe(x) for _ in range(3)]
        for _ in range(200):
            kept = [*kept[1:], exe(x)]
            if not all((a == 2 * number).all() for a in kept):
                wrong.append(number)

    in_threads(work, range(1, 5))
    assert not wrong and lender.is_whole()


def test_what_is_lent_is_traced(lender: Lender) -> None:
    exe, x = doubling(), ones(10000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = exe(x)
        assert lender.has(found) and tracemalloc.get_traced_memory()[0] - before >= 40000
        del found
        assert tracemalloc.get_traced_memory()[0] - before < 10000
    finally:
        tracemalloc.stop()


FORKED = """
import os
import numpy as np
import anyshape
from anyshape import ops

x = anyshape.input("x", "f32[n]")
exe = anyshape.compile(anyshape.function([x], ops.add(x, x)), threads=1)
ones = np.ones(100, np.float32)
exe(ones)
kept = exe(ones)
child = os.fork()
if child == 0:
    others = [exe(k * ones) for k in range(5)]
    assert (kept == 2).all() and all((o == 2 * k).all() for k, o in enumerate(others))
    os._exit(7)
found = exe(3 * ones)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert (kept == 2).all() and (found == 6).all()
"""
LAST_OF_ALL = """
import builtins, sys
import numpy as np
import anyshape
from anyshape import ops

x = anyshape.input("x", "f32[n]")
exe = anyshape.compile(anyshape.function([x], ops.add(x, x)), threads=1)
exe(np.ones(1, np.float32))
sys.kept = builtins.kept = [exe(np.ones(n, np.float32)) for n in (1, 1000, 3)]
class Cycle: pass
c = Cycle(); c.self, c.results = c, [exe(np.ones(n, np.float32)) for n in (1, 1000, 3)]
del exe, x
"""


@pytest.mark.parametrize("script", [LAST_OF_ALL, pytest.param(FORKED, marks=FORKS)], ids=["end", "fork"])
def test_results_outlive_all_else_and_are_copied_by_a_fork(script: str) -> None:
    command, root = [sys.executable, "-c", script], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, cwd=root)
    assert done.returncode == 0, done.stderr
