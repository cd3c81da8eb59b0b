"""What results of windows are computed with along their rows: which of it is kept from row to row, and that it is that of its own row."""

from __future__ import annotations

from typing import Any

import pytest

from anyshape import dims
from anyshape.dtypes import F32, I64
from anyshape.equations.functions import cast, maximum, minimum, pad, reduce_
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.emit.windowed.kept_rows import values_of_rows
from anyshape.lower.ir.dag import Dag, DagNode
from tests.lower.groups import B, Builder
from tests.lower.native import check

H, W = dims.symbol("h"), dims.symbol("w")
SIZES = [
    {B: b, H: h, W: w}
    for b, h, w in ((1, 9, 9), (2, 1, 40), (2, 40, 1), (3, 5, 17), (1, 2, 70), (0, 5, 5), (2, 30, 16))
]


def means(counts: str, taps: int = 3) -> Group:
    """Sums of windows of some rows and columns with a pad of one, over a number that a window's place decides."""
    b = Builder("means")
    x = b.input([B, 3, H, W])
    y = b.tensor([B, 3, H - taps + 3, W - taps + 3])
    n, c, i, j = b.eqs.indices("i", y.shape)

    def inside(at: Any, size: Any) -> Any:
        return minimum(maximum(size - at + 1, 0), taps) - minimum(maximum(1 - at, 0), taps)

    count = {
        "elements": lambda: inside(i, H) * inside(j, W),
        "columns": lambda: 1 + 7 // maximum(inside(j, W), 1),
        "rows": lambda: 1 + 7 // maximum(inside(i, H), 1),
        "places": lambda: (i * W + j) * inside(i, H) * inside(j, W),
        "alternating": lambda: inside(i, H) + maximum(i % 2, 0) * 3 * inside(j, W),
    }[counts]()
    total = reduce_("sum", [taps, taps], lambda p, q: pad(x, 0.0)[n, c, i + p - 1, j + q - 1])
    b.eqs.define(y[n, c, i, j], total / cast(maximum(count, 1), F32))
    b.output(y)
    return b.group()


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("counts", ["elements", "columns", "rows", "places", "alternating"])
def test_divisors_are_those_of_the_row(counts: str, level: str) -> None:
    group = means(counts)
    assert lower_group(group, host_target()).schedule == ("folded",)
    check(group, SIZES, target=host_target().limited(level))


def test_windows_beyond_a_vector() -> None:
    check(means("elements", taps=5), [{B: 2, H: 8, W: 40}, {B: 1, H: 5, W: 5}])


def test_what_is_kept() -> None:
    """Values along a row that take some cycles and vary with rows in steps; none that differs in every row, or is read."""
    dag = Dag()
    i, j, plane = (dag.variable(n) for n in (H, W, B))

    def limited(v: Any) -> DagNode:
        return dag.op("min", I64, dag.op("max", I64, dag.var(v, I64), dag.const(0, I64)), dag.const(3, I64))

    def kept(n: DagNode) -> list[DagNode]:
        return [*values_of_rows(n, frozenset((i,)), j)]

    def heavy(n: DagNode) -> DagNode:
        return dag.op("mod", I64, n, dag.const(5, I64))

    both = heavy(dag.op("mul", I64, limited(i), limited(j)))
    assert kept(both) == [both]
    assert kept(dag.op("add", I64, both, dag.var(plane, I64))) == [both]
    assert kept(heavy(limited(j))) == [heavy(limited(j))]
    assert kept(heavy(limited(i))) == []  # one number for a row
    assert kept(dag.op("neg", I64, dag.var(j, I64))) == []  # cheap
    assert kept(heavy(dag.op("add", I64, dag.var(i, I64), dag.var(j, I64)))) == []  # another one in every row
    assert kept(heavy(dag.op("mul", I64, dag.var(plane, I64), limited(j)))) == []


def test_a_row_is_kept_in_scratch_once() -> None:
    """The count of a window takes a row of floats in scratch, however many planes and rows there are; one number for a row takes none."""
    at = {B: 4, H: 64, W: 1024}
    kept, plain = (int(dims.evaluate(lower_group(means(c), host_target()).scratch, at)) for c in ("elements", "rows"))
    assert 4 * 1024 <= kept - plain < 8 * 1024
