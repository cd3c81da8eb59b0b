"""Symbolic shapes of functions that people build, and of calls whose rank a size decides."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import evaluate
from anyshape.errors import ArgumentError, ShapeError


def halves() -> anyshape.Function:
    """Rows of eight, of a matrix twice as long, and where the matrix is not 0."""
    x = anyshape.input("x", "f32[n, 4]")
    twice = ops.concat([x, x], axis=0)
    return anyshape.function([x], {"y": ops.reshape(ops.exp(twice), [-1, 8]), "places": ops.nonzero(x), "same": x})


def test_values_of_a_function_are_called_as_its_text_calls_them() -> None:
    f = halves()
    shapes = anyshape.shapes(f)
    assert {name: str(t.type) for name, t in shapes.values.items()} == {
        "x": "f32[n, 4]", "%0": "f32[2*n, 4]", "%1": "f32[2*n, 4]", "y": "f32[n, 8]", "places": "i64[2, places.shape[1]]",
        "same": "f32[n, 4]",
    }  # fmt: skip
    assert shapes.inputs == ("x",) and shapes.outputs == ("y", "places", "same")
    assert [*shapes.dims] == ["n"] and [*shapes.data] == ["places.shape[1]"]
    assert not shapes.unsupported and not shapes.bodies and "%1: " in str(f)


def test_what_is_said_of_a_function_is_so_in_its_runs() -> None:
    x = anyshape.input("x", "f32[n, m]")
    f = anyshape.function([x], {"y": ops.reshape(x, [3, -1, 4])})
    shapes, run = anyshape.shapes(f), anyshape.compile(f)
    ran = set()
    for n, m in ((3, 4), (6, 2), (12, 5), (5, 4), (1, 1), (0, 4), (0, 0)):
        numbers = {shapes.dims["n"].symbol: n, shapes.dims["m"].symbol: m}
        holds = all(evaluate(c.cond, numbers) for c in shapes.conditions)
        ran.add(holds)
        if not holds:
            with pytest.raises(ShapeError):
                run(np.zeros((n, m), np.float32))
            continue
        t = shapes.values["y"].type
        assert t is not None and t.shape is not None
        assert run(np.zeros((n, m), np.float32)).shape == tuple(evaluate(k, numbers) for k in t.shape)
    assert ran == {True, False}
    assert shapes.solve(y=(3, 5, 4)).smallest == {"n": 10, "m": 6} and not shapes.solve(y=(4, None, 4))


def test_dims_bind_those_of_a_function() -> None:
    shapes = anyshape.shapes(halves(), {"n": (2, 8)})
    assert (shapes.dims["n"].least, shapes.dims["n"].most) == (2, 8)
    assert str(anyshape.shapes(halves(), {"n": 3}).values["y"].type) == "f32[3, 8]"
    with pytest.raises(ArgumentError, match="no input has a dim m"):
        anyshape.shapes(halves(), {"m": 3})
    with pytest.raises(ArgumentError, match="repair is for ONNX models"):
        anyshape.shapes(halves(), repair=True)


def test_a_scatter_keeps_its_shape_where_the_columns_of_its_indices_are_not_known() -> None:
    """Each number of columns is tried: the one that fits the updates, or all where nothing decides, has the shape of x."""
    x, index = anyshape.input("x", "f32[a, b, 3]"), anyshape.input("index", "i64[m, k]")
    for updates in ("f32[m, b, 3]", "f32[m, 3]", "f32[m]"):
        y = ops.scatter_nd(x, index, anyshape.input("updates", updates))
        assert str(y.type) == "f32[a, b, 3]", updates
    assert (
        ops.scatter_nd(x, index, anyshape.input("updates", "f32[m, 1, 1, 1, 1]")).type.shape is None
    )  # no run takes it
    assert ops.gather_nd(x, index).type.shape is None  # its rank is another one for each


def test_a_scatter_with_indices_of_unknown_columns_runs() -> None:
    x, index, updates = (
        anyshape.input(n, t) for n, t in (("x", "f32[a, b]"), ("index", "i64[m, k]"), ("updates", "f32[m]"))
    )
    run = anyshape.compile(anyshape.function([x, index, updates], ops.scatter_nd(x, index, updates)))
    zeros = np.zeros((2, 3), np.float32)
    y = run(zeros, np.array([[0, 1], [1, -1]]), np.array([1, 2], np.float32))
    np.testing.assert_array_equal(y, [[0, 1, 0], [0, 0, 2]])
    with pytest.raises(ShapeError, match="r of updates"):
        run(zeros, np.array([[0], [1]]), np.array([1, 2], np.float32))
