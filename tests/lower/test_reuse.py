"""Reuse of operands' memory for results: what is not safe is not offered. Each kernel is also run so (see `check`)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anyshape.dims import Size
from anyshape.dtypes import BOOL, F64, I32, I64
from anyshape.equations.expr import cast
from anyshape.equations.functions import maximum, minimum, reduce_, wrap
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.analyse.disjoint import are_disjoint
from anyshape.lower.ir.dag import Affine, Dag, LoopVar, affine
from tests.lower.groups import Builder, K, M, N
from tests.lower.native import check

SIZES = [{N: n, M: m, K: k} for n, m, k in ((1, 1, 1), (5, 37, 3), (33, 64, 17), (0, 3, 2), (4, 0, 5))]


def pairs(group: Group) -> tuple[tuple[int, int], ...]:
    return lower_group(group, host_target()).reusable


def test_a_map_over_either_operand() -> None:
    b = Builder("map")
    x, z = b.input([N, M]), b.input([N, M])
    y = b.output(b.tensor([N, M]))
    i = b.eqs.indices("i", [N, M])
    b.eqs.define(y[i], x[i] * 2.0 + z[i])
    assert pairs(check(b.group(), SIZES).group) == ((0, 0), (0, 1))


def test_a_broadcast_operand_is_not_overwritten() -> None:
    b = Builder("broadcast")
    x, z = b.input([N, M]), b.input([M])
    y = b.output(b.tensor([N, M]))
    i, j = b.eqs.indices("i", [N, M])
    b.eqs.define(y[i, j], x[i, j] + z[j])
    assert pairs(check(b.group(), SIZES).group) == ((0, 0),)


def test_a_reversed_or_transposed_operand_is_not_overwritten() -> None:
    b = Builder("reversed")
    x, z = b.input([N, M]), b.input([N, N])
    y, t = b.output(b.tensor([N, M])), b.output(b.tensor([N, N]))
    i, j = b.eqs.indices("i", [N, M])
    b.eqs.define(y[i, j], x[i, M - 1 - j] + x[i, j])
    k, m = b.eqs.indices("k", [N, N])
    b.eqs.define(t[k, m], z[m, k])
    assert pairs(check(b.group(), SIZES).group) == ()


def test_widths_must_agree_and_dtypes_need_not() -> None:
    b = Builder("widths")
    x = b.input([N, M])
    i = b.eqs.indices("i", [N, M])
    for dtype in (F64, BOOL, I32):
        b.eqs.define(b.output(b.tensor([N, M], dtype))[i], cast(x[i], dtype))
    offered = pairs(check(b.group(), SIZES, parts=(1,)).group)
    assert offered == ((2, 0),)  # the last store of the loop: nothing reads x after it


def test_an_operand_that_a_later_store_reads_is_kept() -> None:
    b = Builder("twice")
    x = b.input([N, M])
    i = b.eqs.indices("i", [N, M])
    b.eqs.define(b.output(b.tensor([N, M]))[i], x[i] + 1.0)
    b.eqs.define(b.output(b.tensor([N, M]))[i], x[i] * 3.0)
    assert len(pairs(check(b.group(), SIZES).group)) == 1


def test_an_operand_that_updates_read_after_the_copy_is_kept() -> None:
    b = Builder("updates")
    x, z, index = b.input([N]), b.input([N]), b.input([N], I64)
    for source in (x, z):
        y = b.output(b.tensor([N]))
        (i,) = b.eqs.indices("i", [N])
        b.eqs.define(y[i], source[i])
        b.eqs.update(y[wrap(index[i], N)], "set", x[i])
    assert pairs(b.group()) == ((1, 1),)


def in_pieces(row: Size, places: Sequence[tuple[int, int, int]]) -> Group:
    """y[i, first + j] = x[i, place + j] * 2 for j < count of each piece: first, count, place."""
    b = Builder("pieces")
    x, y = b.input([N, row]), b.output(b.tensor([N, row]))
    for first, count, place in places:
        i, j = b.eqs.indices("i", [N, count])
        b.eqs.define(y[i, first + j], x[i, place + j] * 2.0)
    return b.group()


def test_rows_that_are_written_in_pieces_are_overwritten() -> None:
    for places in ([(0, 18, 0), (18, 14, 18)], [(16, 9, 16), (0, 16, 0), (25, 7, 25)]):
        assert pairs(check(in_pieces(32, places), SIZES).group) == ((0, 0),)


@pytest.mark.parametrize(
    ("row", "places"),
    [
        (32, [(0, 18, 14), (18, 14, 0)]),
        (32, [(0, 18, 0), (18, 14, 0)]),
        (32, [(0, 18, 0), (16, 16, 16)]),
        (M, [(0, 2, 0), (2, 1, 2)]),
    ],
    ids=["exchanged", "one twice", "that meet", "rows of an unknown length"],
)
def test_pieces_that_are_read_elsewhere_or_may_meet_are_kept(row: Size, places: Sequence[tuple[int, int, int]]) -> None:
    assert pairs(in_pieces(row, places)) == ()


def test_places_in_rows() -> None:
    (row, column), other = (Dag().variable(n) for n in (N, 16)), Dag().variable(17)

    def at(place: int, along: LoopVar = column, step: Size = 32, unit: Size = 1) -> Affine:
        return affine([(row, step), (along, unit)], place)

    assert are_disjoint([at(0), at(16)], [N, 32]) and are_disjoint([at(16), at(0, step=64)], [N, 2, 32])
    assert are_disjoint([at(0, step=32 * M), at(16, step=32 * M)], [N, M, 32]) and are_disjoint([at(0)], [N, M])
    assert are_disjoint([affine([(row, 1)], 0), affine([(row, 1)], 1)], [N, 1]) is False
    assert not are_disjoint([at(0), at(15)], [N, 32]) and not are_disjoint([at(0, other), at(16)], [N, 32])
    assert not are_disjoint([at(0), at(17)], [N, 32]), "17 to 32: the last one is in the next row"
    assert not are_disjoint([at(0, step=33), at(16, step=33)], [N, 32]) and not are_disjoint([at(0), at(16)], [N, M])
    assert not are_disjoint([at(0, unit=2), at(16)], [N, 32]) and not are_disjoint(
        [at(0), affine([(row, 32)], N)], [N, 32]
    )


def test_a_row_is_normalised_in_place() -> None:
    b = Builder("rows")
    x = b.input([N, M])
    total, y = b.tensor([N]), b.output(b.tensor([N, M]))
    i, j = b.eqs.indices("i", [N, M])
    b.eqs.define(total[i], reduce_("sum", [M], lambda r: x[i, r]))
    b.eqs.define(y[i, j], x[i, j] - total[i])
    assert pairs(check(b.group(), SIZES, tolerance=1e-4).group) == ((0, 0),)


def test_a_row_that_another_row_reads_is_kept() -> None:
    b = Builder("across")
    x = b.input([N, N])
    total, y = b.tensor([N]), b.output(b.tensor([N, N]))
    i, j = b.eqs.indices("i", [N, N])
    b.eqs.define(total[i], reduce_("sum", [N], lambda r: x[r, i]))
    b.eqs.define(y[i, j], x[i, j] - total[i])
    assert pairs(check(b.group(), SIZES, tolerance=1e-4).group) == ()


def test_a_residual_is_added_in_place_to_a_product_but_a_factor_is_kept() -> None:
    b = Builder("residual")
    a, w, r = b.input([N, N]), b.input([N, N]), b.input([N, N])
    s, y = b.tensor([N, N]), b.output(b.tensor([N, N]))
    i, j = b.eqs.indices("i", [N, N])
    b.eqs.define(s[i, j], reduce_("sum", [N], lambda k: a[i, k] * w[k, j]))
    b.eqs.define(y[i, j], s[i, j] + r[i, j])
    assert pairs(check(b.group(), SIZES, tolerance=1e-4).group) == ((0, 2),)
    b = Builder("factor")
    a, w = b.input([N, N]), b.input([N, N])
    s, y = b.tensor([N, N]), b.output(b.tensor([N, N]))
    i, j = b.eqs.indices("i", [N, N])
    b.eqs.define(s[i, j], reduce_("sum", [N], lambda k: a[i, k] * w[k, j]))
    b.eqs.define(y[i, j], s[i, j] + a[i, j])
    assert pairs(check(b.group(), SIZES, tolerance=1e-4).group) == ()


def test_rows_that_trade_places_are_kept() -> None:
    b = Builder("trade")
    x = b.input([N, N, M])
    total, y = b.tensor([N, N]), b.output(b.tensor([N, N, M]))
    i, k, j = b.eqs.indices("i", [N, N, M])
    b.eqs.define(total[i, k], reduce_("sum", [M], lambda r: x[k, i, r]))
    b.eqs.define(y[i, k, j], x[i, k, j] - total[i, k])
    assert pairs(check(b.group(), SIZES, tolerance=1e-4).group) == ()


def test_a_row_that_a_later_loop_reads_again_is_kept() -> None:
    b = Builder("again")
    x = b.input([N, M])
    peak, spread = b.tensor([N]), b.tensor([N])
    y, z = b.output(b.tensor([N, M])), b.output(b.tensor([N]))
    i, j = b.eqs.indices("i", [N, M])
    b.eqs.define(peak[i], reduce_("max", [M], lambda r: x[i, r]))
    b.eqs.define(y[i, j], x[i, j] - peak[i])
    b.eqs.define(spread[i], reduce_("sum", [M], lambda r: minimum(x[i, r] - peak[i], 1.0)))
    b.eqs.define(z[i], reduce_("sum", [M], lambda r: maximum(x[i, r], spread[i])))
    sizes = [s for s in SIZES if s[M]]
    assert pairs(check(b.group(), sizes, tolerance=1e-4).group) == ()
