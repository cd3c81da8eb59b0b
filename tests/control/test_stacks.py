"""What turns collect: the sizes of a stack to which no turn gave any."""

from __future__ import annotations

from typing import Any

import numpy as np

import anyshape
from anyshape import control, ops


def shapes(exe: anyshape.Executable, *arrays: Any) -> list[tuple[int, ...]]:
    return [a.shape for a in exe(*arrays)]


def test_a_stack_of_no_turns_has_the_sizes_of_a_first_turn(options: dict[str, Any]) -> None:
    x, k, at = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]"), anyshape.input("at", "i64[1]")

    def turn(i: Any, kept: Any) -> list[Any]:
        cut = ops.slice(kept, at, [100], [0])
        found = ops.compress(kept, ops.greater(kept, 0.0), axis=0)
        return [cut, cut, ops.concat([kept, x], axis=0), ops.slice(x, ops.reshape(i, [1]), [100], [0]), found]

    _, *stacks = control.loop(k, turn, [x], collects=4)
    exe = anyshape.compile(anyshape.function([x, k, at], stacks), **options)
    five, none = np.ones(5, np.float32), np.ones(0, np.float32)
    assert shapes(exe, five, np.array(1), np.array([2])) == [(1, 3), (1, 10), (1, 5), (1, 5)]
    assert shapes(exe, five, np.array(0), np.array([2])) == [(0, 3), (0, 10), (0, 5), (0, 0)]
    assert shapes(exe, five, np.array(-1), np.array([-1])) == [(0, 1), (0, 10), (0, 5), (0, 0)]
    assert shapes(exe, none, np.array(0), np.array([2])) == [(0, 0), (0, 0), (0, 0), (0, 0)]


def test_a_stack_of_no_turns_inside_a_turn(options: dict[str, Any]) -> None:
    """The sizes of the inner stack follow from what the outer loop carries, which is longer in every turn."""
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")

    def outer(_: Any, rows: Any, __: Any) -> list[Any]:
        _, stack = control.loop(k, lambda i, v: [ops.concat([v, x], axis=0), v], [rows], collects=1)
        return [ops.concat([rows, x], axis=0), ops.sum(stack, axes=(0,))]

    _, last = control.loop(3, outer, [x, x])
    exe = anyshape.compile(anyshape.function([x, k], last), **options)
    np.testing.assert_array_equal(exe(np.ones(2, np.float32), np.array(0)), np.zeros(6))
    np.testing.assert_array_equal(exe(np.ones(2, np.float32), np.array(1)), np.ones(6))


def test_a_first_turn_that_is_refused_gives_sizes_of_at_least_0(options: dict[str, Any]) -> None:
    x, k, n = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]"), anyshape.input("s", "i64[]")

    def turn(_: Any, kept: Any) -> list[Any]:
        return [ops.concat([kept, x], axis=0), ops.broadcast_to(0.5, ops.reshape(ops.sub(n, ops.size(kept)), [1]))]

    _, stack = control.loop(k, turn, [x], collects=1)
    exe = anyshape.compile(anyshape.function([x, k, n], stack), **options)
    five = np.ones(5, np.float32)
    assert exe(five, np.array(1), np.array(7)).shape == (1, 2)
    assert exe(five, np.array(0), np.array(7)).shape == (0, 2)
    assert exe(five, np.array(0), np.array(1)).shape == (0, 0)
