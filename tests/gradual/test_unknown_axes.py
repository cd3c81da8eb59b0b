"""Axes that only the run tells: what is the same wherever they are is known before, ranks above all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ShapeError, UnsupportedError
from anyshape.graph import relating
from anyshape.rules import Choices
from anyshape.rules.choices import LIMIT

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LOOPS: tuple[dict[str, Any], ...] = ({}, {"loop": "python"})
CASES: dict[str, tuple[Callable[..., Any], str, list[int], Callable[[], Any]]] = {
    "all that is kept": (ops.dyn.flip, "n, m, 4", [0, -1], lambda: np.flip(X, (0, 2))),
    "a number beside the axes": (lambda x, a: ops.dyn.roll(x, [1, 2], a), "n, m, 4", [0, 2], lambda: np.roll(X, (1, 2), (0, 2))),
    "axes that stay as 1": (lambda x, a: ops.dyn.sum(x, a, keepdims=True), "?, ?, ?", [0, -1], lambda: X.sum((0, 2), keepdims=True)),
    "axes that go": (ops.dyn.sum, "?", [0, -1], lambda: X.sum((0, 2))),
    "axes that come": (ops.dyn.expand_dims, "?, ?, ?, ?, ?", [0, -1], lambda: X[None, ..., None]),
    "a dim behind them all": (
        lambda x, a: ops.dyn.squeeze(ops.expand_dims(x, axes=(0, 1)), a), "?, ?, 4", [1, 0], lambda: X
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_known_before_the_run(name: str) -> None:
    make, dims, axes, expected = CASES[name]
    x, a = anyshape.input("x", "f32[n, m, 4]"), anyshape.input("a", f"i64[{len(axes)}]")
    f = anyshape.function([x, a], make(x, a))
    (result,) = f.results
    assert ["?" if str(n).startswith("?") else str(n) for n in result.type.shape or ()] == dims.split(", ")
    for options in LOOPS:
        np.testing.assert_array_equal(anyshape.compile(f, **options)(X, np.array(axes)), expected())


def test_every_order_of_a_transpose() -> None:
    x, p = anyshape.input("x", "f32[5, m, 2]"), anyshape.input("p", "i64[3]")
    f = anyshape.function([x, p], ops.dyn.transpose(x, p))
    exe = anyshape.compile(f)
    assert f.results[0].type.rank == 3
    v = np.ones((5, 3, 2), np.float32)
    for order in ((0, 1, 2), (2, 0, 1), (1, 0, 2)):
        assert exe(v, np.array(order)).shape == v.transpose(order).shape
    with pytest.raises(ShapeError, match=r"repeated axis in axes = \[1, 0, 1\]"):
        exe(v, np.array([1, 0, 1]))


def test_what_follows_is_typed() -> None:
    x, a = anyshape.input("x", "f32[n, m]"), anyshape.input("a", "i64[1]")
    mean = ops.dyn.mean(x, a, keepdims=True)
    f = anyshape.function([x, a], ops.exp(ops.sub(ops.dyn.flip(x, a), mean)))
    assert f.results[0].type.rank == 2
    v = X[0]
    expected = np.exp(np.flip(v, 1) - v.mean(1, keepdims=True))
    np.testing.assert_allclose(anyshape.compile(f)(v, np.array([1])), expected, rtol=1e-6)


def test_in_a_loop_the_carried_shape_stays() -> None:
    x, a, k = anyshape.input("x", "f32[n, m]"), anyshape.input("a", "i64[]"), anyshape.input("k", "i64[]")
    (y,) = control.loop(k, lambda i, v: [ops.dyn.cumsum(v, a)], [x])
    assert str(y.type) == "f32[n, m]"
    exe = anyshape.compile(anyshape.function([x, a, k], y))
    np.testing.assert_array_equal(exe(X[0], np.array(1), np.array(2)), X[0].cumsum(1).cumsum(1))


def _axes(*axes: Any) -> Any:
    return ops.concat([np.array([a]) if isinstance(a, int) else ops.reshape(a, (1,)) for a in axes], axis=0)


def _iterations(body: Callable[[Any, Any], Any], dims: str = "n, m, 4", collects: int = 0) -> anyshape.Function:
    x, k = anyshape.input("x", f"f32[{dims}]"), anyshape.input("k", "i64[]")
    results = control.loop(k, lambda i, v: [body(i, v)] if not collects else [v, body(i, v)], [x], collects=collects)
    return anyshape.function([x, k], results[-1])


ITERATIONS: dict[str, tuple[Callable[[Any, Any], Any], int, Callable[[], Any]]] = {
    "one axis": (lambda i, v: ops.dyn.cumsum(v, ops.mod(i, 3)), 3, lambda: X.cumsum(0).cumsum(1).cumsum(2)),
    "from the end": (lambda i, v: ops.dyn.cumsum(v, ops.sub(i, 3)), 2, lambda: X.cumsum(0).cumsum(1)),
    "beside a number": (lambda i, v: ops.dyn.flip(v, _axes(i, -1)), 2, lambda: np.flip(np.flip(X, (0, 2)), (1, 2))),
    "two that differ": (
        lambda i, v: ops.dyn.flip(v, _axes(i, ops.add(i, 1))), 2, lambda: np.flip(np.flip(X, (0, 1)), (1, 2)),
    ),
    "dims that change": (
        lambda i, v: ops.dyn.sum(v, _axes(ops.mod(i, 3)), keepdims=True), 2, lambda: X.sum((0, 1), keepdims=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ITERATIONS)
def test_axes_that_each_iteration_decides(name: str) -> None:
    body, iterations, expected = ITERATIONS[name]
    for options in (*LOOPS, {"kernels": "interpret"}):
        exe = anyshape.compile(_iterations(body), **options)
        np.testing.assert_allclose(exe(X, np.array(iterations)), expected(), rtol=1e-6)
        np.testing.assert_array_equal(exe(X, np.array(0)), X)


def test_each_iteration_transposes_in_its_own_order() -> None:
    exe = anyshape.compile(
        _iterations(
            lambda i, v: ops.dyn.transpose(v, _axes(*(ops.mod(ops.add(i, j), 3) for j in range(3)))), "3, 3, 3", 1
        )
    )
    cube = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    expected = [cube.transpose([(iteration + j) % 3 for j in range(3)]) for iteration in range(4)]
    np.testing.assert_array_equal(exe(cube, np.array(4)), expected)


def test_an_axis_that_a_iteration_cannot_have_is_refused() -> None:
    past = anyshape.compile(_iterations(lambda i, v: ops.dyn.cumsum(v, i)))
    with pytest.raises(ShapeError, match=r"dyn.cumsum.*axes \[3\] are out of range for rank 3"):
        past(X, np.array(4))
    twice = anyshape.compile(_iterations(lambda i, v: ops.dyn.flip(v, _axes(i, ops.sub(2, i)))))
    with pytest.raises(ShapeError, match=r"dyn.flip.*axes \[1, 1\] of rank 3 are not distinct"):
        twice(X, np.array(2))


def test_more_ways_than_are_worth_kernels_are_refused() -> None:
    f = _iterations(
        lambda i, v: ops.dyn.transpose(v, _axes(*(ops.mod(ops.add(i, j), 5) for j in range(5)))), "2, 2, 2, 2, 2"
    )
    with pytest.raises(
        UnsupportedError, match=r"loop: dyn.transpose depends on values that may differ between iterations"
    ):
        anyshape.compile(f)(np.ones((2,) * 5, np.float32), np.array(2))


def test_axes_that_each_call_decides() -> None:
    transposed = control.function("turned", {"x": "f32[n, m]", "a": "i64[1]"}, ["f32[n, m]"])
    transposed = control.define(transposed, lambda x, a: ops.dyn.flip(x, a))
    x, a = anyshape.input("x", "f32[p, q]"), anyshape.input("a", "i64[1]")
    exe = anyshape.compile(anyshape.function([x, a], control.call(transposed, [x, a])))
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(exe(X[0], np.array([axis])), np.flip(X[0], axis))
    with pytest.raises(ShapeError, match=r"dyn.flip.*axes \[2\] are out of range for rank 2"):
        exe(X[0], np.array([2]))


def test_the_report_says_what_decides() -> None:
    x, a = anyshape.input("x", "f32[n, m]"), anyshape.input("a", "i64[1]")
    report = anyshape.compile(anyshape.function([x, a], ops.dyn.sum(x, a))).report
    assert "dyn.sum stays dyn: axes comes from the input a" in str(report)
    assert "a size of dyn.sum, which the input a decides" in str(report)


def test_choices_are_all_ways_to_choose() -> None:
    choices, seen = Choices(), []
    while choices.again():
        first = choices.of("a", 3, range(3))
        rest = [k for k in range(3) if k != first]
        seen.append((first, choices.of("b", 3, rest), choices.of("a", 3, range(3))))
    assert choices.exhausted
    assert seen == [(a, b, a) for a in range(3) for b in range(3) if a != b]


@pytest.mark.parametrize(("names", "tried"), [(3, LIMIT), (4, 1)])
def test_too_many_ways_are_not_tried(names: int, tried: int) -> None:
    """The first one tells how many there are."""
    choices, runs = Choices(), 0
    while choices.again():
        runs += 1
        for name in range(names):
            choices.of(name, 10, range(10))
    assert (runs, choices.exhausted) == (tried, tried > 1)


def test_ways_of_which_the_first_tells_nothing_are_not_all_tried() -> None:
    choices, runs = Choices(), 0
    while choices.again():
        runs += 1
        if choices.of("first", 2, range(2)):
            for name in range(4):
                choices.of(name, 10, range(10))
    assert not choices.exhausted and runs == LIMIT


def test_a_rule_is_not_run_for_more_orders_than_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven dims have 5,040 orders: the rank stays open, after one way."""
    runs = []
    monkeypatch.setattr(
        relating,
        "_alternative",
        lambda *arguments, _run=relating._alternative: runs.append(arguments) or _run(*arguments),
    )
    x, p = anyshape.input("x", "f32[a, b, c, d, e, f, g]"), anyshape.input("p", "i64[7]")
    assert ops.dyn.transpose(x, p).type.shape is None
    assert len(runs) == 1
