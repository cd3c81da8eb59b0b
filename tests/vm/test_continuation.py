"""Unknown ranks: the program goes on with the rank that turned up, and keeps what it compiled."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import ADD, DOUBLE, DYN_SUM, FILL, RESHAPE, SHAPE_OF, call

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError, DtypeError, ShapeError
from anyshape.vm import compile
from anyshape.vm.compiling.continuation import LIMIT, Continued


def test_axes_known_only_at_run_time() -> None:
    x, axes = anyshape.input("x", "f32[n, m, 2]"), anyshape.input("axes", "i64[?]")
    f = anyshape.function([x, axes], call(DOUBLE, call(DYN_SUM, call(DOUBLE, x), axes)))
    exe = compile(f)
    a = np.random.default_rng(0).random((3, 4, 2), np.float32)
    for picked in ([0], [1, 2], [2], [-1, 0], [0, 1, 2], [0]):
        np.testing.assert_allclose(exe(a, np.array(picked)), 4 * a.sum(tuple(picked)), rtol=1e-5)
    before = exe.compiled_after_first_call
    np.testing.assert_allclose(exe(a[:2], np.array([0])), 4 * a[:2].sum(0), rtol=1e-5)
    assert exe.compiled_after_first_call == before


def test_a_length_known_only_at_run_time() -> None:
    x, s = anyshape.input("x", "f32[n]"), anyshape.input("s", "i64[?]")
    f = anyshape.function([x, s], call(DOUBLE, call(RESHAPE, x, s)))
    exe = compile(f)
    assert exe(np.ones(12, np.float32), np.array([3, 4])).shape == (3, 4)
    assert exe(np.ones(12, np.float32), np.array([2, 3, 2])).shape == (2, 3, 2)
    before = exe.compiled_after_first_call
    assert exe(np.ones(20, np.float32), np.array([4, 5])).shape == (4, 5)
    assert exe.compiled_after_first_call == before, "one tail per length, not per value"
    with pytest.raises(ShapeError, match=r"cannot view 20 elements as \[4, 6\]"):
        exe(np.ones(20, np.float32), np.array([4, 6]))


def test_inputs_of_unknown_rank() -> None:
    x, y = anyshape.input("x", "f32[...]"), anyshape.input("y", "f32[n]")
    exe = compile(anyshape.function([x, y], [call(ADD, call(DOUBLE, x), y), call(SHAPE_OF, x)]))
    y4 = np.arange(4, dtype=np.float32)
    for shape in ((4,), (3, 4), (2, 1, 4), (2, 0, 4), ()):
        a = np.ones(shape, np.float32)
        got, dims = exe(a, y4)
        np.testing.assert_array_equal(got, 2 * a + y4)
        np.testing.assert_array_equal(dims, shape)
    with pytest.raises(DtypeError):
        exe(np.ones(3), y4)


def test_declared_sizes_are_checked_where_the_cut_keeps_shapes_only() -> None:
    """Nothing is computed before the cut, and what comes after it is made for the shapes that came."""
    x, y = anyshape.input("x", "f32[n, 4]"), anyshape.input("y", "f32[n]")
    exe = compile(anyshape.function([x, y], ops.squeeze(x)))
    assert exe(np.ones((1, 4), np.float32), np.ones(1, np.float32)).shape == (4,)
    assert exe(np.ones((3, 4), np.float32), np.ones(3, np.float32)).shape == (3, 4)
    with pytest.raises(ShapeError, match="input x: dim 1 must be 4, got 5"):
        exe(np.ones((1, 5), np.float32), np.ones(1, np.float32))
    with pytest.raises(ShapeError, match="input y: dim 0 must be n = 1, got 2"):
        exe(np.ones((1, 4), np.float32), np.ones(2, np.float32))
    bounded = anyshape.compile(anyshape.function([x, y], ops.squeeze(x)), dims={"n": (2, None)})
    with pytest.raises(ShapeError, match="n"):
        bounded(np.ones((1, 4), np.float32), np.ones(1, np.float32))


def test_one_unknown_after_another() -> None:
    x, s, axes = anyshape.input("x", "f32[n]"), anyshape.input("s", "i64[?]"), anyshape.input("axes", "i64[?]")
    f = anyshape.function([x, s, axes], call(DYN_SUM, call(DOUBLE, call(RESHAPE, x, s)), axes))
    exe = compile(f)
    a = np.arange(24, dtype=np.float32)
    for shape, picked in (((2, 3, 4), (1,)), ((6, 4), (0, 1)), ((24,), (0,)), ((2, 3, 4), (2, 0))):
        got = exe(a, np.array(shape), np.array(picked))
        np.testing.assert_allclose(got, 2 * a.reshape(shape).sum(picked))


def test_a_computed_value_crosses_the_cut() -> None:
    x, v = anyshape.input("x", "f32[]"), anyshape.input("v", "i64[?]")
    big = call(FILL, x, call(ADD, v, v))
    exe = compile(anyshape.function([x, v], [call(DOUBLE, big), call(SHAPE_OF, big)]))
    got, dims = exe(np.float32(2), np.array([1, 2, 3]))
    assert got.shape == (2, 4, 6) and dims.tolist() == [2, 4, 6]


def test_the_cache_is_bounded() -> None:
    x, axes = anyshape.input("x", "f32[?, ?, ?, ?]"), anyshape.input("axes", "i64[?]")
    exe = compile(anyshape.function([x, axes], call(DYN_SUM, x, axes)))
    plan = exe.plan
    assert isinstance(plan, Continued)
    a = np.ones((2, 2, 2, 2), np.float32)
    rng = np.random.default_rng(0)
    seen = set()
    while len(seen) < LIMIT + 6:
        picked = tuple(p - 4 * int(rng.integers(2)) for p in rng.permutation(4)[: rng.integers(1, 5)])
        seen.add(picked)
        np.testing.assert_allclose(exe(a, np.array(picked)), a.sum(picked))
    assert len(plan._tails) == LIMIT


def test_a_bad_axis_is_an_error_of_ours() -> None:
    x, axes = anyshape.input("x", "f32[n, m]"), anyshape.input("axes", "i64[?]")
    exe = compile(anyshape.function([x, axes], call(DYN_SUM, x, axes)))
    with pytest.raises(AnyshapeError, match="axis 5 is out of range"):
        exe(np.ones((2, 2), np.float32), np.array([5]))
