"""`match_shape` within branches, turns and functions: a name is the size outside that has it, or a size of the region that writes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ShapeError

P = np.array([1.0, 2.0, 3.0], np.float32)
X, K, C = anyshape.input("x", "f32[?]"), anyshape.input("k", "i64[]"), anyshape.input("c", "bool[]")


def test_a_name_of_a_iteration_is_another_size_in_each() -> None:
    (y,) = control.loop(K, lambda i, s: [ops.concat([ops.match_shape(s, "f32[q]"), X], axis=0)], [X])
    np.testing.assert_array_equal(anyshape.compile(anyshape.function([X, K], y))(P, np.array(4)), np.tile(P, 5))


def test_it_is_one_size_within_the_iteration() -> None:
    def iteration(i: Any, s: Any) -> Any:
        longer = ops.concat([s, X], axis=0)
        return [ops.add(ops.match_shape(s, "f32[q]"), ops.match_shape(longer, "f32[q]"))]

    (y,) = control.loop(K, iteration, [X])
    run = anyshape.compile(anyshape.function([X, K], y))
    assert run(P[:0], np.array(3)).shape == (0,)
    np.testing.assert_array_equal(run(P, np.array(0)), P)
    with pytest.raises(ShapeError, match=r"expected \[3\], got \[6\]"):
        run(P, np.array(1))


def test_a_name_outside_is_meant_inside() -> None:
    z = ops.match_shape(X, "f32[w]")
    (y,) = control.loop(K, lambda i, s: [ops.concat([ops.match_shape(s, "f32[w]"), z], axis=0)], [z])
    run = anyshape.compile(anyshape.function([X, K], y))
    assert run(P, np.array(1)).shape == (6,)
    with pytest.raises(ShapeError, match=r"expected \[3\], got \[6\]"):
        run(P, np.array(2))


def test_regions_in_regions() -> None:
    def iteration(i: Any, s: Any) -> Any:
        a = ops.match_shape(s, "f32[q]")
        return control.if_(
            C,
            lambda: control.loop(2, lambda j, v: [ops.add(ops.match_shape(v, "f32[q]"), ops.match_shape(v, "f32[u]"))], [a]),
            lambda: ops.match_shape(ops.concat([a, X], axis=0), "f32[u]"),
        )  # fmt: skip

    (y,) = control.loop(K, iteration, [X])
    run = anyshape.compile(anyshape.function([X, K, C], y))
    np.testing.assert_array_equal(run(P, np.array(2), np.array(True)), 16 * P)
    np.testing.assert_array_equal(run(P, np.array(2), np.array(False)), np.tile(P, 3))


def test_in_a_branch_of_a_function_that_calls_itself() -> None:
    twice = control.function("twice", {"x": "f32[n]", "k": "i64[]"}, ["f32[m]"])

    def body(x: Any, k: Any) -> Any:
        def again() -> Any:
            both = ops.concat([x, x], axis=0)
            same = ops.add(ops.match_shape(both, "f32[v]"), ops.match_shape(ops.neg(both), "f32[v]"))
            return control.call(twice, [same, ops.sub(k, 1)])

        return control.if_(ops.greater(k, 0), again, lambda: x)

    twice = control.define(twice, body)
    run = anyshape.compile(anyshape.function([X, K], control.call(twice, [X, K])))
    np.testing.assert_array_equal(run(P, np.array(2)), np.zeros(12))
