"""Checks at the entry: which are made, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import ShapeError


def test_what_dims_decide_of_a_check_is_reported_before_what_follows_from_it() -> None:
    """The bias's assert reads `total`, which a kernel computes; that its second dim fits is what an inner concat would say first."""
    types = {
        "q": "f32[1, 1, 1, 1]",
        "k": "f32[1, 1, 1, 1]",
        "v": "f32[1, 1, 1, 1]",
        "last": "i32[1]",
        "bias": "f32[n, 1, 1]",
        "counts": "i64[m]",
    }
    x = {name: anyshape.input(name, t) for name, t in types.items()}
    results = ops.grouped_query_attention(
        x["q"], x["k"], x["v"], x["last"], bias=x["bias"], total=ops.sum(x["counts"]), smooth=True
    )
    run = anyshape.compile(anyshape.function([*x.values()], results[0]))
    one = np.ones((1, 1, 1, 1), np.float32)
    feed = {"q": one, "k": one, "v": one, "last": np.zeros(1, np.int32), "counts": np.ones(1, np.int64)}
    assert run.run({**feed, "bias": np.ones((1, 1, 1), np.float32)})[0].shape == (1, 1, 1, 1)
    with pytest.raises(ShapeError, match=r"bias \[2, 1, 1\] does not broadcast to \[1, 1, 1, sum\]"):
        run.run({**feed, "bias": np.ones((2, 1, 1), np.float32)})


def test_a_size_that_data_decides_has_no_number_of_its_own() -> None:
    """How many symbols there were before is nothing to tell, and the same program says the same the next time it is compiled."""
    x, slope = anyshape.input("x", "f32[a, b]"), anyshape.input("slope", "i64[n, 5]")
    result = ops.prelu(ops.nonzero(x), slope)
    feed = {"x": np.ones((1, 5), np.float32), "slope": np.ones((0, 5), np.int64)}
    for _ in range(2):
        run = anyshape.compile(anyshape.function([x, slope], result))
        with pytest.raises(ShapeError, match=r"slope \[0, 5\] does not broadcast to \[\w+, k\]"):
            run.run(feed)


def reshaped_and_multiplied(
    s: anyshape.Value, x: anyshape.Value, a: anyshape.Value, b: anyshape.Value
) -> list[anyshape.Value]:
    """A check that needs an element of s, and behind it one on dims alone."""
    return [ops.dyn.reshape(x, s), ops.matmul(a, b)]


def inputs() -> list[anyshape.Value]:
    return [anyshape.input(*t) for t in (("s", "i64[1]"), ("x", "f32[n]"), ("a", "f32[i, k]"), ("b", "f32[l, j]"))]


def run_with(run: Callable[..., Any], s: int, k: int) -> None:
    """Calls it with s for 6 elements, and k for 3 rows."""
    ones = [np.ones(shape, np.float32) for shape in ((6,), (2, k), (3, 2))]
    run(np.asarray([s]), *ones)


def refuses_in_order(run: Callable[..., Any]) -> None:
    run_with(run, 6, 3)
    for k in (3, 4):
        with pytest.raises(ShapeError, match=r"reshape: cannot view 6 elements as \[5\]"):
            run_with(run, 5, k)
    with pytest.raises(ShapeError, match="matmul: k of b: expected 4, got 3"):
        run_with(run, 6, 4)


def test_checks_on_elements_of_arguments_and_on_dims_come_in_the_order_of_nodes() -> None:
    params = inputs()
    refuses_in_order(anyshape.compile(anyshape.function(params, reshaped_and_multiplied(*params))))


def test_so_they_do_in_a_branch() -> None:
    params, yes = inputs(), anyshape.input("yes", "bool[]")
    empty = [anyshape.constant(np.zeros(shape, np.float32)) for shape in ((0,), (0, 0))]
    branch = control.if_(yes, lambda: reshaped_and_multiplied(*params), lambda: empty)
    run = anyshape.compile(anyshape.function([yes, *params], branch))
    refuses_in_order(partial(run, np.asarray(True)))
    run_with(partial(run, np.asarray(False)), 5, 4)


def test_so_they_do_in_each_iteration_of_a_loop() -> None:
    params = inputs()

    def body(_: anyshape.Value, s: anyshape.Value, *seen: anyshape.Value) -> list[anyshape.Value]:
        return [s - 1, *reshaped_and_multiplied(s, *params[1:])]

    times = anyshape.input("times", "i64[]")
    _, *results = control.loop(times, body, params[:1], collects=2)
    run = anyshape.compile(anyshape.function([times, *params], results))
    refuses_in_order(partial(run, np.asarray(1)))
    run_with(partial(run, np.asarray(0)), 5, 4)
    with pytest.raises(ShapeError, match=r"reshape: cannot view 6 elements as \[5\]"):
        run_with(partial(run, np.asarray(2)), 6, 3)


def test_what_is_checked_of_an_equality_s_size_does_not_come_before_the_equality() -> None:
    """A bias without as many elements as w has rows is refused in the words of a size that is computed of rows that do not divide."""
    types = {"x": "f32[n, c]", "w": "f32[k, d]", "offset": "f32[n, e]", "bias": "f32[l]", "mask": "f32[n, f]"}
    x = {name: anyshape.input(name, t) for name, t in types.items()} | {"groups": anyshape.input("groups", "i64[]")}
    result = ops.deform_conv(**x, strides=(), dilations=(), pads=(), offset_groups=1)
    run = anyshape.compile(anyshape.function([*x.values()], result))
    shapes = {"x": (0, 0), "w": (1, 0), "offset": (0, 0), "bias": (0,), "mask": (0, 1)}
    feed = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ShapeError, match=r"deform_conv: 1 is not a multiple of 2 "):
        run.run({**feed, "groups": np.asarray(2)})
    with pytest.raises(ShapeError, match=r"deform_conv: groups \* m of bias: expected 1, got 0 "):
        run.run({**feed, "groups": np.asarray(1)})
