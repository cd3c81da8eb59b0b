"""NumPy's functions of dims are the arithmetic that dims have, and ArgumentErrors where dims have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import maximum, minimum, symbol
from anyshape.errors import ArgumentError

N, M = symbol("n"), symbol("m")
FEW = np.float32([1, 2])
SIZES: dict[str, tuple[Callable[[], Any], Any]] = {
    "add": (lambda: np.add(N, 1), N + 1),
    "an integer on the left": (lambda: np.int64(3) - N, 3 - N),
    "an array of one": (lambda: np.array(3) * N, 3 * N),
    "floor_divide": (lambda: np.floor_divide(N, M), N // M),
    "mod": (lambda: np.mod(7, N), 7 % N),
    "power": (lambda: np.power(N, 2), N * N),
    "negative": (lambda: np.negative(N), -N),
    "maximum": (lambda: np.maximum(N, 3), maximum(N, 3)),
    "minimum": (lambda: np.minimum(np.int32(3), N), minimum(3, N)),
    "less": (lambda: np.int64(3) < N, N > 3),
    "greater_equal": (lambda: np.greater_equal(N, M), N >= M),
    "a product of sizes": (lambda: np.prod((N, 4, M)), 4 * N * M),
}


@pytest.mark.parametrize("name", SIZES)
def test_what_dims_have(name: str) -> None:
    call, expected = SIZES[name]
    assert call() is expected


@pytest.mark.parametrize("call", [
    lambda: np.exp(N), lambda: np.divide(N, 2), lambda: np.add(N, FEW), lambda: FEW * N, lambda: np.float32(2) * N, lambda: np.sum(N),
    lambda: np.add(N, 1, dtype="f4"), lambda: np.maximum(N, 1.5),
])  # fmt: skip
def test_what_they_do_not_have(call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError, match=r"np\.[\w.]+ of the dim n.*: dims have .* ops\.cast\(dim, 'f32'\)"):
        call()


def test_a_value_beside_a_dim_computes() -> None:
    x = anyshape.input("x", "f32[n]")
    sums = [np.add(x, x.shape[0]), np.add(x.shape[0], x), np.multiply(ops.cast(x.shape[0], "f32"), x)]
    got = anyshape.compile(anyshape.function([x], sums))(FEW)
    assert [a.tolist() for a in got] == [[3, 4], [3, 4], [2, 4]]


def test_equality_asks_whether_two_are_one() -> None:
    assert np.int64(3) != N and np.array([1, 2]) != N and np.equal(N, N)
