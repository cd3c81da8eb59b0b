"""What a recurrence may be off by: much where it enlarges rounding, nothing where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.dtypes import F16, F32, F64, DType
from anyshape.equations import Equation, Equations, Tensor
from anyshape.equations.functions import cast, log, maximum, minimum, reduce_, sqrt
from anyshape.equations.interpret import Arithmetic, interpret
from anyshape_testing.compare.enlarging import enlarged, is_steep, overflowing, recurs
from anyshape_testing.compare.tolerance import Allowance, allowance, assert_close

STEPS, WIDE = 40, 6


def spread(factor: float) -> np.ndarray:
    """Computes how far the steps of y[s + 1, i] = the sum over j of factor * y[s, j] / WIDE, from ones on, may be off."""
    array = np.ones(WIDE, np.float32)
    x, y = Tensor("x", F32, (WIDE,)), Tensor("y", F32, (STEPS + 1, WIDE))
    eqs = Equations("op", {"x": x}, {"y": y})
    s, i = eqs.index("s", STEPS), eqs.index("i", WIDE)
    eqs.define(y[0, i], x[i])
    eqs.step(y[s + 1, i], reduce_("sum", [WIDE], lambda j: y[s, j] * np.float32(factor / WIDE)), s)
    assert recurs(eqs.equations)

    def read(arithmetic: Arithmetic | None = None) -> list[np.ndarray]:
        return [interpret(eqs.equations, {x: array}, arithmetic=arithmetic)[y]]

    return enlarged(read)[0]


@pytest.mark.parametrize(("factor", "least", "most"), [(2.0, 1.0, np.inf), (0.5, 0.0, 1e-5)])
def test_only_what_enlarges_rounding_may_be_far_off(factor: float, least: float, most: float) -> None:
    last = spread(factor)[-1]
    assert (least <= last).all() and (last <= most).all()


def test_early_steps_may_be_off_less_than_late_ones() -> None:
    off = spread(2.0)
    assert (off[0] == 0).all() and off[1].max() < 1e-4 < off[-1].min()


def test_a_root_of_a_sum_that_cancels_may_be_off_there_alone() -> None:
    """sqrt(1 + b): half a unit of the last place of 1 is much of what is left where b is nearly -1."""
    array = np.array([2.0, -1 + 2**-22, 5.0], np.float32)
    x, y = Tensor("x", F32, (3,)), Tensor("y", F32, (3,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", 3)
    eqs.define(y[i], sqrt(x[i] + np.float32(1)))
    assert is_steep(eqs.equations) and not recurs(eqs.equations)
    off = enlarged(lambda a: [interpret(eqs.equations, {x: array}, arithmetic=a)[y]], beside=False)[0]
    assert off[1] > 1e-4 and off[0] < 1e-5 and off[2] < 1e-5


def test_a_root_of_an_input_is_not_steep() -> None:
    x, y = Tensor("x", F32, (3,)), Tensor("y", F32, (3,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", 3)
    eqs.define(y[i], sqrt(x[i]) + np.float32(1))
    assert not is_steep(eqs.equations)


def test_a_sum_next_to_the_largest_number_may_be_anything() -> None:
    """Moved by its rounding it overflows; its neighbour does not, and is held to its own terms."""
    array = np.array([[3.40282e38, 0.0], [1.0, 2.0]], np.float32)
    x, y = Tensor("x", F32, (2, 2)), Tensor("y", F32, (2,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", 2)
    eqs.define(y[i], reduce_("sum", [2], lambda k: x[i, k]))
    off = enlarged(lambda a: [interpret(eqs.equations, {x: array}, arithmetic=a)[y]], False, reductions=True)[0]
    assert np.isinf(off[0]) and off[1] < 1e-3


@pytest.mark.parametrize(("dtype", "terms", "one_in"), [(F64, 1 << 18, 1 << 30), (F32, 2048, 4096), (F32, 100, 30_000)])
def test_a_sum_of_many_equal_terms_may_be_off_by_what_adding_them_one_by_one_is(
    dtype: DType, terms: int, one_in: int
) -> None:
    """The allowed error is no more than a term that is left out, of some thousands."""
    array = np.full(terms, 0.1, dtype.numpy)
    x, y = Tensor("x", dtype, (terms,)), Tensor("y", dtype, ())
    eqs = Equations("op", {"x": x}, {"y": y})
    eqs.define(y[()], reduce_("sum", [terms], lambda k: x[k]))
    (want,), allowed = read(eqs, x, y, array)
    one_by_one = np.add.accumulate(array)[-1]
    assert_close(one_by_one, want, allowed, "sum")
    with pytest.raises(AssertionError):
        assert_close(np.asarray(want * (1 + 1 / one_in), dtype.numpy), want, allowed, "sum")


def test_updates_whose_values_cancel_are_sums() -> None:
    """Elements to which nothing is added, and those whose values do not cancel, are held to what they are."""
    array = np.array([4e34, 3.0, -4e34, 5.0, 1.0], np.float32)
    x, y = Tensor("x", F32, (5,)), Tensor("y", F32, (3,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i, k = eqs.index("i", 3), eqs.index("k", 5)
    eqs.define(y[i], np.float32(2))
    eqs.update(y[k // 4], "add", x[k])
    (want,), allowed = read(eqs, x, y, array)
    assert want[1] == 3 and want[2] == 2
    assert_close(np.float32([1e28, 3, 2]), want, allowed, "update")
    for wrong in ([1e32, 3, 2], [want[0], 3.01, 2], [want[0], 3, 2.01]):
        with pytest.raises(AssertionError):
            assert_close(np.float32(wrong), want, allowed, "update")


def test_updates_that_overflow_in_one_order_are_undetermined() -> None:
    array = np.array([3e38, 3e38, -3e38, 1.0, np.inf, 1.0], np.float32)
    x, y = Tensor("x", F32, (6,)), Tensor("y", F32, (3,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i, k = eqs.index("i", 3), eqs.index("k", 6)
    eqs.define(y[i], np.float32(0))
    eqs.update(y[k // 4], "add", x[k])

    def under(a: Arithmetic | None = None) -> list[np.ndarray]:
        with np.errstate(over="ignore"):
            return [interpret(eqs.equations, {x: array}, arithmetic=a)[y]]

    assert [u.tolist() for u in overflowing(under)] == [[True, False, False]]
    assert [u.tolist() for u in overflowing(under, terms=True)] == [[True, True, False]]


def read(eqs: Equations, x: Tensor, y: Tensor, array: np.ndarray) -> tuple[list[np.ndarray], Allowance]:
    """The results, and what they may be off by as their own terms tell."""

    def under(arithmetic: Arithmetic | None = None) -> list[np.ndarray]:
        return [interpret(eqs.equations, {x: array}, arithmetic=arithmetic)[y]]

    return under(), Allowance(64, 0.0, spread=enlarged(under, False, reductions=True)[0])


def test_what_is_computed_of_a_sum_that_may_overflow_is_undetermined() -> None:
    """3e38 + 3e38 - 3e38 is infinite in one order and 3e38 in another; infinities and NaN that are given are what they are."""
    rows = [[3e38, 3e38, -3e38], [1.0, 2.0, 3.0], [np.inf, 3e38, 3e38], [np.nan, 0.0, 1.0]]
    x, y, z = Tensor("x", F32, (4, 3)), Tensor("y", F32, (4,)), Tensor("z", F32, (4,))
    eqs = Equations("op", {"x": x}, {"y": y, "z": z})
    i = eqs.index("i", 4)
    eqs.define(y[i], reduce_("sum", [3], lambda k: x[i, k]) * np.float32(0.5))
    eqs.define(z[i], x[i, 0])

    def read(a: Arithmetic | None = None) -> list[np.ndarray]:
        return [interpret(eqs.equations, {x: np.float32(rows)}, arithmetic=a)[t] for t in (y, z)]

    assert [u.tolist() for u in overflowing(read)] == [[True, False, False, False], [False] * 4]


def test_a_term_of_three_factors_that_overflows_is_undetermined() -> None:
    """1e30 * 1e30 * 1e-30 overflows from the left; the sum beside it does not, and what is infinite of two factors is so in any order."""
    rows = np.float32([[1e30, 1e30, 1e-30], [1.0, 2.0, 3.0]])
    x, y = Tensor("x", F32, (2, 3)), Tensor("y", F32, (2,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", 2)
    eqs.define(y[i], reduce_("sum", [1], lambda k: x[i, k] * x[i, k + 1] * x[i, k + 2]))

    def read(a: Arithmetic | None = None) -> list[np.ndarray]:
        return [interpret(eqs.equations, {x: rows}, arithmetic=a)[y]]

    assert overflowing(read, terms=True)[0].tolist() == [True, False] and not overflowing(read)[0].any()
    assert allowance(eqs.equations, [rows], (2,)).factors == 3


def test_whether_a_logarithm_is_a_number_may_be_undetermined() -> None:
    """A sum of large terms that cancel is 0, more or less, by their order. One that cannot be 0, and one that no rounding makes positive,
    have one answer."""
    rows = np.float32([[1e8, -1e8, 0.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [np.nan, 1.0, 1.0]])
    x, y = Tensor("x", F32, (4, 3)), Tensor("y", F32, (4,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", 4)
    eqs.define(y[i], log(reduce_("sum", [3], lambda k: x[i, k])))
    off = enlarged(lambda a: [interpret(eqs.equations, {x: rows}, arithmetic=a)[y]], False, reductions=True)[0]
    assert np.isinf(off[0]) and (off[1:] < 1e-4).all()
    want = np.float32([-np.inf, np.log(6), np.nan, np.nan])
    allowed = Allowance(64, 0.0, spread=off)
    for first in (np.nan, np.inf, -3.0):
        assert_close(np.float32([first, *want[1:]]), want, allowed, "log")
    for wrong in (
        [-np.inf, np.nan, np.nan, np.nan],
        [-np.inf, np.log(6), -np.inf, np.nan],
        [-np.inf, 1.7, np.nan, np.nan],
    ):
        with pytest.raises(AssertionError):
            assert_close(np.float32(wrong), want, allowed, "log")


def cut_sum(array: np.ndarray) -> np.ndarray:
    """Computes by how much the sum of each row, limited to -1 and 1, may be off."""
    rows, n = array.shape
    x, y = Tensor("x", F64, (rows, n)), Tensor("y", F64, (rows,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", rows)
    eqs.define(y[i], minimum(maximum(reduce_("sum", [n], lambda j: x[i, j]), np.float64(-1)), np.float64(1)))
    return enlarged(lambda a: [interpret(eqs.equations, {x: array}, arithmetic=a)[y]], False, True)[0]


def test_a_sum_whose_terms_cancel_may_have_either_sign() -> None:
    """The sum is uncertain in each of many rows: readings that go one way by chance would say that the cut sum is sure."""
    cancelling = np.tile([1e300, -1e300, 5.0, 1e284], (200, 1))
    assert (cut_sum(cancelling) >= 2).all()
    assert (cut_sum(np.tile([1.0, 2.0, 5.0, -3.0], (200, 1))) < 1e-12).all()


def product_of_rounded(dtype: DType, narrowing: bool) -> tuple[np.ndarray, np.ndarray]:
    """A difference of products of what was rounded to the dtype before, and by how much it may be off."""
    x, r, y = Tensor("x", F32, (4,)), Tensor("r", dtype, (4,)), Tensor("y", F32, (1,))
    eqs = Equations("op", {"x": x}, {"y": y})
    i = eqs.index("i", 4)
    eqs.equations.append(Equation(r, (i,), cast(x[i], dtype)))  # `define` would round it at the end alone
    eqs.define(y[0], cast(r[0], F32) * cast(r[1], F32) - cast(r[2], F32) * cast(r[3], F32))
    array = np.float32([1.2345, 2.3456, 1.2341, 2.3459])

    def read(arithmetic: Arithmetic | None = None) -> list[np.ndarray]:
        return [interpret(eqs.equations, {x: array}, arithmetic=arithmetic)[y]]

    return read()[0], enlarged(read, False, True, narrowing)[0]


def test_values_between_calls_are_rounded() -> None:
    exact = 1.2345 * 2.3456 - 1.2341 * 2.3459
    rounded, off = product_of_rounded(F16, True)
    assert_close(rounded, np.float32([exact]), Allowance(64, 0.0, spread=off), "rounded")
    for wrong in (product_of_rounded(F16, False)[1], product_of_rounded(F32, True)[1]):
        with pytest.raises(AssertionError):
            assert_close(rounded, np.float32([exact]), Allowance(64, 0.0, spread=wrong), "rounded")
    with pytest.raises(AssertionError):
        assert_close(rounded + np.float32(0.05), np.float32([exact]), Allowance(64, 0.0, spread=off), "rounded")
