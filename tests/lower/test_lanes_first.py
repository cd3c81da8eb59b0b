"""Places of lanes that loops do not change: they are computed before these, sums of lookups are written out, neighbours are permuted."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from anyshape import dims
from anyshape.dims import Size
from anyshape.equations.expr import ExprLike
from anyshape.equations.functions import clamp, eq, exp, quotient, reduce_, remainder, tanh, where, wrap
from anyshape.lower import describe, host_target, lower_group
from anyshape.lower.target import Target
from tests.lower.forbidden import before_forbidden_memory
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import Native, check

SIZES = [
    {B: b, N: n, M: m, K: k}
    for b, n, m, k in (
        (3, 40, 20, 70), (2, 33, 300, 17), (1, 5, 1, 40), (70, 2, 64, 64), (2, 0, 9, 5), (2, 3, 50, 0), (1, 100, 33, 36),
    )
]  # fmt: skip
"""Rows more and fewer than a block has; lanes that are neighbours, that repeat elements, and that lie too far apart for two vectors."""
T = dims.symbol("t")
TARGETS = [host_target(), host_target().limited("avx2"), host_target().limited("sse")]


def stretched(dtype: str = "f32", taps: Size = 1) -> Builder:
    """Rows of m elements as rows of k, each the sum of so many elements from a place on."""
    b = Builder("stretched")
    x, y = b.input([B, N, M], dtype), b.tensor([B, N, K], dtype)
    p, i, j = b.eqs.indices("i", y.shape)

    def element(q: ExprLike) -> ExprLike:
        return x[p, i, clamp(quotient(j * M, K) + q, 0, M - 1)]

    b.eqs.define(y[p, i, j], element(0) if taps == 1 else reduce_("sum", [taps], element))
    b.output(y)
    return b


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "u8", "i16", "i32", "i64", "bool"])
@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2", "sse"])
def test_rows_are_stretched(dtype: str, target: Target) -> None:
    check(stretched(dtype).group(), SIZES, target=target)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2", "sse"])
def test_neighbours_are_permuted_where_the_target_can(target: Target) -> None:
    text = lower_group(stretched().group(), target).text
    assert bool(re.search(r"llvm\.x86\.avx(512\.vpermi2var|2\.perm)", text)) == target.permutes(4, target.lanes(4))


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("width", [8, 9, 21, 40])
def test_rows_that_are_looked_up_are_read_up_to_their_end(width: int, dtype: str) -> None:
    """Vectors read neighbours without masks, those at the end of a row from further back."""
    b = stretched(dtype)
    target = host_target().limited("avx2")
    native, (x,) = Native(b.group(), target), b.group().inputs
    if target.picks_lanes(x.dtype.itemsize, target.lanes(4)):
        assert ("ssse3.pshuf" if dtype == "f16" else "avx2.permd") in native.kernel.text
    values = {B: 1, N: 3, M: width, K: 2 * width}
    rows = np.arange(3 * width).reshape(1, 3, width).astype(x.dtype.numpy)
    status, (y,) = native.run({x: before_forbidden_memory(rows)}, values)
    assert status == 0
    assert (y == np.repeat(rows, 2, axis=2)).all()


@pytest.mark.parametrize("taps", [2, 4, 17])
def test_taps_are_summed(taps: int) -> None:
    check(stretched(taps=taps).group(), SIZES)


def test_iterations_that_only_the_run_knows() -> None:
    """The iterations are the usual ones in some calls, and not in others."""
    group = stretched(taps=dims.minimum(T, 2)).group()
    assert describe(group).startswith("if min(t, 2) == 2:\n")
    check(group, [{**s, T: t} for s in SIZES for t in (0, 1, 2, 3)])


def test_rows_are_inside_of_the_vector() -> None:
    assert describe(stretched().group()).splitlines()[:2] == ["for i2 in k along:", "  for i3 in b*n:"]


def test_short_sums_are_written_out_and_long_ones_are_not() -> None:
    assert "sum" not in describe(stretched(taps=16).group())
    assert "sum" in describe(stretched(taps=17).group())


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2", "sse"])
def test_elements_that_are_the_same_in_all_rows(target: Target) -> None:
    """Elements of all rows are read before the rows, where nothing is known yet of how far apart the lanes' places are."""
    b = Builder("tiled")
    x, y = b.input([M]), b.tensor([N, K])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[remainder(j, M)])
    b.output(y)
    assert describe(b.group()).splitlines()[:2] == ["for i1 in k along:", "  for i0 in n:"]
    check(b.group(), [{N: n, M: m, K: 2 * m + 3} for n in (1, 40) for m in (5, 9, 17, 33, 65)], target=target)


def picked(by: int) -> Builder:
    """Elements of rows at places that another tensor has, or that are computed of those."""
    b = Builder("picked")
    x, index, y = b.input([N, M]), b.input([K], "i64"), b.tensor([N, K])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[i, wrap(index[j] if by == 1 else quotient(quotient(index[j] * 9, by), by), M)])
    b.output(y)
    return b


def test_places_that_are_read_leave_the_loops_alone() -> None:
    """A changed order of loops would gain nothing, and walk results against the order in which they lie."""
    assert describe(picked(1).group()).splitlines()[0] == "for i0 in n, i1 in k along:"
    assert describe(picked(3).group()).splitlines()[0] == "for i1 in k along:"


@pytest.mark.parametrize("by", [1, 3])
def test_places_out_of_range_are_refused(by: int) -> None:
    group = picked(by).group()
    native = Native(group)
    x, index = group.inputs
    values = {N: 40, M: 50, K: 33}
    places = np.arange(33, dtype=np.int64)
    arrays = {x: np.ones((40, 50), np.float32), index: places}
    assert native.run(arrays, values, 1)[0] == 0
    for wrong in (10**6, -(10**6)):
        assert native.run({**arrays, index: np.where(places == 20, wrong, places)}, values, 1)[0] != 0


def test_a_comparison_of_known_axes_is_decided() -> None:
    """A comparison that is decided lets a place be computed from the variable of its own axis."""
    b = Builder("which")
    x, y = b.input([N, M]), b.tensor([N, M])
    places = b.tensor([N, M, 2], "i64")
    i, j, e = b.eqs.indices("i", places.shape)
    b.eqs.define(places[i, j, e], where(eq(e, 0), quotient(i, 2), quotient(j, 2)))
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[clamp(places[i, j, 0], 0, N - 1), clamp(places[i, j, 1], 0, M - 1)])
    b.output(y)
    assert "if" not in describe(b.group())
    check(b.group(), SIZES)


def test_what_a_sum_compares_with_is_the_same_in_every_iteration() -> None:
    """The largest element is found in a loop over the positions of the sum, none of which is the position of a turn."""
    b = Builder("softmax")
    x, index = b.input([N, M]), b.input([5], "i64")
    picked, y = b.tensor([N, 5]), b.tensor([N, 5])
    i, j = b.eqs.indices("i", picked.shape)
    b.eqs.define(picked[i, j], x[i, clamp(index[j], 0, M - 1)])
    peak = b.reduce("max", picked, [1], keepdims=True)
    total = b.reduce("sum", b.map(lambda a, top: exp(a - top), picked, peak), [1], keepdims=True)
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], exp(picked[i, j] - peak[i, 0]) / total[i, 0])
    b.output(y)
    check(b.group(), [{N: 4, M: 7}, {N: 1, M: 1}])


def sampled(place: Callable[..., ExprLike], taps: int = 1, dtype: str = "f32") -> Builder:
    """Planes of n by m elements as planes of t by k, each the sum of so many elements of a row from a place on."""
    b = Builder("sampled")
    x, y = b.input([B, N, M], dtype), b.tensor([B, T, K], dtype)
    p, i, j = b.eqs.indices("i", y.shape)

    def element(q: ExprLike) -> ExprLike:
        return x[p, clamp(quotient(i * N, T), 0, N - 1), clamp(place(p, j) + q, 0, M - 1)]

    b.eqs.define(y[p, i, j], element(0) if taps == 1 else reduce_("sum", [taps], element))
    b.output(y)
    return b


def of_column(p: ExprLike, j: ExprLike) -> ExprLike:
    return quotient(j * M, K)


PLANES = [{**s, T: t} for s in SIZES if s[N] for t in (1, 35)]


@pytest.mark.parametrize("dtype", ["f32", "f16", "u8", "f64"])
@pytest.mark.parametrize("taps", [1, 3, 5])
@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2", "sse"])
def test_planes_are_sampled_alike(target: Target, taps: int, dtype: str) -> None:
    """Windows of one vector where columns repeat, of two, and none; loads few and more than have loops for windows of one vector."""
    check(sampled(of_column, taps, dtype).group(), PLANES, target=target)


def test_what_columns_and_rows_need_is_kept_for_all_planes() -> None:
    """Tables for columns and rows are kept unless they differ from plane to plane, or there is one plane alone."""
    sizes = {B: 3, N: 5, M: 40, K: 80, T: 10}

    def scratch(b: Builder) -> int:
        return int(dims.evaluate(lower_group(b.group(), host_target()).scratch, sizes))

    shifted = sampled(lambda p, j: quotient(j * M + p, K))
    assert scratch(sampled(of_column)) >= 8 * (sizes[K] + sizes[T])
    assert scratch(sampled(of_column)) > scratch(shifted) >= 8 * sizes[T]
    one_row = stretched()
    assert lower_group(one_row.group(), host_target().limited("sse")).scratch == 0
    check(shifted.group(), PLANES)


def test_places_that_may_be_refused_are_not_read_ahead() -> None:
    """A place is not read ahead, since there may be no plane for which it is needed."""
    b = Builder("picked of planes")
    x, index, y = b.input([B, N, M]), b.input([K], "i64"), b.tensor([B, T, K])
    p, i, j = b.eqs.indices("i", y.shape)
    column = wrap(quotient(quotient(index[j] * 9, 3), 3), M)
    b.eqs.define(y[p, i, j], x[p, clamp(quotient(i * N, T), 0, N - 1), column])
    b.output(y)
    native = Native(b.group())
    for planes in (0, 2):
        values = {B: planes, N: 4, M: 50, K: 33, T: 9}
        arrays = {x: np.ones((planes, 4, 50), np.float32), index: np.full(33, 10**6)}
        assert (native.run(arrays, values, 1)[0] != 0) == (planes > 0)


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("level", ["avx512", "avx2"])
def test_long_expressions_of_the_lanes_alone_are_computed_once(heavy: bool, level: str) -> None:
    b = Builder("columns")
    x, w, y = b.input([N, M]), b.input([M]), b.tensor([N, M])
    i, j = b.eqs.indices("i", y.shape)
    column = tanh(exp(tanh(exp(tanh(w[j]))))) if heavy else tanh(w[j])
    b.eqs.define(y[i, j], x[i, j] * column)
    b.output(y)
    target = host_target().limited(level)
    text = describe(b.group())
    assert ("for i1 in m along:\n  for i0 in n:" in text) == heavy, text
    check(b.group(), [{N: n, M: m} for n, m in ((0, 5), (1, 1), (3, 77), (40, 33), (70, 300))], target=target)
