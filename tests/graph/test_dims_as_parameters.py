"""A dim, a Value, and a list of numbers, dims and Values stand wherever an op takes a number that may be an operand."""

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.dims import eq as equal
from anyshape.dims import maximum, select
from anyshape.errors import ArgumentError, ShapeError
from anyshape.passes.pipeline import dyn_to_static

X = np.arange(12, dtype=np.float32).reshape(4, 3)
K = np.array(2)
CALLS = {
    "reshape by dims": (lambda x, k, n, m: ops.reshape(x, (m, n)), X.reshape(3, 4)),
    "reshape by a multiple": (lambda x, k, n, m: x[:, :2].reshape(2 * n, -1, 1), X[:, :2].reshape(8, 1, 1)),
    "reshape by a value": (lambda x, k, n, m: ops.reshape(x, (k, 6)), X.reshape(2, 6)),
    "full": (lambda x, k, n, m: ops.full(1.0, (k, n)), np.ones((2, 4), np.float32)),
    "zeros of computed dims": (lambda x, k, n, m: ops.zeros((n // 2 + 1, m % 2, k)), np.zeros((3, 1, 2), np.float32)),
    "broadcast_to": (lambda x, k, n, m: ops.broadcast_to(x[0], (k + 1, m)), np.broadcast_to(X[0], (3, 3))),
    "tile": (lambda x, k, n, m: ops.tile(x, (k, m)), np.tile(X, (2, 3))),
    "arange": (lambda x, k, n, m: ops.arange(k, n * m, 1), np.arange(2, 12)),
    "slice": (lambda x, k, n, m: ops.slice(x, [1], [n - 1], [0]), X[1:3]),
    "an index": (lambda x, k, n, m: x[k : n - 1, m - 1], X[2:3, 2]),
    "topk": (lambda x, k, n, m: ops.topk(x, m - 1)[0], X[:, :0:-1]),
    "repeat": (lambda x, k, n, m: ops.repeat(x, n - 2, axis=1), np.repeat(X, 2, 1)),
    "pad": (lambda x, k, n, m: ops.pad(x, pads=(0, n, k, 0)), np.pad(X, ((0, 2), (4, 0)))),
    "an operand": (lambda x, k, n, m: x / n + m, X / np.float32(4) + np.float32(3)),
    "chosen": (
        lambda x, k, n, m: ops.full(1.0, (select(equal(n, m), n, m), maximum(n, m))),
        np.ones((3, 4), np.float32),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name):
    call, expected = CALLS[name]
    x, k = anyshape.input("x", "f32[n, m]"), anyshape.input("k", "i64[]")
    got = anyshape.compile(anyshape.function([x, k], call(x, k, *x.shape)))(X, K)
    np.testing.assert_array_equal(got, expected)


def test_the_alias_takes_the_dyn_variant_and_knows_the_type():
    x = anyshape.input("x", "f32[n]")
    y = ops.reshape(ops.tile(x, (4,)), (4, x.shape[0]))
    assert (y.node.op.full_name, str(y.type)) == ("dyn.reshape", "f32[4, n]")
    assert ops.reshape(x, (-1, 1)).node.op.full_name == "static.reshape"


def test_a_list_has_numbers_dims_and_integers_alone():
    x = anyshape.input("x", "f32[n]")
    for strange in ("a", 1.5, x, None):
        with pytest.raises(
            ArgumentError, match=r"dyn.reshape: newshape\[1\] must be a number, a dim or a scalar of integers"
        ):
            ops.reshape(x, (x.shape[0], strange))


LISTS = {
    "dyn.reshape: newshape[0]": lambda x, w: x.reshape(w, -1),
    "dyn.full: shape[1]": lambda x, w: ops.full(1.0, (2, w)),
    "dyn.broadcast_to: shape[0]": lambda x, w: ops.broadcast_to(x, (w, 3)),
    "dyn.slice: ends[0]": lambda x, w: x[:w],
    "dyn.tile: repeats[1]": lambda x, w: ops.tile(x, (2, w)),
    "dyn.topk: k[0]": lambda x, w: ops.topk(x, [w]),
    "dyn.pad: pads[2]": lambda x, w: ops.pad(x, pads=(0, 0, w, 0)),
    "concat: xs[0]": lambda x, w: ops.concat([(x.shape[0], w), [1]], axis=0),
}


@pytest.mark.parametrize("entry", LISTS)
def test_an_entry_of_a_list_has_one_element(entry):
    x, w, one, v = (
        anyshape.input(n, t) for n, t in (("x", "f32[n, 3]"), ("w", "i64[2]"), ("one", "i64[1]"), ("v", "i64[m]"))
    )
    place = entry.partition(":")[0]
    with pytest.raises(ArgumentError) as refused:
        LISTS[entry](x, w)
    if place != "concat":
        assert f"{entry} must be a number, a dim or a scalar of integers, got i64[2]" in str(refused.value)
    exe = anyshape.compile(anyshape.function([x, v], LISTS[entry](x, v)))
    alone = anyshape.compile(anyshape.function([x, one], LISTS[entry](x, one)))
    X3 = np.ones((1, 3), np.float32)
    for got, want in zip(exe(X3, np.array([1])), alone(X3, np.array([1]))):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ShapeError, match=r"item \(.*\): one element was expected, got \[2\]"):
        exe(X3, np.array([1, 1]))


def test_sizes_that_data_decide():
    x, yes = anyshape.input("x", "f32[n]"), anyshape.input("yes", "bool[]")
    kept = x[x > 0]
    (r,) = control.if_(
        yes, lambda: ops.full(1.0, (kept.shape[0] + 1, x.shape[0])), lambda: ops.full(1.0, (3, x.shape[0]))
    )
    exe = anyshape.compile(anyshape.function([x, yes], [r, ops.full(2.0, kept.shape)]))
    assert [a.shape for a in exe(np.array([1, -1, 2], np.float32), np.array(True))] == [(3, 3), (2,)]


def test_branches_that_compute_one_size_share_nothing():
    x, yes = anyshape.input("x", "f32[n]"), anyshape.input("yes", "bool[]")
    s = ops.shape_of(x)

    def wide(k):
        return lambda: ops.full(1.0, ops.stack([np.array(k), ops.reshape(s, ())]))

    exe = anyshape.compile(anyshape.function([x, yes], control.if_(yes, wide(2), wide(3))[0]))
    assert [exe(X[0], np.array(c)).shape for c in (True, False)] == [(2, 3), (3, 3)]


def test_sizes_of_an_iteration():
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")

    def body(i, kept):
        return [ops.concat([kept, ops.full(2.0, (kept.shape[0] + i * x.shape[0],))], axis=0)]

    (last,) = control.loop(k, body, [x])
    got = anyshape.compile(anyshape.function([x, k], last))(np.ones(2, np.float32), K)
    np.testing.assert_array_equal(got, [1, 1, *[2] * 8])


def test_a_dim_that_no_input_has():
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    with pytest.raises(ArgumentError, match="a size is computed of m, and no input has that dim; there are n"):
        anyshape.function([x], ops.full(1.0, y.shape))


STATIC = {
    "a dim and what is left": (lambda x, k, n: ops.reshape(x, (n, -1)), (-1, 24)),
    "a dim and a number": (lambda x, k, n: ops.reshape(x, (n, 24)), (-1, 24)),
    "a part of a shape": (lambda x, k, n: ops.reshape(x, ops.concat([ops.shape_of(x)[:1], [-1]], axis=0)), (-1, 24)),
    "a multiple": (lambda x, k, n: ops.reshape(x, (4 * n, 6)), (-1, 6)),
    "a value": (lambda x, k, n: ops.reshape(x, (k, 24)), None),
    "two that are open": (lambda x, k, n: ops.reshape(x, (n, k, -1)), None),
    "no -1": (lambda x, k, n: ops.full(1.0, (n, 3)), None),
}


@pytest.mark.parametrize("name", STATIC)
def test_what_is_known_is_kept(name):
    call, newshape = STATIC[name]
    x, k = anyshape.input("x", "f32[n, 4, 6]"), anyshape.input("k", "i64[]")
    before = call(x, k, x.shape[0])
    after = dyn_to_static(anyshape.function([x, k], before)).results[0]
    assert after.type == before.type and after.node.attrs.get("newshape") == newshape
    assert after.node.op.variant == ("dyn" if newshape is None else "static")


def test_a_size_of_0_copies_a_dim_in_the_op_and_is_a_size_in_the_method():
    x = anyshape.input("x", "f32[n, 24]")
    n = x.shape[0]
    by_op, by_method, by_flag = (
        anyshape.compile(anyshape.function([x], y))
        for y in (ops.reshape(x, (24, n)), x.reshape(24, n), ops.reshape(x, (24, n), allowzero=True))
    )
    few, none = np.zeros((2, 24), np.float32), np.zeros((0, 24), np.float32)
    assert by_op(few).shape == by_method(few).shape == by_flag(few).shape == (24, 2)
    assert by_method(none).shape == by_flag(none).shape == (24, 0)
    with pytest.raises(ShapeError, match="cannot view 0 elements as"):
        by_op(none)
