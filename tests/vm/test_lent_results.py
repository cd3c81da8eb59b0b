"""Large results lie in memory that is lent again when nobody has an array over it, and never before."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError
from anyshape.vm import Executable, compile, results
from anyshape.vm.results import LARGE, new_result
from tests.in_threads import in_threads

ROWS = LARGE // 4 // 64


@pytest.fixture(autouse=True)
def nothing_waits() -> None:
    """Blocks that came back from other tests of this process would be lent first."""
    gc.collect()
    results._idle.clear()


def doubling(**options: Any) -> Executable:
    x = anyshape.input("x", "f32[n, 64]")
    return compile(anyshape.function([x], ops.add(x, x)), **options)


@pytest.mark.parametrize("options", [{}, {"walk": True}, {"kernels": "interpret"}], ids=["native", "walk", "interpret"])
def test_memory_is_lent_again_when_the_last_array_over_it_is_gone(options: dict[str, Any]) -> None:
    exe = doubling(**options)
    x = np.ones((ROWS + 3, 64), np.float32)
    first = exe(x)
    place, part = first.ctypes.data, first[5:7, :3]
    del first
    second = exe(x * 2)
    assert not np.shares_memory(part, second)
    assert (part == 2).all()
    del part, second
    held = [exe(x * 3) for _ in range(len(results._idle) + 1)]
    assert place in {a.ctypes.data for a in held}
    assert all((a == 6).all() for a in held)


def test_results_are_ordinary_arrays() -> None:
    found = doubling()(np.ones((ROWS, 64), np.float32))
    assert type(found) is np.ndarray
    assert found.flags.carray
    assert found.ctypes.data % 64 == 0
    found += 1
    assert (found == 3).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 1 << 40), (LARGE,), (LARGE // 8, 3)])
def test_shape_and_dtype(shape: tuple[int, ...]) -> None:
    made = new_result(shape, np.dtype(np.float64))
    assert (made.shape, made.dtype) == (shape, np.float64)


@pytest.mark.parametrize("shape", [(-LARGE, -8), (1 << 62,), (1 << 40, 1 << 40)])
def test_what_cannot_be_is_refused_by_the_name_of_the_result(shape: tuple[int, ...]) -> None:
    with pytest.raises(AnyshapeError, match=r"result y, of shape .* cannot be made"):
        new_result(shape, np.dtype(np.float32), "y")


def test_threads_never_get_the_same_memory() -> None:
    exe, wrong = doubling(), []

    def work(number: int) -> None:
        x = np.full((ROWS, 64), number, np.float32)
        kept = [exe(x) for _ in range(3)]
        for _ in range(20):
            kept = [*kept[1:], exe(x)]
            if not all((a == 2 * number).all() for a in kept):
                wrong.append(number)

    in_threads(work, range(4))
    assert not wrong
