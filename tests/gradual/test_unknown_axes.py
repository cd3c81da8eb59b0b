"""Axes that only the run tells: what is the same wherever they are is known before, ranks above all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ShapeError, UnsupportedError
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
    make, dims, given, wanted = CASES[name]
    x, a = anyshape.input("x", "f32[n, m, 4]"), anyshape.input("a", f"i64[{len(given)}]")
    f = anyshape.function([x, a], make(x, a))
    (result,) = f.results
    assert ["?" if str(n).startswith("?") else str(n) for n in result.type.shape or ()] == dims.split(", ")
    for options in LOOPS:
        np.testing.assert_array_equal(anyshape.compile(f, **options)(X, np.array(given)), wanted())


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
    wanted = np.exp(np.flip(v, 1) - v.mean(1, keepdims=True))
    np.testing.assert_allclose(anyshape.compile(f)(v, np.array([1])), wanted, rtol=1e-6)


def test_in_a_loop_the_carried_shape_stays() -> None:
    x, a, k = anyshape.input("x", "f32[n, m]"), anyshape.input("a", "i64[]"), anyshape.input("k", "i64[]")
    (y,) = control.loop(k, lambda i, v: [ops.dyn.cumsum(v, a)], [x])
    assert str(y.type) == "f32[n, m]"
    exe = anyshape.compile(anyshape.function([x, a, k], y))
    np.testing.assert_array_equal(exe(X[0], np.array(1), np.array(2)), X[0].cumsum(1).cumsum(1))


def test_an_axis_that_each_turn_decides_is_named() -> None:
    x, k = anyshape.input("x", "f32[n, m]"), anyshape.input("k", "i64[]")
    (y,) = control.loop(k, lambda i, v: [ops.dyn.cumsum(v, ops.mod(i, 2), source="along")], [x])
    with pytest.raises(UnsupportedError, match=r"loop: what dyn.cumsum \(along\) does is decided anew by each turn"):
        anyshape.compile(anyshape.function([x, k], y))(X[0], np.array(2))


def test_the_report_says_what_decides() -> None:
    x, a = anyshape.input("x", "f32[n, m]"), anyshape.input("a", "i64[1]")
    report = anyshape.compile(anyshape.function([x, a], ops.dyn.sum(x, a))).report
    assert "dyn.sum stays dyn: axes comes from the input a" in str(report)
    assert "a size of dyn.sum, which the input a decides" in str(report)


def test_choices_are_all_ways_to_choose() -> None:
    choices, seen = Choices(), []
    while choices.again():
        first = choices.of("a", range(3))
        rest = [k for k in range(3) if k != first]
        seen.append((first, choices.of("b", rest), choices.of("a", range(3))))
    assert choices.exhausted
    assert seen == [(a, b, a) for a in range(3) for b in range(3) if a != b]


def test_too_many_ways_are_not_all_tried() -> None:
    choices, runs = Choices(), 0
    while choices.again():
        runs += 1
        for name in range(4):
            choices.of(name, range(10))
    assert not choices.exhausted and runs == LIMIT
