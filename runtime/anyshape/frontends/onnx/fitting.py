"""Reshapes constants such that a node accepts them: a scale of one element for a vector of channels, or a bound of rank 1 for a scalar.

In: a node that refuses its operands, and a function that builds it with others. Out: the first change of constants with which it is
built: of one constant if that suffices, else of all constants of one element. No operator is special here: shapes are found by trying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError
from anyshape.graph.value import Value, constant

RebuildNode = Callable[[Sequence[Value | None]], Sequence[Value | None]]
LARGEST = 1 << 16
"""The most elements of a constant that is tried"""


class Fitted(NamedTuple):
    """Constants in place of some operands of a node, by position, and the results of the node built with them."""

    node: Any
    arrays: Mapping[int, NDArray[Any]]
    results: Sequence[Value | None]

    @property
    def changes(self) -> list[str]:
        return [f"{self.node.input[k]!r} as {list(a.shape)}" for k, a in self.arrays.items()]


def first_fit(node: Any, operands: Sequence[Value | None], rebuild: RebuildNode) -> Fitted | None:
    """Finds the first change of constants with which `rebuild` succeeds; None if there is none. Raises nothing."""
    for arrays in _candidates(operands):
        try:
            results = rebuild([constant(arrays[k]) if k in arrays else v for k, v in enumerate(operands)])
        except AnyshapeError:
            continue
        return Fitted(node, arrays, results)
    return None


def _candidates(operands: Sequence[Value | None]) -> Iterator[Mapping[int, NDArray[Any]]]:
    held = {k: v.constant for k, v in enumerate(operands) if v is not None and v.constant is not None}
    held = {
        k: a for k, a in held.items() if a.dtype != np.int64
    }  # int64 constants are sizes, axes and indices, whose number counts
    shapes = [v.type.shape or () for v in operands if v is not None]
    lengths = sorted({n for shape in shapes for n in shape if isinstance(n, int) and 1 < n <= LARGEST})
    single = {k: a for k, a in held.items() if a.size == 1}
    for k, a in held.items():
        if k in single:
            yield from ({k: a.reshape(shape)} for shape in ((), (1,)) if shape != a.shape)
            yield from ({k: _filled(a, n)} for n in lengths)
        elif a.ndim > 1 and a.size == max(a.shape):
            yield {k: a.reshape(-1)}
    if len(single) > 1:
        yield from ({k: _filled(a, n) for k, a in single.items()} for n in lengths)


def _filled(a: NDArray[Any], n: int) -> NDArray[Any]:
    return np.full(n, a.reshape(()), a.dtype)
