"""Large results lie in a store: memory that is allocated again, whatever the sizes, when nobody has an array over it, and never before."""

from __future__ import annotations

import ctypes
import random
import re
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshape.errors import AnyshapeError
from anyshape.vm.native import allocator, executor
from anyshape.vm.native.allocator import new_allocator, store_of
from anyshape.vm.native.allocator_code import GRAIN, HEAD, KEEP, LARGE
from anyshape.vm.run.results import new_result
from tests.in_threads import in_threads
from tests.vm.allocators import ResultAllocator, doubling, ones

native = pytest.mark.parametrize("handmade_ops", ["native"], indirect=True)
N = LARGE // 4


@pytest.fixture
def store(new_allocators: int) -> ResultAllocator:
    return ResultAllocator(store_of(new_allocators))


def keep(store: ResultAllocator, size: int) -> None:
    """Sets how many bytes may wait to be allocated again."""
    ctypes.c_int64.from_address(store.address + 8 * KEEP).value = size


def first_of(address: int) -> float:
    return ctypes.c_float.from_address(address).value


@native
def test_memory_is_lent_again_when_the_last_array_over_it_is_gone(store: ResultAllocator) -> None:
    exe = doubling()
    first = exe(ones(N + 3))
    place, part = first.ctypes.data, first[5:7]
    del first
    second = exe(ones(N + 3) * 2)
    assert store.has(part) and store.has(second) and not np.shares_memory(part, second)
    assert (part == 2).all() and (second == 4).all()
    del part
    assert exe(ones(N + 3)).ctypes.data == place
    del second
    assert store.is_whole()


@native
def test_results_are_ordinary_arrays(store: ResultAllocator) -> None:
    result = doubling()(ones(N))
    assert type(result) is np.ndarray and result.base is None and result.flags.owndata
    assert result.flags.carray
    assert result.ctypes.data % 64 == 0
    result += 1
    assert (result == 3).all()
    result.resize(2 * N, refcheck=False)
    assert not store.has(result) and store.is_whole()
    assert (result[:N] == 3).all()


@native
def test_smaller_results_lie_where_a_larger_one_was(store: ResultAllocator) -> None:
    exe = doubling()
    large = exe(ones(4 * N))
    low = large.ctypes.data
    del large
    smaller = [exe(ones(N) * k) for k in range(3)]
    assert all(low <= a.ctypes.data < low + 16 * N for a in smaller)
    del smaller
    assert exe(ones(5 * N)).ctypes.data == low


@native
def test_what_waits_beyond_the_limit_is_given_back_from_the_end(store: ResultAllocator) -> None:
    exe = doubling()
    keep(store, 2 * LARGE)
    result = exe(ones(8 * N))
    begin, end = result.ctypes.data, result.ctypes.data + result.nbytes
    del result
    assert store.waiting() <= 2 * LARGE + GRAIN
    assert first_of(begin) == 2.0, "what is below the limit keeps its memory"
    assert first_of(end - 4) in (0.0, 2.0) and first_of(end - 2 * GRAIN) == 0.0, "memory that the system gave anew"
    again = exe(ones(8 * N) * 3)
    assert again.ctypes.data == begin and (again == 6).all()


@native
def test_in_the_midst_what_comes_back_is_given_back(store: ResultAllocator) -> None:
    exe = doubling()
    keep(store, LARGE)
    below, between, behind = exe(ones(2 * N)), exe(ones(4 * N)), exe(ones(2 * N))
    place = between.ctypes.data
    del between
    assert first_of(place) in (0.0, 2.0) and first_of(place + 2 * GRAIN) == 0.0
    assert (below == 2).all() and (behind == 2).all()
    store.blocks()
    again = exe(ones(4 * N) * 5)
    assert again.ctypes.data == place and (again == 10).all()
    del below, behind, again
    assert store.is_whole() and store.waiting() <= LARGE + GRAIN


@native
@pytest.mark.parametrize("kept", [0, LARGE, 1 << 28])
def test_results_that_are_kept_and_dropped_in_any_order(store: ResultAllocator, kept: int) -> None:
    exe, rng = doubling(), random.Random(kept)
    keep(store, kept)
    held: list[tuple[int, np.ndarray[Any, Any]]] = []
    for iteration in range(300):
        if held and rng.random() < 0.55:
            held.pop(rng.randrange(len(held)))
        else:
            held.append(
                (iteration, exe(np.full(rng.choice([N, N + 1, 2 * N, 3 * N + 17, 5 * N]), iteration, np.float32)))
            )
        if iteration % 20 == 0:
            store.blocks()
            assert all((a == 2 * iteration).all() for iteration, a in held)
    assert store.out() == sum(size for size, is_taken in store.blocks() if is_taken)
    held.clear()
    assert store.is_whole() and store.out() == 0
    assert store.waiting() <= kept + GRAIN


@native
@pytest.mark.parametrize("few", ["system", "limit"])
def test_without_so_many_addresses_numpy_allocates(few: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if few == "system":
        monkeypatch.setattr(allocator, "STORE", 1 << 60)
    else:
        monkeypatch.setattr(resource, "getrlimit", lambda what: (4 << 30, 4 << 30))
    entry, methods = executor._entry(), executor._methods()
    assert entry is not None and methods is not None
    monkeypatch.setattr(methods, "allocator", new_allocator(entry.address))
    store = ResultAllocator(store_of(methods.allocator))
    assert store.start == store.end == 0
    result = doubling()(ones(N))
    assert (result == 2).all() and not ResultAllocator(methods.allocator).has(result)


@native
def test_threads_never_get_the_same_memory(store: ResultAllocator) -> None:
    exe, wrong = doubling(), []

    def work(number: int) -> None:
        x = np.full(N + number, number, np.float32)
        kept = [exe(x) for _ in range(3)]
        for _ in range(20):
            kept = [*kept[1:], exe(x)]
            if not all((a == 2 * number).all() for a in kept):
                wrong.append(number)

    in_threads(work, range(4))
    assert not wrong and store.is_whole()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 1 << 40), (LARGE,), (LARGE // 8, 3)])
def test_shape_and_dtype(shape: tuple[int, ...]) -> None:
    result = new_result(shape, np.dtype(np.float64))
    assert (result.shape, result.dtype) == (shape, np.float64)


@pytest.mark.parametrize("shape", [(-LARGE, -8), (1 << 62,), (1 << 40, 1 << 40)])
def test_what_cannot_be_is_refused_by_the_name_of_the_result(shape: tuple[int, ...]) -> None:
    with pytest.raises(AnyshapeError, match=r"result y, of shape .* cannot be allocated"):
        new_result(shape, np.dtype(np.float32), "y")


def test_a_store_begins_with_one_head(new_allocators: int) -> None:
    store = ResultAllocator(store_of(new_allocators))
    assert store.is_whole() and store.waiting() == HEAD and store.out() == 0


@native
@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
def test_addresses_without_memory_keep_no_process_from_forking(store: ResultAllocator) -> None:
    """Linux refuses a fork that would reserve more than there is; flags "ac" are of memory that is reserved, "nr" of what is not."""
    flags: list[str] = []
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(match[1], 16) <= store.start < int(match[2], 16)
        elif inside and line.startswith("VmFlags:"):
            flags = line.split()[1:]
    assert "nr" in flags and "ac" not in flags
