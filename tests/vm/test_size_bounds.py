"""Memory of data-dependent sizes with upper bounds: laid out at the entry where that saves a region and wastes little."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.dims import Size, ceil_div, floordiv, ge, le, maximum, minimum, mod, select, symbol
from anyshape.errors import ShapeError
from anyshape.vm.compiling import lifetimes
from anyshape.vm.compiling.size_bounds import at_most

RNG = np.random.default_rng(3)
EXECUTORS: list[dict[str, Any]] = [{}, {"loop": "python"}, {"kernels": "interpret"}, {"fuse": False}]


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


@pytest.fixture(params=EXECUTORS, ids=["default", "walk", "interpret", "unfused"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


def compiled(params: list[Any], results: Any, **options: Any) -> anyshape.Executable:
    return anyshape.compile(anyshape.function(params, results), **options)


def regions(f: anyshape.Executable) -> int:
    """How many regions the program has, bodies of loops included."""
    return len(set(re.findall(r"= (?:region|extend) (\d+)", f.disassemble())))


def without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "upper_bounds", lambda *_: {})


def selections(kind: str = "f32[n]") -> tuple[list[Any], Any]:
    x, y, m = anyshape.input("x", kind), anyshape.input("y", kind), anyshape.input("m", "bool[n]")
    return [x, y, m], x[m] + y[m]


def test_what_a_mask_selects_lies_with_what_the_arguments_size(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """A selection is no larger than what it is taken of."""
    f = compiled(*selections(), **options)
    assert regions(f) == 1
    for n, density in ((0, 0.5), (1, 1.0), (9, 0.4), (70, 1.0), (70, 0.0), (30000, 0.7), (5, 1.0)):
        x, y = RNG.normal(size=(2, n)).astype(np.float32)
        m = RNG.random(n) < density
        np.testing.assert_array_equal(f(x, y, m), x[m] + y[m])
    without_bounds(monkeypatch)
    assert regions(compiled(*selections(), **options)) == 2


def test_a_bound_that_is_wasteful_is_not_used() -> None:
    """Positions take eight bytes for each byte of the mask; pairs of a selection take the square of the input."""
    m, x = anyshape.input("m", "bool[n]"), anyshape.input("x", "f32[n]")
    assert regions(compiled([m], ops.sum(ops.nonzero(m) * 2, axes=[0, 1]), fuse=False)) == 2
    selected = x[x > 0.0]
    pairs = ops.exp(selected[:, None] - selected[None, :])
    assert regions(compiled([x], ops.sum(pairs @ pairs), fuse=False)) == 2


@pytest.mark.parametrize(("most", "count"), [(512, 1), (1 << 13, 1), (1 << 20, 2)])
def test_a_bound_that_is_required_is_used_where_it_is_small(most: int, count: int) -> None:
    """A bound of as many bytes as a region of a varying size has anyway is no waste; more of them are, for a mask of bytes."""
    m = anyshape.input("m", "bool[n]")
    at = ops.nonzero(m)
    ops.require(at.shape[1] <= most, "few")
    f = compiled([m], ops.sum(ops.exp(ops.cast(at, to="f64")), axes=[0, 1]), fuse=False)
    assert regions(f) == count
    for n in (0, 3, 500):
        held = RNG.random(n) < 0.5
        np.testing.assert_allclose(f(held), np.exp(np.flatnonzero(held).astype(np.float64)).sum())
    if most == 512:
        with pytest.raises(ShapeError, match="few"):
            f(np.ones(513, bool))


def test_one_size_is_bounded_by_another_that_is_bounded() -> None:
    x, y, m = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n, 4]"), anyshape.input("m", "bool[n]")
    once = x[m]
    twice = once[once > 0.0]
    f = compiled([x, y, m], [ops.exp(twice) @ twice, ops.sum(y, axes=[0, 1])], fuse=False)
    a, b = RNG.normal(size=100).astype(np.float32), np.ones((100, 4), np.float32)
    held = RNG.random(100) < 0.5
    chosen = a[held & (a > 0)]
    product, total = f(a, b, held)
    np.testing.assert_allclose(product, np.exp(chosen) @ chosen, rtol=1e-5)
    assert total == 400 and regions(f) == 1


def test_a_body_lays_out_by_bounds_too(options: dict[str, Any]) -> None:
    (x, y, m), trip = selections()[0], anyshape.input("trip", "i64[]")

    def body(i: Any, total: Any) -> list[Any]:
        held = m & (x > ops.cast(i, to="f32"))
        return [total + ops.sum(ops.cumsum(x[held] * y[held], axis=0))]

    (total,) = control.loop(trip, body, [anyshape.constant(np.float32(0))])
    f = compiled([x, y, m, trip], total, **options)
    a, b = RNG.normal(size=(2, 50)).astype(np.float32) * 2
    held = RNG.random(50) < 0.7
    expected = sum(np.cumsum((a * b)[held & (a > i)]).sum() for i in range(3))
    np.testing.assert_allclose(f(a, b, held, np.array(3)), expected, rtol=1e-4)


def test_an_upper_bound_stands_for_a_symbol_where_the_expression_rises_with_it() -> None:
    k, n, j = symbol("k"), symbol("n"), symbol("j", None)
    most: dict[Any, Size] = {k: n}
    for e, bounded in (
        (4 * k, 4 * n),
        ((4 * k + 63) // 64 * 64, (4 * n + 63) // 64 * 64),
        (k * n + 3, n * n + 3),
        (k * k, n * n),
        (minimum(k, 7), minimum(n, 7)),
        (maximum(k + 1, n), n + 1),
        (ceil_div(k, 8), ceil_div(n, 8)),
        (n - 1, n - 1),
    ):
        assert at_most(e, most) is bounded
    for e in (
        n - k,
        4 * n - 4 * k + 64,
        k * j,
        mod(k, 8),
        n // k,
        select(ge(k, 3), 0, n),
        floordiv(64 - k, 8),
        maximum(n - k, 0),
    ):
        assert at_most(e, most) is None
    assert at_most(k, {}) is k and le(k, n) is not True
