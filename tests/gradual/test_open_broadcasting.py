"""Dims of which nothing is known meet in a broadcast: the call decides, never the compiler. Alone, in chains, through where, and rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import ShapeError
from anyshape.graph.value import Value

Built = tuple[Callable[[Value, Value], Value], Callable[[np.ndarray, np.ndarray], np.ndarray]]


def softmax(v: np.ndarray) -> np.ndarray:
    e = np.exp(v - v.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


BUILT: dict[str, Built] = {
    "alone": (ops.add, np.add),
    "in a chain": (
        lambda a, b: ops.exp(ops.neg(ops.mul(ops.add(a, b), 0.5))),
        lambda a, b: np.exp(-(a + b) * np.float32(0.5)),
    ),
    "twice": (lambda a, b: ops.sub(ops.add(a, b), ops.mul(a, b)), lambda a, b: (a + b) - (a * b)),
    "where": (lambda a, b: ops.where(ops.greater(a, b), a, b), np.maximum),
    "where with a computed side": (
        lambda a, b: ops.where(ops.less(a, 1.0), ops.exp(b), ops.add(a, b)),
        lambda a, b: np.where(a < 1, np.exp(b), a + b),
    ),
    "rows": (lambda a, b: ops.softmax(ops.add(a, b)), lambda a, b: softmax(a + b)),
    "sum of rows": (lambda a, b: ops.sum(ops.mul(a, b), axes=(-1,)), lambda a, b: (a * b).sum(-1)),
    "rows, then against one of them": (
        lambda a, b: ops.sub(ops.add(a, b), ops.max(ops.add(a, b), axes=(-1,), keepdims=True)),
        lambda a, b: (a + b) - (a + b).max(-1, keepdims=True),
    ),
}


def numbers(shape: tuple[int, ...], by: float) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int), dtype=np.float32) * np.float32(by) % 3).reshape(shape)


@pytest.mark.parametrize("loop", ["native", "python"])
@pytest.mark.parametrize("name", BUILT)
def test_vectors(name: str, loop: str) -> None:
    build, reference = BUILT[name]
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    run = anyshape.compile(anyshape.function([x, y], build(x, y)), loop=loop)
    for n, m in ((5, 5), (1, 5), (5, 1), (1, 1), (37, 37), (1, 37), (37, 1)):
        a, b = numbers((n,), 0.3), numbers((m,), 0.7)
        np.testing.assert_allclose(run(a, b), reference(a, b), rtol=2e-6, atol=1e-6)
    for n, m in ((2, 3), (37, 36), (0, 2), (3, 0)):
        with pytest.raises(ShapeError, match=f"m == n or m == 1 or n == 1 does not hold: m = {m}, n = {n}"):
            run(numbers((n,), 1), numbers((m,), 1))


@pytest.mark.parametrize("n_and_m", [(0, 1), (1, 0), (0, 0)])
def test_empty(n_and_m: tuple[int, int]) -> None:
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]")
    run = anyshape.compile(anyshape.function([x, y], ops.exp(ops.add(x, y))))
    assert run(*(numbers((k,), 1) for k in n_and_m)).shape == (0,)


@pytest.mark.parametrize("name", BUILT)
def test_matrices_with_every_dim_open(name: str) -> None:
    build, reference = BUILT[name]
    x, y = anyshape.input("x", "f32[?, ?]"), anyshape.input("y", "f32[?, ?]")
    run = anyshape.compile(anyshape.function([x, y], build(x, y)))
    for s in ((3, 17), (1, 17), (3, 1), (1, 1)):
        for t in ((3, 17), (1, 17), (3, 1), (1, 1)):
            a, b = numbers(s, 0.3), numbers(t, 0.7)
            np.testing.assert_allclose(run(a, b), reference(a, b), rtol=2e-6, atol=1e-6)
    with pytest.raises(ShapeError, match=r"x\.shape\[1\].*y\.shape\[1\]"):
        run(numbers((3, 17), 1), numbers((3, 16), 1))


def test_three_dims_that_meet_in_two_broadcasts() -> None:
    values = [anyshape.input(n, f"f32[{n}]") for n in "abc"]
    run = anyshape.compile(anyshape.function(values, ops.where(ops.less(values[0], 1.0), values[1], values[2])))
    for sizes in ((4, 4, 4), (1, 4, 4), (4, 1, 1), (1, 1, 4), (1, 4, 1)):
        p, q, r = (numbers((n,), 0.4 + k) for k, n in enumerate(sizes))
        np.testing.assert_array_equal(run(p, q, r), np.where(p < 1, q, r))
    with pytest.raises(ShapeError, match="broadcast"):
        run(numbers((1,), 1), numbers((4,), 1), numbers((3,), 1))
