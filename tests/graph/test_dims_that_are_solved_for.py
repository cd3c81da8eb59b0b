"""Dims of inputs, of match_shape and of functions that are linear in a name define it; what is left over is refused."""

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import AnyshapeError, ArgumentError, ShapeError


def compiled(*types):
    params = [anyshape.input(f"x{k}", t) for k, t in enumerate(types)]
    sizes = sorted({s.name: s for p in params for s in p.type.symbols()}.items())
    return anyshape.compile(anyshape.function(params, ops.stack([s for _, s in sizes]))), [n for n, _ in sizes]


@pytest.mark.parametrize(
    ("types", "shapes", "expected"),
    [
        (["f32[n, 2*k]"], [(3, 8)], {"n": 3, "k": 4}),
        (["i64[m + 1]"], [(5,)], {"m": 4}),
        (["f32[8*b]"], [(16,)], {"b": 2}),
        (["f32[n + m]", "f32[n]"], [(7,), (3,)], {"n": 3, "m": 4}),
        (["f32[3*k - 1]"], [(5,)], {"k": 2}),
    ],
)
def test_names_are_solved_for(types, shapes, expected):
    exe, names = compiled(*types)
    arrays = [np.ones(s, np.int64 if t.startswith("i64") else np.float32) for t, s in zip(types, shapes)]
    assert dict(zip(names, exe(*arrays).tolist())) == expected


@pytest.mark.parametrize(
    ("dim", "size", "text"),
    [
        ("2*k", 7, r"dim 0 must be 2\*k for a whole number k, got 7"),
        ("m + 1", 0, r"input x0: dim 0 is m \+ 1, of which m must be at least 0, got -1"),
    ],
)
def test_what_leaves_something_is_refused(dim, size, text):
    exe, _ = compiled(f"f32[{dim}]")
    with pytest.raises(ShapeError, match=text):
        exe(np.ones(size, np.float32))


def test_what_no_dim_tells_is_refused():
    with pytest.raises(AnyshapeError, match="a size is computed of n, and no input has that dim"):
        compiled("f32[n // 2]")


def test_match_shape_solves_too():
    x = anyshape.input("x", "f32[n, ?]")
    y = ops.match_shape(x, "f32[n, 2*j + n]")
    z = ops.full(0.0, (x.shape[0],)) + ops.match_shape(anyshape.input("z", "f32[?]"), "f32[n]")
    exe = anyshape.compile(anyshape.function([x, z.node.inputs[1].node.inputs[0]], [y, z]))
    assert exe(np.ones((2, 8), np.float32), np.ones(2, np.float32))[0].shape == (2, 8)
    with pytest.raises(ShapeError):
        exe(np.ones((2, 7), np.float32), np.ones(2, np.float32))
    with pytest.raises(ArgumentError, match="does not tell"):
        anyshape.function([x], ops.match_shape(x, "f32[n, a*b]"))


def test_a_function_takes_what_it_is_declared_for():
    f = control.define(control.function("f", {"v": "f32[2*k]"}, ["f32[k]"]), lambda v: v.reshape(2, -1).sum(axis=0))
    x = anyshape.input("x", "f32[n]")
    exe = anyshape.compile(anyshape.function([x], control.call(f, [x])))
    np.testing.assert_array_equal(exe(np.arange(6, dtype=np.float32)), [3, 5, 7])
    with pytest.raises(AnyshapeError):
        exe(np.ones(5, np.float32))
