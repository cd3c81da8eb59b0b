"""Gradients of what is not all of the form t[i] = e, held against differences: updates, compaction, an order, products, asserts."""

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError, UnsupportedError

RNG = np.random.default_rng(0)
V, M, U = np.array([0.7, -1.1, 0.0, 1.3, -0.4]), RNG.normal(size=(2, 3)), RNG.normal(size=3)
AT = np.array([0, 1, 0])
CALLS = {
    "a product": (lambda x: ops.prod(x * x + x), [V]),
    "products of rows": (lambda x: ops.prod(x, axes=(1,)), [M]),
    "running products": (lambda x: ops.cumprod(x, 0), [V]),
    "a compaction": (lambda x: ops.exp(ops.compress(x, x > 0.1)), [V]),
    "a compaction of columns": (lambda x: ops.compress(x, np.array([True, False, True]), axis=1) ** 2, [M]),
    "elements in order": (lambda x: ops.sort(x) * np.arange(5.0), [V]),
    "the largest": (lambda x: ops.topk(x, 2)[0] ** 2, [V]),
    "elements put": (lambda x, u: ops.scatter_elements(x, AT, u, axis=0) ** 2, [V, U]),
    "elements added": (lambda x, u: ops.scatter_elements(x, AT, u, axis=0, reduction="add") ** 2, [V, U]),
    "rows put": (lambda x, u: ops.scatter_nd(x, np.array([[0], [-1], [0]]), u) ** 2, [V, U]),
    "distinct ones": (lambda x: ops.unique(x)[0] ** 2, [V]),
    "rows under an assert": (lambda x: ops.reverse_sequence(x, np.array([2, 0, 1])) ** 2 * np.arange(3.0), [M]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_gradient(name):
    call, arguments = CALLS[name]
    params = [
        anyshape.input(f"x{k}", f"f64[{', '.join(f'n{k}_{j}' for j in range(a.ndim))}]")
        for k, a in enumerate(arguments)
    ]
    y = call(*params)
    forward = anyshape.compile(anyshape.function(params, y))
    got = anyshape.compile(anyshape.function(params, anyshape.gradients(y, params)))(*arguments)
    for k, g in enumerate(got if isinstance(got, list | tuple) else [got]):
        np.testing.assert_allclose(g, differences(forward, arguments, k), rtol=1e-5, atol=1e-6)


def differences(f, arguments, k, step=1e-6):
    slope = np.zeros_like(arguments[k])
    for i in np.ndindex(slope.shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in arguments]
            moved[k][i] += sign * step
            ends.append(f(*moved).sum())
        slope[i] = (ends[0] - ends[1]) / (2 * step)
    return slope


def test_the_reason_and_the_line_where_there_is_none():
    x, u = anyshape.input("x", "f64[n]"), anyshape.input("u", "f64[m]")
    with pytest.raises(
        UnsupportedError, match=r"scatter_elements: an update by mul has no adjoint here \(specs/scatter\.yaml:\d+: y\["
    ):
        anyshape.gradients(ops.scatter_elements(x, AT, u, axis=0, reduction="mul"), [x])


def test_what_is_demanded_of_elements_is_demanded_of_a_gradient():
    x, lens = anyshape.input("x", "f64[m, n]"), anyshape.input("lens", "i64[n]")
    (g,) = anyshape.gradients(ops.reverse_sequence(x, lens), [x])
    exe = anyshape.compile(anyshape.function([x, lens], g))
    np.testing.assert_array_equal(exe(M, np.array([1, 2, 0])), np.ones((2, 3)))
    with pytest.raises(AnyshapeError, match="a length is not within"):
        exe(M, np.array([1, 3, 0]))
