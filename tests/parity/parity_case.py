"""One row of parity: inputs with unknown dims, what is built from them, arguments, and what NumPy says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import anyshape
from anyshape.graph.function import Function
from anyshape.graph.value import Value

LOOPS = ("native", "python")


@dataclass(frozen=True)
class Case:
    """`types` of the inputs a, b, c …; `build` makes one value or several; `arrays` are shapes of random arguments, or arguments."""

    types: Sequence[str]
    build: Callable[..., Any]
    arrays: Sequence[Any]
    reference: Callable[..., Any]

    def function(self) -> Function:
        inputs = [anyshape.input("abcdefghijklmnopqrstuvwxyz"[k], t) for k, t in enumerate(self.types)]
        results = self.build(*inputs)
        return anyshape.function(inputs, results if isinstance(results, Value) else tuple(results))

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [_argument(rng, a, t.partition("[")[0]) for a, t in zip(self.arrays, self.types, strict=True)]

    def check(self) -> None:
        """Runs it in both executors."""
        f, args = self.function(), self.arguments()
        expected = self.reference(*args)
        for loop in LOOPS:
            agrees(anyshape.compile(f, loop=loop)(*args), expected)


def _argument(rng: np.random.Generator, array: Any, dtype: str) -> np.ndarray:
    kind = {
        "f32": np.float32,
        "f64": np.float64,
        "f16": np.float16,
        "i64": np.int64,
        "i32": np.int32,
        "bool": np.bool_,
        "i8": np.int8,
    }[dtype]
    if isinstance(array, tuple):
        return (rng.uniform(0, 1, array) if dtype[0] == "f" else rng.integers(0, 2, array)).astype(kind)
    return np.asarray(array, kind)


def agrees(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        assert len(got) == len(expected)
        for g, w in zip(got, expected):
            agrees(g, w)
        return
    assert got.shape == np.shape(expected), f"wanted {np.shape(expected)}, got {got.shape}"
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)
