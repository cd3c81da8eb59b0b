"""Recurrences that enlarge rounding: what one step is off by, the steps behind it may multiply until nothing of a result is determined.

By how much is told by the equations: they are read again with every element of every sum of floats moved, up or down at random, by as
much as its rounding is allowed. A result may be off by twice as much as one of these readings is, there or beside it: where everything
depends on everything, an element may happen to be the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.equations.builder import Equation, Step
from anyshape.testing.cuts import MovedSums, Reading
from anyshape.testing.tolerance import is_float

Array = NDArray[Any]
READINGS = 4


class JoltedSums(MovedSums):
    """Sums of floats moved each element for itself, up or down."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def direction(self, number: int, shape: tuple[int, ...]) -> Array:
        return self.random.choice((-1, 1), shape)


def recurs(stated: Sequence[Equation]) -> bool:
    """Whether equations read what they computed at earlier positions."""
    return any(isinstance(q.form, Step) for q in stated)


def enlarged(read: Reading) -> list[Array]:
    """For each result, how far its elements are from the plain reading in one of the moved ones, doubled; 0 for what are no floats."""
    plain, *moved = [[np.asarray(a) for a in read(s)] for s in (MovedSums((0,)), *map(JoltedSums, range(READINGS)))]
    return [2 * _beside(np.max([_apart(m[k], p) for m in moved], axis=0)) for k, p in enumerate(plain)]


def _beside(spread: Array) -> Array:
    """At each element the most of those that share a position with it, on the axis where that is least."""
    if spread.ndim < 2 or spread.size == 0:
        return np.full(spread.shape, np.max(spread, initial=0.0))
    axes = range(spread.ndim)
    shared = [np.max(spread, axis=tuple(k for k in axes if k != axis), keepdims=True) for axis in axes]
    least: Array = np.minimum.reduce([np.broadcast_to(most, spread.shape) for most in shared])
    return least


def _apart(a: Array, b: Array) -> Array:
    """0 where one of them is not finite."""
    if not is_float(a) or a.shape != b.shape:
        return np.zeros(b.shape)
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(apart), apart, 0.0)


__all__ = ["JoltedSums", "enlarged", "recurs"]
