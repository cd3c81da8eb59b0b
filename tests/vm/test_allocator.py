"""Small results lie in memory of one allocator, which allocates nothing that anybody still has, and loses none."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.vm import compile
from anyshape.vm.native.allocator import store_of
from anyshape.vm.native.allocator_code import HEAD, LARGE, STORED
from anyshape.vm.program.table import Op
from tests.in_threads import in_threads
from tests.resident import HANGS
from tests.vm.allocators import ResultAllocator, doubling, ones

pytestmark = pytest.mark.parametrize("handmade_ops", ["native"], indirect=True)
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def allocator(new_allocators: int) -> ResultAllocator:
    """The one of small results, of which other tests of the process have nothing."""
    return ResultAllocator(new_allocators)


@pytest.fixture
def store(new_allocators: int) -> ResultAllocator:
    return ResultAllocator(store_of(new_allocators))


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


def test_one_place_serves_all_sizes_in_iteration(allocator: ResultAllocator) -> None:
    exe = doubling()
    places = {exe(ones(n)).ctypes.data for n in (1, 2, 16, 17, 1000, LARGE // 4 - 1, 3)}
    assert places == {allocator.start + 2 * HEAD}
    assert places.pop() % 64 == 0
    assert allocator.is_whole()


def test_results_are_arrays_that_own_their_memory(allocator: ResultAllocator) -> None:
    result = doubling()(ones(5))
    assert allocator.has(result)
    assert type(result) is np.ndarray and result.base is None
    assert result.flags.owndata and result.flags.carray and result.flags.f_contiguous
    result += 1
    assert result.tolist() == [3] * 5


@pytest.mark.parametrize("n", [0, LARGE // 4])
def test_nothing_and_much_lie_elsewhere(allocator: ResultAllocator, n: int) -> None:
    result = doubling()(ones(n))
    assert result.shape == (n,) and not allocator.has(result)


def test_a_view_keeps_the_memory(allocator: ResultAllocator) -> None:
    exe = doubling()
    part = exe(ones(100))[10:20:3].reshape(2, 2)
    later = [exe(ones(100) * 5) for _ in range(3)]
    assert not any(np.shares_memory(part, o) for o in later)
    assert part.tolist() == [[2, 2], [2, 2]]
    del part, later
    assert allocator.is_whole()


def test_what_finds_no_room_is_stored_or_allocated(allocator: ResultAllocator, store: ResultAllocator) -> None:
    exe, n = doubling(), LARGE // 4 - 100
    held = [exe(ones(n) * k) for k in range(4)]
    assert [allocator.has(a) for a in held] == [True, True, False, False]
    assert [store.has(a) for a in held] == [False, False, True, True]
    small = exe(ones(3))
    assert allocator.has(small)
    few = STORED // 4 - HEAD
    filled = [exe(ones(few)) for _ in range(40)]
    assert not any(allocator.has(a) or store.has(a) for a in filled[30:])
    assert all((a == 2 * k).all() for k, a in enumerate(held))
    del held, small, filled
    assert allocator.is_whole() and store.is_whole()


@pytest.mark.parametrize("n", [1, 40, 60, 3000])
def test_resized_in_place_a_result_leaves(allocator: ResultAllocator, n: int) -> None:
    result = doubling()(ones(50))
    result.resize(n, refcheck=False)
    assert not allocator.has(result) and allocator.is_whole()
    assert result.tolist() == [2] * min(n, 50) + [0] * (n - 50)
    result.resize(2 * n, refcheck=False)
    assert result[:n].tolist() == [2] * min(n, 50) + [0] * (n - 50)


def test_results_that_are_kept_and_dropped_in_any_order(allocator: ResultAllocator) -> None:
    exe, rng = doubling(), random.Random(1)
    kept: list[tuple[int, np.ndarray[Any, Any]]] = []
    for iteration in range(600):
        if kept and rng.random() < 0.45:
            kept.pop(rng.randrange(len(kept)))
        else:
            n = rng.choice([1, 3, 16, 17, 100, 5000, 60000])
            kept.append((iteration, exe(np.full(n, iteration, np.float32))))
        if iteration % 50 == 0:
            allocator.blocks()
    assert all((a == 2 * iteration).all() for iteration, a in kept)
    allocated = sum(allocator.has(a) for _, a in kept)
    assert 0 < allocated < len(kept)
    assert sum(is_taken for _, is_taken in allocator.blocks()) == allocated
    kept.clear()
    assert allocator.is_whole()


def test_many_small_pieces_do_not_hide_the_room_behind_them(allocator: ResultAllocator) -> None:
    exe = doubling()
    held = [exe(ones(1)) for _ in range(40)]
    del held[::2]  # twenty holes of one line each
    assert allocator.has(exe(ones(1000)))


def test_threads_have_no_memory_in_common(allocator: ResultAllocator) -> None:
    exe, wrong = doubling(), []

    def work(number: int) -> None:
        x = np.full(500 * number, number, np.float32)
        kept = [exe(x) for _ in range(3)]
        for _ in range(200):
            kept = [*kept[1:], exe(x)]
            if not all((a == 2 * number).all() for a in kept):
                wrong.append(number)

    in_threads(work, range(1, 5))
    assert not wrong and allocator.is_whole()


def test_what_is_lent_is_traced(allocator: ResultAllocator) -> None:
    exe, x = doubling(), ones(10000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = exe(x)
        assert allocator.has(result) and tracemalloc.get_traced_memory()[0] - before >= 40000
        del result
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
