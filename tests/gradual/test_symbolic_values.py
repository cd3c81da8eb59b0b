"""Symbolic values: small integer tensors carry their elements as expressions through every op that shape arithmetic uses, partly
constant included. Each row: what is built from x: f32[n, m, 64], and the elements that inference must know."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.graph.value import Value
from anyshape.passes import optimise

N, M = 6, 5
X = anyshape.input("x", "f32[n, m, 64]")
S = ops.shape_of(X)  # [n, m, 64]
PAIR = ops.shape_of(X, end=2)  # [n, m]
HALF = ops.shape_of(X, start=1)  # [m, 64]
n, m = ops.gather(S, 0), ops.gather(S, 1)

ROWS: dict[str, tuple[Callable[[], Value], str]] = {
    "shape_of": (lambda: S, "n, m, 64"),
    "shape_of part": (lambda: ops.shape_of(X, start=-2), "m, 64"),
    "size": (lambda: ops.size(X), "64*m*n"),
    "gather": (lambda: ops.gather(S, -1), "64"),
    "gather several": (lambda: ops.gather(S, np.array([2, 0, -2])), "64, n, m"),
    "concat": (lambda: ops.concat([ops.shape_of(X, end=1), [64, -1]], axis=0), "n, 64, -1"),
    "slice": (lambda: ops.slice(S, (1,), (3,), (0,)), "m, 64"),
    "slice by a computed bound": (lambda: ops.slice(S, (0,), ops.sub(ops.shape_of(S), 1), (0,)), "n, m"),
    "slice backwards": (lambda: ops.slice(S, (-1,), (-9,), (0,), (-1,)), "64, m, n"),
    "split": (lambda: ops.split(S, sizes=(1, 2), axis=0)[1], "m, 64"),
    "expand_dims": (lambda: ops.expand_dims(n, (0,)), "n"),
    "squeeze": (lambda: ops.squeeze(ops.shape_of(X, end=1), (0,)), "n"),
    "reshape to a scalar": (lambda: ops.reshape(ops.shape_of(X, end=1), anyshape.constant(np.zeros(0, np.int64))), "n"),
    "reshape of a vector": (lambda: ops.reshape(S, (-1,)), "n, m, 64"),
    "transpose of a vector": (lambda: ops.transpose(S), "n, m, 64"),
    "cast": (lambda: ops.cast(ops.cast(S, "i32"), "i64"), "n, m, 64"),
    "add": (lambda: ops.add(S, 1), "n + 1, m + 1, 65"),
    "sub": (lambda: ops.sub(S, 2), "n - 2, m - 2, 62"),
    "mul": (lambda: ops.mul(n, m), "m*n"),
    "scaled by multiples of 1/64": (
        lambda: ops.scaled_size(X, np.array([0.5, 1.25, 2], np.float32)),
        "n // 2, (5*m) // 4, 128",
    ),
    "div": (lambda: ops.div(ops.mul(S, 8), 4), "2*n, 2*m, 128"),
    "div that rounds": (lambda: ops.div(n, 2), "n // 2"),
    "mod": (lambda: ops.mod(S, 4), "n % 4, m % 4, 0"),
    "neg": (lambda: ops.neg(PAIR), "-n, -m"),
    "abs": (lambda: ops.abs(ops.neg(PAIR)), "n, m"),
    "maximum": (lambda: ops.maximum(S, 0), "n, m, 64"),
    "minimum": (lambda: ops.minimum(S, np.array([1, 0, 99])), "min(n, 1), 0, 64"),
    "minimum of two": (lambda: ops.minimum(n, m), "min(m, n)"),
    "max of all": (lambda: ops.max(PAIR, axes=(0,)), "max(m, n)"),
    "min of all": (lambda: ops.min(PAIR, axes=(0,)), "min(m, n)"),
    "sum": (lambda: ops.sum(S, axes=(0,)), "m + n + 64"),
    "prod": (lambda: ops.prod(S, axes=(0,)), "64*m*n"),
    "prod keepdims": (lambda: ops.prod(HALF, axes=(0,), keepdims=True), "64*m"),
    "equal to what cannot be": (lambda: ops.equal(S, np.array([-1, -1, 64])), "False, False, True"),
    "greater": (lambda: ops.greater(ops.add(PAIR, 1), 0), "True, True"),
    "less": (lambda: ops.less(n, m), "m >= n + 1"),
    "less_equal": (lambda: ops.less_equal(n, ops.add(n, 1)), "True"),
    "greater_equal": (lambda: ops.greater_equal(n, m), "n >= m"),
    "where decided": (lambda: ops.where(ops.equal(np.array([-1, 3]), -1), PAIR, 7), "n, 7"),
    "where undecided": (lambda: ops.where(ops.equal(n, 1), m, n), "select(n == 1, m, n)"),
    "logical": (lambda: ops.logical_and(ops.greater_equal(n, 0), ops.less(m, 0)), "False"),
    "logical_not": (lambda: ops.logical_not(ops.less(n, m)), "n >= m"),
    "arange of a known length": (lambda: ops.arange(0, 3), "0, 1, 2"),
    "arange from a size": (lambda: ops.add(ops.arange(0, 3), n), "n, n + 1, n + 2"),
    "full": (lambda: ops.full(n, (2,)), "n, n"),
    "full, then arithmetic": (lambda: ops.mul(ops.full(ops.gather(S, 2), (2,)), PAIR), "64*n, 64*m"),
    "broadcast_to": (lambda: ops.broadcast_to(m, (3,)), "m, m, m"),
    "identity": (lambda: ops.identity(S), "n, m, 64"),
    "a table, as exporters write pads": (
        lambda: ops.reshape(
            ops.transpose(
                ops.slice(ops.reshape(ops.concat([PAIR, [64, 1]], axis=0), (-1, 2)), (-1,), (-9,), (0,), (-1,)),
                axes=(1, 0),
            ),
            (-1,),
        ),
        "64, n, 1, m",
    ),
    "clip": (lambda: ops.clip(S, 0, 32), "min(n, 32), min(m, 32), 32"),
    "ensured": (lambda: ops.match_shape(S, "i64[3]"), "n, m, 64"),
}


@pytest.mark.parametrize("name", ROWS)
def test_elements_are_known(name: str) -> None:
    build, expected = ROWS[name]
    v = build()
    assert v.contents is not None, "the elements are lost"
    assert ", ".join(map(str, v.contents)) == expected


@pytest.mark.parametrize("name", ROWS)
def test_a_run_gives_these_elements(name: str) -> None:
    """What inference said, with numbers put in, is what comes out; in both executors, and without a kernel."""
    v = ROWS[name][0]()
    f = anyshape.function([X], v)
    x = np.zeros((N, M, 64), np.float32)
    fixed = optimise(f.specialize(n=N, m=M))
    elements = fixed.results[0].constant
    assert elements is not None, "with every dim known it is a constant"
    for loop in ("native", "python"):
        run = anyshape.compile(f, loop=loop)
        np.testing.assert_array_equal(run(x), elements)
        assert "invoke" not in run.disassemble()


def test_a_reshape_by_what_was_computed_is_typed() -> None:
    heads = ops.concat([PAIR, [8], ops.div(ops.shape_of(X, start=2), 8)], axis=0)
    assert str(ops.reshape(X, heads).type) == "f32[n, m, 8, 8]"
    flat = ops.reshape(X, ops.concat([ops.expand_dims(ops.mul(n, m), (0,)), [-1]], axis=0))
    assert (
        str(optimise(anyshape.function([X], flat).specialize(n=(1, None), m=(1, None))).results[0].type)
        == "f32[m*n, 64]"
    )


def test_half_known_operands_become_static_where_all_is_known() -> None:
    y = ops.dyn.reshape(X, ops.concat([[-1], ops.slice(S, (2,), (3,), (0,))], axis=0))
    assert [k.op.full_name for k in optimise(anyshape.function([X], y)).nodes] == ["static.reshape"]


def test_through_both_sides_of_a_branch() -> None:
    from anyshape import control

    c = anyshape.input("c", "bool[]")
    (size,) = control.if_(c, lambda: ops.mul(n, 2), lambda: ops.add(n, n))
    assert str(size.contents) == str(ops.mul(n, 2).contents)
