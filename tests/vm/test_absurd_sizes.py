"""Sizes and parameters at the ends of 64 bits are refused in words, or computed exactly; never a wrong address."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError

HUGE = [
    (1 << 40, 1 << 40),
    (1 << 62, 4),
    (1 << 32, 1 << 31),
    (1 << 31, 1 << 31),
    (1 << 62, 1),
    ((1 << 63) - 1, 2),
]
FORMS: dict[str, Callable[[Any], Any]] = {
    "an output": lambda r: ops.zeros(r),
    "a fused kernel": lambda r: ops.exp(ops.full(np.float32(1), r)),
    "a temporary": lambda r: ops.sum(ops.sort(ops.zeros(r), axis=0), axes=(0,)),
    "a product of dims": lambda r: ops.reshape(ops.zeros(r), (-1,)),
    "copies": lambda r: ops.tile(ops.zeros((2, 3)), r),
}


@pytest.mark.parametrize("loop", ["native", "python"])
@pytest.mark.parametrize("name", FORMS)
def test_more_elements_than_there_is_memory(name: str, loop: str) -> None:
    r = anyshape.input("r", "i64[2]")
    exe = anyshape.compile(anyshape.function([r], FORMS[name](r)), loop=loop)
    exe(np.array([1, 2]))
    for sizes in HUGE:
        with pytest.raises(AnyshapeError):
            exe(np.array(sizes))
    exe(np.array([3, 1]))


@pytest.mark.parametrize("loop", ["native", "python"])
def test_no_elements_under_huge_dims(loop: str) -> None:
    r = anyshape.input("r", "i64[3]")
    exe = anyshape.compile(anyshape.function([r], ops.exp(ops.zeros(r))), loop=loop)
    for sizes in ((1 << 40, 0, 1 << 20), (0, 1 << 40, 1 << 20)):
        with contextlib.suppress(AnyshapeError):  # NumPy has no array of some such shapes
            assert exe(np.array(sizes)).shape == sizes
    with pytest.raises(AnyshapeError):
        exe(np.array([1 << 30, 1 << 30, 1 << 30]))


ENDS = (-(1 << 63), -(1 << 63) + 1, (1 << 63) - 1, -1, 0, 2)


@pytest.mark.parametrize("loop", ["native", "python"])
def test_slices_and_rolls_at_the_ends(loop: str) -> None:
    """Positions are computed in 64 bits: those of NumPy, or a refusal."""
    x = anyshape.input("x", "f32[n]")
    starts, ends, steps = (anyshape.input(name, "i64[1]") for name in ("starts", "ends", "steps"))
    sliced = anyshape.compile(
        anyshape.function([x, starts, ends, steps], ops.slice(x, starts, ends, axes=(0,), steps=steps)), loop=loop
    )
    array = np.arange(5, dtype=np.float32)
    for a in ENDS:
        for b in ENDS:
            for c in (s for s in ENDS if s):
                try:
                    got = sliced(array, np.array([a]), np.array([b]), np.array([c]))
                except AnyshapeError:
                    continue
                np.testing.assert_array_equal(got, array[a:b:c])
    rolled = anyshape.compile(anyshape.function([x, starts], ops.roll(x, starts, axes=(0,))), loop=loop)
    for a in ENDS:
        np.testing.assert_array_equal(rolled(array, np.array([a])), np.roll(array, a % 5))
