"""Reductions over long windows make the turns that add something: the same results, in a time that does not grow with the window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyshape import dims
from anyshape.dtypes import F64
from anyshape.equations import Tensor
from anyshape.equations.functions import abs_, and_, cast, ge, gt, le, lt, pad, pow_, reduce_, where
from anyshape.lower import Group
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
    outside, made = KINDS[kind]
    b = Builder("window")
    x = b.input([B, W])
    y = b.tensor([B, W], "f64" if kind == "prod" else "f32")
    n, i = b.eqs.indices("i", y.shape)

    def seen(q: Any) -> Any:
        return made(pad(x, outside)[n, i * step + q * spread - begin])

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


@pytest.mark.parametrize(("made", "taps"), [(across, 300), (both, 40), (triangle, 5)])
def test_windows_of_other_forms(made: Any, taps: int) -> None:
    check(made(taps), SIZES[:1] + SIZES[2:] if made is both else SIZES)


def ran(group: Group, given: dict[Any, int]) -> list[Any]:
    native = Native(group)
    (x,) = (t for t in native.kernel.inputs if isinstance(t, Tensor))
    shape = [int(dims.evaluate(n, given)) for n in x.shape]
    status, found = native.run({x: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1}, given)
    assert status == 0
    return found


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
    """Over the first and the last dim, which are not side by side."""
    b = Builder("summed")
    b.output(b.reduce("sum", b.input([N, M, K]), [0, 2]))
    return b.group()


@pytest.mark.parametrize(
    ("group", "shape"), [(added(2), [1 << 40, 0]), (added(3), [1, 1 << 40, 0]), (normed(), [1 << 40, 0]), (summed(), [1 << 40, 3, 0])]
)  # fmt: skip
def test_rows_of_nothing_take_no_time(group: Group, shape: list[int]) -> None:
    native = Native(group)
    given = dict(zip([N, M, K] if len(shape) == 3 else [N, K], shape, strict=True))
    arrays = {t: np.zeros([int(dims.evaluate(n, given)) for n in t.shape], np.float32) for t in group.inputs}
    status, (found,) = native.run(arrays, given)
    assert status == 0 and (found == 0).all()
    check(group, [{N: 2, M: 3, K: 5}, {N: 0, M: 3, K: 5}, {N: 2, M: 3, K: 0}, {N: 3, M: 0, K: 5}, {N: 2, M: 1, K: 40}])
