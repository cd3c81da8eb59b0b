"""Reductions over long windows make the turns that add something: the same results, in a time that does not grow with the window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import F64
from anyshape.equations import Apply, Reduce, Tensor
from anyshape.equations.expr import reduce_node
from anyshape.equations.functions import abs_, and_, cast, ge, gt, le, lt, pad, pow_, reduce_, where
from anyshape.lower import Group, describe, host_target, lower_group
from tests.lower.groups import B, Builder, K, M, N
from tests.lower.native import Native, check

H, W = dims.symbol("h"), dims.symbol("w")
SIZES = [{B: 2, H: 5, W: 7}, {B: 1, H: 3, W: 300}, {B: 1, H: 1, W: 1}, {B: 0, H: 5, W: 5}]
KINDS: dict[str, tuple[Any, Any]] = {
    "max": (-np.inf, lambda v: v),
    "min": (np.inf, lambda v: v),
    "sum": (0.0, lambda v: pow_(abs_(v), 3.0)),
    "prod": (0.0, lambda v: cast(v * 1.25, F64) + 1.0),
}


def window(kind: str, taps: int, step: int, spread: int, begin: int) -> Group:
    """One place of the result sees `taps` places of a row of x, the first of them `begin` before its start."""
    outside, term = KINDS[kind]
    b = Builder("window")
    x = b.input([B, W])
    y = b.tensor([B, W], "f64" if kind == "prod" else "f32")
    n, i = b.eqs.indices("i", y.shape)

    def seen(q: Any) -> Any:
        return term(pad(x, outside)[n, i * step + q * spread - begin])

    b.eqs.define(y[n, i], reduce_(kind, [taps], seen))
    b.output(y)
    return b.group()


@pytest.mark.parametrize(
    ("step", "spread", "begin"), [(1, 1, 150), (3, 1, 0), (1, 2, 299), (2, 3, 600), (-1, 1, -4), (1, -3, -500)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_three_hundred(kind: str, step: int, spread: int, begin: int) -> None:
    check(window(kind, 300, step, spread, begin), SIZES)


def across(taps: int) -> Group:
    """The window moves along a dim that the vectors do not run along; two windows at once, of which one sees less."""
    b = Builder("across")
    x = b.input([B, H, W])
    y = b.tensor([B, H, W])
    n, i, j = b.eqs.indices("i", y.shape)
    wide = reduce_("sum", [taps], lambda q: pad(x, 0.0)[n, i + q - 150, j] * 2.0)
    low = reduce_("max", [taps], lambda q: pad(x, -np.inf)[n, i - q + 3, j])
    b.eqs.define(y[n, i, j], wide + where(gt(low, 0.0), low, 0.0))
    b.output(y)
    return b.group()


def both(taps: int) -> Group:
    """A window in two dims, of what a condition on its places lets through."""
    b = Builder("both")
    x = b.input([B, H, W])
    y = b.tensor([B, H, W], "i64")
    n, i, j = b.eqs.indices("i", y.shape)

    def inside(p: Any, q: Any) -> Any:
        down, right = i + p * 2 - 9, j + q - 20
        return and_(and_(ge(down, 0), lt(down, H)), and_(ge(right, 0), lt(right, W)))

    value = reduce_("argmax", [taps, taps], lambda p, q: pad(x, -1.0)[n, i + p * 2 - 9, j + q - 20], where=inside)
    b.eqs.define(y[n, i, j], value)
    b.output(y)
    return b.group()


def triangle(taps: int) -> Group:
    """What a position takes in ends with the position."""
    b = Builder("triangle")
    x = b.input([B, W])
    y = b.tensor([B, W])
    n, i = b.eqs.indices("i", y.shape)
    b.eqs.define(y[n, i], reduce_("sum", [W], lambda j: x[n, j], where=lambda j: and_(le(j, i), gt(j + taps, i))))
    b.output(y)
    return b.group()


@pytest.mark.parametrize(("form", "taps"), [(across, 300), (both, 40), (triangle, 5)])
def test_windows_of_other_forms(form: Any, taps: int) -> None:
    check(form(taps), SIZES[:1] + SIZES[2:] if form is both else SIZES)


def ran(group: Group, sizes: dict[Any, int]) -> list[Any]:
    native = Native(group)
    (x,) = (t for t in native.kernel.inputs if isinstance(t, Tensor))
    shape = [int(dims.evaluate(n, sizes)) for n in x.shape]
    status, got = native.run({x: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1}, sizes)
    assert status == 0
    return got


@pytest.mark.parametrize("taps", [1 << 31, 1 << 40, 1 << 60])
def test_the_time_does_not_grow_with_the_window(taps: int) -> None:
    """A turn for each place would take a minute to thousands of years."""
    half = taps // 2
    (most,) = ran(window("max", taps, 1, 1, half), {B: 1, W: 3})
    assert most.tolist() == [[3, 3, 3]]
    (total,) = ran(window("sum", taps, 1, 2, half), {B: 1, W: 3})
    assert total.tolist() == [[1 + 27, 8, 1 + 27]]
    (wide,) = ran(across(taps), {B: 1, H: 2, W: 1})
    assert wide.tolist() == [[[8], [8]]]
    (places,) = ran(both(taps), {B: 1, H: 2, W: 1})
    assert places.tolist() == [[[5 * taps + 20], [4 * taps + 20]]]


def added(rank: int) -> Group:
    """Rows that cannot be one loop, since the second operand has one for all."""
    b = Builder("added")
    x, z = b.input([N, *[M] * (rank - 2), K]), b.input([K])
    b.output(b.map(lambda u, v: u + v, x, z))
    return b.group()


def normed() -> Group:
    """Rows of several loops."""
    b = Builder("normed")
    x = b.input([N, K])
    b.output(b.softmax(x, 1))
    return b.group()


def summed() -> Group:
    """Makes a sum over the first and the last dim, which are not side by side."""
    b = Builder("summed")
    b.output(b.reduce("sum", b.input([N, M, K]), [0, 2]))
    return b.group()


@pytest.mark.parametrize(
    ("group", "shape"), [(added(2), [1 << 40, 0]), (added(3), [1, 1 << 40, 0]), (normed(), [1 << 40, 0]), (summed(), [1 << 40, 3, 0])]
)  # fmt: skip
def test_rows_of_nothing_take_no_time(group: Group, shape: list[int]) -> None:
    native = Native(group)
    sizes = dict(zip([N, M, K] if len(shape) == 3 else [N, K], shape, strict=True))
    arrays = {t: np.zeros([int(dims.evaluate(n, sizes)) for n in t.shape], np.float32) for t in group.inputs}
    status, (got,) = native.run(arrays, sizes)
    assert status == 0 and (got == 0).all()
    check(group, [{N: 2, M: 3, K: 5}, {N: 0, M: 3, K: 5}, {N: 2, M: 3, K: 0}, {N: 3, M: 0, K: 5}, {N: 2, M: 1, K: 40}])


def part(form: str, dtype: str, kind: str) -> Group:
    """Reductions over parts of a dim whose ends are read: of a vector, of rows (the lanes run along the rows, which have one part), of
    columns (each lane has a part of its own)."""
    b = Builder("part")
    low, high = b.input([B], dtype), b.input([B], dtype)
    x = b.input({"vector": [W], "rows": [W, H], "columns": [W, B]}[form])
    y = b.tensor([B, H] if form == "rows" else [B])
    index = b.eqs.indices("i", y.shape)
    at = {"vector": lambda q: x[q], "rows": lambda q: x[q, index[1]], "columns": lambda q: x[q, index[0]]}[form]
    i = index[0]
    b.eqs.define(y[index], reduce_(kind, [W], at, where=lambda q: and_(le(low[i], q), lt(q, high[i]))))
    b.output(y)
    return b.group()


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("form", ["vector", "rows", "columns"])
def test_parts_whose_ends_are_read(form: str, dtype: str, kind: str) -> None:
    check(part(form, dtype, kind), [*SIZES, {B: 40, H: 9, W: 300}])


@pytest.mark.parametrize("form", ["vector", "rows", "columns"])
@pytest.mark.parametrize("wide", [False, True])
def test_ends_of_parts_may_be_any_integers(form: str, wide: bool) -> None:
    """An end may itself be a place of the part, so that one more than the greatest integer would be asked for."""
    limits = np.iinfo(np.int64)
    ends = np.array([limits.min, limits.min + 1, -1, 0, 3, 300, 301, limits.max - 1, limits.max], np.int64)
    low, high = (a.ravel() for a in np.meshgrid(ends, ends))
    group = part(form, "i64", "sum")
    if wide:
        group = replace(group, equations=tuple(replace(q, value=_including(q.value)) for q in group.equations))
    sizes = {B: len(low), H: 3, W: 300}
    shape = {"vector": (300,), "rows": (300, 3), "columns": (300, len(low))}[form]
    x = np.ones(shape, np.float32)
    status, (got,) = Native(group).run(dict(zip(group.inputs, (low, high, x))), sizes)
    assert status == 0
    last = [min(max(int(b) + wide, 0), 300) for b in high]
    expected = [max(b - min(max(int(a), 0), 300), 0) for a, b in zip(low, last)]
    assert (got.reshape(len(low), -1) == np.array(expected)[:, None]).all()


def _including(e: Any) -> Any:
    """The reduction with its upper end included."""
    assert isinstance(e, Reduce) and isinstance(e.where, Apply)
    lower, upper = e.where.args
    assert isinstance(upper, Apply)
    return reduce_node(e.kind, e.vars, e.body, and_(lower, le(*upper.args)), e.dtype)


@pytest.mark.parametrize("lanes", [False, True])
def test_the_time_does_not_grow_with_what_parts_are_of(lanes: bool) -> None:
    """Three places of 2^60, of which a turn each would take a thousand years; all lanes take the turns of one."""
    b = Builder("places")
    low = b.input([B, H], "i64")
    y = b.tensor([B, H] if lanes else [B], "f64")
    index = b.eqs.indices("i", y.shape)
    first = low[index] if lanes else low[index[0], 0]
    value = reduce_("sum", [1 << 60], lambda q: cast(q, F64), where=lambda q: and_(le(first, q), lt(q, first + 3)))
    b.eqs.define(y[index], value)
    b.output(y)
    group = b.group()
    begins = np.array([[5], [0], [9], [1]], np.int64) + (1 << 40)
    status, (got,) = Native(group).run({group.inputs[0]: begins}, {B: 4, H: 1})
    assert status == 0 and (got.ravel() == 3 * begins.ravel() + 3).all()


@pytest.mark.parametrize(
    ("form", "along"), [("vector", "loop i1 in w along"), ("rows", "i1 in h along"), ("columns", "i0 in b along")]
)
def test_lanes_share_a_part_or_run_along_it(form: str, along: str) -> None:
    """Lanes of which each has a part of its own walk over all that is between the parts: they are taken only where what a part reads is not
    contiguous, and then one vector of them at a time."""
    group = part(form, "i64", "sum")
    assert along in describe(group)
    text = lower_group(group, replace(host_target(), vector_bytes=32)).text
    calls = [line for line in text.splitlines() if "call" in line and "reduce.smin" in line]
    assert "x float>" in text and len(calls) == (
        2 if form == "columns" else 0
    )  # for whole vectors, and for what is left
