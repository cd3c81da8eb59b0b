"""Loops whose carried values have another rank after their first iterations, beside NumPy, in both executors; ranks that go on changing are
refused with what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import Value, control, ops
from anyshape.errors import ShapeError, UnsupportedError

X, TRIP = anyshape.input("x", "f32[m, n]"), anyshape.input("trip", "i64[]")
F32 = np.float32


def agree(
    results: Any, calls: Sequence[Sequence[Any]], reference: Callable[..., Any], inputs: Sequence[Value] = (X, TRIP)
) -> None:
    """Asserts that a function of x and trip is what NumPy makes of them, in shapes too."""
    f = anyshape.function(list(inputs), results)
    for exe in (anyshape.compile(f), anyshape.compile(f, loop="python")):
        for arguments in calls:
            arrays = [np.asarray(a) for a in arguments]
            got, want = exe(*arrays), reference(*arrays)
            for g, w in zip(
                got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
            ):
                np.testing.assert_allclose(g, w, rtol=1e-6, strict=True)


def ones(*shapes: Sequence[int], trips: Sequence[int] = (0, 1, 2, 5)) -> list[list[Any]]:
    return [[np.arange(np.prod(s), dtype=F32).reshape(s), t] for s in shapes for t in trips]


def squeezed(x: Value) -> Value:
    """Drops the first axis if its size is one."""
    is_one = ops.equal(ops.gather(ops.shape_of(x), 0), 1)
    return control.if_(is_one, lambda: ops.squeeze(x, axes=[0]), lambda: x)[0]


def grown(i: Value, rows: Value) -> list[Value]:
    """One row more, or the first of them."""
    row = ops.expand_dims(X, axes=[0])
    return [*control.if_(ops.equal(i, 0), lambda: row, lambda: ops.concat([rows, row], axis=0))]


def stacked(x: Any, trip: Any) -> Any:
    return np.stack([x] * int(trip)) if trip > 0 else np.zeros(0, F32)


def test_what_is_carried_is_squeezed_once() -> None:
    def one_less(x: Any, trip: Any) -> Any:
        return x[0] if len(x) == 1 and trip > 0 else x

    agree(control.loop(TRIP, lambda i, v: [squeezed(v)], [X]), ones((1, 4), (3, 4)), one_less)


def test_an_empty_vector_grows_to_a_stack() -> None:
    agree(control.loop(TRIP, grown, [np.zeros(0, F32)]), ones((1, 4), (3, 4)), stacked)


def test_what_follows_takes_the_rank_that_came_out() -> None:
    (rows,) = control.loop(TRIP, grown, [np.zeros(0, F32)])
    agree([ops.exp(rows)], ones((2, 3), trips=(0, 2)), lambda x, trip: np.exp(stacked(x, trip)))


def test_stacks_begin_with_what_the_first_iteration_collects() -> None:
    def iteration(i: Value, v: Value) -> list[Value]:
        return [*grown(i, v), ops.add(X, ops.cast(i, "f32"))]

    def both(x: Any, trip: Any) -> Any:
        return stacked(x, trip), np.stack([x + F32(k) for k in range(trip)]) if trip > 0 else np.zeros(
            (0, *x.shape), F32
        )

    agree(control.loop(TRIP, iteration, [np.zeros(0, F32)], collects=1), ones((2, 3)), both)


def test_a_condition_ends_such_a_loop() -> None:
    start = anyshape.input("start", "bool[]")

    def iteration(i: Value, v: Value) -> list[Value]:
        total = ops.sum(v, keepdims=False)
        return [ops.less(total, 100.0), ops.add(ops.sum(X, axes=[1], keepdims=False), total)]

    def summed(x: Any, begins: Any) -> Any:
        v, goes_on = x, bool(begins)
        while goes_on:
            total = v.sum(dtype=F32)
            v, goes_on = x.sum(1) + total, total < 100
        return v

    x = np.ones((2, 3), F32)
    agree(control.loop(None, iteration, [X], start), [[x, True], [x, False]], summed, [X, start])


def test_such_a_loop_within_a_branch() -> None:
    flag = anyshape.input("flag", "bool[]")
    results = control.if_(
        flag, lambda: control.loop(TRIP, grown, [np.zeros(0, F32)]), lambda: ops.expand_dims(X, axes=[0])
    )
    calls = [[*call, c] for call in ones((1, 4), (3, 4)) for c in (True, False)]
    agree(results, calls, lambda x, trip, c: stacked(x, trip) if c else x[None], [X, TRIP, flag])


@pytest.mark.parametrize("trip", [0, 1, 2, 4])
def test_a_known_number_of_iterations_adds_axes(trip: int) -> None:
    results = control.loop(trip, lambda i, v: [ops.expand_dims(v, axes=[0])], [X])
    agree(results, [[np.ones((2, 3), F32)]], lambda x: x.reshape((1,) * trip + x.shape), [X])


@pytest.mark.parametrize("trip", [5, TRIP, None])
def test_a_rank_that_goes_on_changing_is_refused_by_name(trip: Any) -> None:
    message = r"value 0 \(rows\): its rank changes between iterations, from f32\[m, n\] to f32\[1, m, n\], and goes on changing; carry"
    with pytest.raises(UnsupportedError, match=message):
        control.loop(trip, lambda i, v: [ops.expand_dims(v, axes=[0])], [X], names=["rows"])


def test_a_first_iteration_that_cannot_be_is_refused() -> None:
    with pytest.raises(ShapeError, match="axis"):
        control.loop(TRIP, lambda i, v: [ops.sum(ops.squeeze(v, axes=[2]), axes=[0], keepdims=False)], [X])


def test_stacks_of_unlike_ranks_are_refused() -> None:
    with pytest.raises(
        ShapeError,
        match=r"collected value 0: its rank changes .*, from f32\[m, n\] to f32\[1, m, n\]; a stack",
    ):
        control.loop(TRIP, lambda i, v: [ops.expand_dims(X, axes=[0]), v], [X], collects=1)
