"""Choices that a row makes as a whole: one loop per row, and none for a row that would be copied onto itself."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.dtypes import I64
from anyshape.equations import Tensor
from anyshape.equations.functions import and_, ge, lt, pad, where
from anyshape.lower import Group
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import Native, check


def cache() -> tuple[Group, Tensor, Tensor, Tensor]:
    """y[n, j, k]: new rows from position filled[n] on, old ones before."""
    b = Builder("cache")
    past, new, filled = b.input([B, N, M]), b.input([B, K, M]), b.input([B], I64)
    y = b.tensor([B, N, M])
    n, j, k = b.eqs.indices("n", y.shape)
    at = filled[n]
    b.eqs.define(y[n, j, k], where(ge(j, at), pad(new, 0)[n, j - at, k], pad(past, 0)[n, j, k]))
    b.output(y)
    return b.group(), past, new, filled


def test_old_or_new_rows() -> None:
    group, _, _, filled = cache()
    for m in (1, 7, 64, 130):
        for at in ((0, 3), (8, 9), (5, 0)):
            check(group, [{B: 2, N: 9, K: 2, M: m}], fixed={filled: np.array(at, np.int64)})


def test_rows_of_pads() -> None:
    b = Builder("pad")
    x, other = b.input([N, M]), b.input([N + 3, M])
    y = b.tensor([N + 3, M])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], where(ge(other[i, 0], 0.0), pad(x, 7.0)[i - 1, j], other[i, j]))
    b.output(y)
    check(b.group(), [{N: n, M: m} for n, m in ((4, 77), (0, 5), (3, 0), (1, 16), (9, 200))])


def test_a_row_onto_itself() -> None:
    """Old rows stay as they are and new ones come behind, where operand and result are one memory."""
    group, past, new, filled = cache()
    rng = np.random.default_rng(3)
    sizes = {B: 2, N: 9, K: 2, M: 70}
    arrays = {past: rng.normal(size=(2, 9, 70)).astype(np.float32), new: rng.normal(size=(2, 2, 70)).astype(np.float32)}
    arrays[filled] = np.array([4, 6], np.int64)
    native = Native(group)
    apart, together = (native.run(arrays, sizes, over=over)[1][0] for over in ((), ((0, 0),)))
    np.testing.assert_array_equal(apart, together)
    np.testing.assert_array_equal(together[0, 4:6], arrays[new][0])


@pytest.mark.parametrize("reads", [False, True], ids=["other rows", "what it overwrites"])
def test_rows_for_which_two_conditions_hold_are_computed_once(reads: bool) -> None:
    """Rows 2 to 4 of operand and result in one memory, where the first condition holds for 2 to 6 and the second for 0 to 4."""
    b = Builder("two")
    x, other, first = b.input([N, M]), b.input([N, M]), b.input([], I64)
    y = b.output(b.tensor([N, M]))
    i, j = b.eqs.indices("i", y.shape)
    source = x if reads else other
    second = where(lt(i, first[()] + 3), source[i, j] * 3.0, x[i, j])
    b.eqs.define(y[i, j], where(and_(ge(i, first[()]), lt(i, first[()] + 5)), source[i, j] * 2.0, second))
    rng = np.random.default_rng(3)
    sizes = {N: 40, M: 70}
    arrays = {t: rng.normal(size=(40, 70)).astype(np.float32) for t in (x, other)}
    arrays[first] = np.array(2, np.int64)
    factors = np.where(np.arange(40) < 2, 3, np.where(np.arange(40) < 7, 2, 1))[:, None].astype(np.float32)
    want = np.where(factors == 1, arrays[x], arrays[source] * factors)
    native = Native(b.group())
    for over in ((), ((0, 0),)):
        for parts in (1, 2, 3):
            np.testing.assert_array_equal(native.run(arrays, sizes, parts, over=over)[1][0], want)
