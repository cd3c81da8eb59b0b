"""Integers that are cut from sums: only what the rounding of a sum explains may differ, on both sides of the comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from anyshape.dtypes import F32, I32
from anyshape.equations import Equations, Tensor
from anyshape.equations.builder import Equation
from anyshape.equations.functions import abs_, cast, floor, reduce_
from anyshape.equations.interpret import Arithmetic, interpret
from anyshape_testing.compare.cuts import _explained, as_cut, cuts_floats

Sums = Callable[[Tensor, Any], Any]


def accepted(rows: Sequence[Sequence[float]], got: Sequence[int], body: Sums) -> np.ndarray:
    """What the law compares `got` of a kernel with, of y[i] = i32(body(x, i))."""
    stated, read = cut_rows(rows, body)
    (explained,) = as_cut([np.asarray(got, np.int32)], read(), stated, read)
    return explained


def accepted_of_a_reference(rows: Sequence[Sequence[float]], want: Sequence[int], body: Sums) -> np.ndarray:
    """What the law compares the plain reading of these equations with, where a reference says `want`."""
    stated, read = cut_rows(rows, body)
    (explained,) = as_cut(read(), [np.asarray(want, np.int32)], stated, read)
    return explained


def cut_rows(rows: Sequence[Sequence[float]], body: Sums) -> tuple[Sequence[Equation], Callable[..., list[np.ndarray]]]:
    """The equations y[i] = i32(body(x, i)), and their reading."""
    array = np.asarray(rows, np.float32)
    x, y = Tensor("x", F32, array.shape), Tensor("y", I32, array.shape[:1])
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", array.shape[0])
    eqs.define(y[i], cast(body(x, i), I32))

    def read(arithmetic: Arithmetic | None = None) -> list[np.ndarray]:
        return [interpret(eqs.equations, {x: array}, arithmetic=arithmetic)[y]]

    return eqs.equations, read


def total(x: Tensor, i: Any) -> Any:
    return reduce_("sum", [x.shape[1]], lambda j: x[i, j])


TENTHS, QUARTERS = [0.1] * 10, [0.25] * 10


@pytest.mark.parametrize("got", [0, 1])
def test_a_sum_next_to_a_whole_number_is_cut_to_either_side(got: int) -> None:
    assert accepted([TENTHS, QUARTERS], [got, 2], total).tolist() == [got, 2]


@pytest.mark.parametrize(("got", "expected"), [([2, 2], [1, 2]), ([-1, 2], [1, 2]), ([1, 3], [1, 2]), ([1, 1], [1, 2])])
def test_what_rounding_does_not_explain_stays_wrong(got: list[int], expected: list[int]) -> None:
    assert accepted([TENTHS, QUARTERS], got, total).tolist() == expected


@pytest.mark.parametrize(
    ("want", "expected"), [([0, 2], [1, 2]), ([1, 2], [1, 2]), ([2, 2], [2, 2]), ([1, 3], [1, 3]), ([0, 1], [1, 1])]
)
def test_a_reference_is_explained_too_or_it_stands(want: list[int], expected: list[int]) -> None:
    """The plain reading, [1, 2], is what the kernel computes: that a reading gives it excuses nothing by itself."""
    assert accepted_of_a_reference([TENTHS, QUARTERS], want, total).tolist() == expected


def test_integers_of_integers_are_never_excused() -> None:
    """Moved sums of floats in the same equations explain nothing where no cast cuts one."""
    x, y = Tensor("x", I32, (3,)), Tensor("y", I32, ())
    eqs = Equations("op", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("sum", [3], lambda j: x[j]))
    assert not cuts_floats(eqs.equations)

    def never(arithmetic: Arithmetic) -> list[np.ndarray]:
        raise AssertionError("nothing to read")

    (explained,) = as_cut([np.array(6, np.int32)], [np.array(7, np.int32)], eqs.equations, never)
    assert explained == 7


def test_sums_move_apart_from_each_other() -> None:
    """A quotient of equal sums is one, or a little less."""

    def share(x: Tensor, i: Any) -> Any:
        return total(x, i) / reduce_("sum", [x.shape[1]], lambda j: abs_(x[i, j]))

    assert accepted([TENTHS], [0], share).tolist() == [0]
    assert accepted([TENTHS], [2], share).tolist() == [1]


def test_nothing_but_a_sum_moves() -> None:
    assert accepted([[0.1]], [0], lambda x, i: floor(x[i, 0] * 10)).tolist() == [1]


def test_other_shapes_and_dtypes_are_not_looked_at() -> None:
    def never(arithmetic: Arithmetic) -> list[np.ndarray]:
        raise AssertionError("nothing to read")

    want = [np.zeros(2, np.int32), np.zeros(2, np.int32), np.zeros(2, np.float32)]
    got = [np.ones(3, np.int32), np.ones(2, np.int64), np.ones(2, np.float32)]
    assert all(w is v for w, v in zip(as_cut(got, want, (), never), want))


@pytest.mark.parametrize(
    ("readings", "got", "excused"),
    [
        ([2**60, 2**60 + 4096], 2**60 + 2048, True),  # a float on the way is a multiple of 256
        ([2**60, 2**60 + 4096], 2**60 + 4097, False),
        ([7, 9], 8, False),  # small integers: a reading would give it
        ([2**60, 2**61], 2**60 + 2048, False),  # two elements, say, of which rounding picks one
    ],
)
def test_large_integers_are_excused_between_readings(readings: list[int], got: int, excused: bool) -> None:
    plain, *_ = near = [np.array([r], np.uint64) for r in readings]
    expected = got if excused else plain
    np.testing.assert_array_equal(_explained(np.array([got], np.uint64), plain, near), np.array(expected, np.uint64))
