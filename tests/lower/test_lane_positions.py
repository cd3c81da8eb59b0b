"""Comparisons of positions along the lanes: numbers of lanes are compared with one distance, which is cut to the lanes that there are."""

from __future__ import annotations

import re

import pytest

from anyshape.dims import Size
from anyshape.dtypes import I64
from anyshape.equations.expr import Expr, const
from anyshape.equations.functions import eq, ge, gt, le, lt, ne, where
from anyshape.lower import Group, host_target, lower_group
from tests.lower.groups import Builder, K, M, N
from tests.lower.native import check

SIZES = [{N: n, M: m} for n, m in ((1, 1), (3, 15), (0, 20), (4, 0), (40, 33), (70, 70), (5, 200))]
COMPARISONS = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}


def compared(name: str, *, swapped: bool = False, by: Size | None = 0, read: bool = False) -> Group:
    """A matrix of 1.0 where the number of the column compares so with that of the row, `by` further on, or with the largest integer if `by`
    is None, or with what is read for the row."""
    b = Builder("compared")
    limits = b.input([N], I64)
    y = b.output(b.tensor([N, M]))
    i, j = b.eqs.index("i", N), b.eqs.index("j", M)
    limit: Expr = limits[i] if read else const((1 << 63) - 1) if by is None else i + by
    left, right = (limit, j) if swapped else (j, limit)
    b.eqs.define(y[i, j], where(COMPARISONS[name](left, right), 1.0, 2.0))
    return b.group()


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("by", [-3, 0, 40, None])
def test_positions_compare_as_in_the_interpreter(name: str, swapped: bool, by: int | None) -> None:
    check(compared(name, swapped=swapped, by=by), SIZES)
    check(compared(name, swapped=swapped, read=True), SIZES)


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_limit_may_be_a_parameter_near_the_ends_of_i64(name: str) -> None:
    """What it is compared with is a difference of positions: then no sum overflows in the interpreter either."""
    b = Builder("compared")
    y = b.output(b.tensor([N, M]))
    i, j = b.eqs.index("i", N), b.eqs.index("j", M)
    b.eqs.define(y[i, j], where(COMPARISONS[name](j - i, K), 1.0, 2.0))
    check(b.group(), [{N: 5, M: 70, K: k} for k in (-(2**63), -(2**62), -3, 0, 40, 2**62, 2**63 - 1)])


@pytest.mark.skipif(
    host_target().vector_bytes < 32, reason="vectors of positions are no longer than those of lanes' numbers"
)
def test_only_a_limit_that_is_not_read_is_compared_with_numbers_of_lanes() -> None:
    long = re.compile(r"icmp eq <\d+ x i64>")
    known, read = (lower_group(g, host_target()).text for g in (compared("eq"), compared("eq", read=True)))
    assert not long.search(known) and long.search(read)
