"""Excuses integers cast from sums of floats, where another order of a sum may bring an element to the other side of a whole number.

A sum in another order differs by rounding, and a cast to an integer makes that a difference of one. Which elements this concerns follows
from the equations: they are interpreted again with every sum of floats perturbed, up or down, by its allowed rounding error (`rounding`).
An element is excused where one reading gives the result and one gives the expected value: two readings of the same equations that differ
by rounding alone. Equations without a cast of a float to an integer excuse nothing. Only sums are perturbed; an index that is cast from
another float stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import accum, from_numpy
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Apply, Expr, Reduce, Tensor
from anyshape.equations.interpret import Arithmetic
from anyshape.equations.traversal import walk
from anyshape_testing.compare.tolerance import ULPS_REDUCTION, is_float

Array = NDArray[Any]
Reading = Callable[[Arithmetic], Sequence[Array]]
"""Computes the results of one call under an arithmetic"""

COARSE = 2**-12
"""The most, of its magnitude, that readings of one large integer may differ by if all between them is excused"""
MOST_APART = 4
"""The most sums that are perturbed independently, in all combinations; one more is perturbed with the first"""


class MovedSums(Arithmetic):
    """Perturbs sums of floats by their allowed rounding error, the k-th sum in the direction `signs[k]`."""

    def __init__(self, signs: Sequence[int] = (1,)) -> None:
        self.signs = signs
        self.sums: dict[Reduce | Tensor, int] = {}

    def reduce(self, e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
        out = super().reduce(e, body, keep, axes)
        if e.kind != "sum" or e.dtype is None or not e.dtype.is_float:
            return out
        sign = self.direction(self.sums.setdefault(e, len(self.sums)), out.shape)
        if not np.any(sign):
            return out
        terms = np.abs(np.where(keep, body, 0))
        spread = terms.sum(axis=axes, keepdims=True)
        by = (sign * rounding(out.dtype, math.prod(terms.shape[a] for a in axes)) * spread).astype(out.dtype)
        return np.where(np.isfinite(out), out + by, out)

    def update(self, op: str, target: Array, at: Sequence[Array], value: Array, t: Tensor) -> None:
        """Perturbs each element to which values are added, relative to the magnitudes of these and of what it was."""
        terms = np.abs(target)
        super().update(op, target, at, value, t)
        if op not in ("add", "sub") or not is_float(target):
            return
        sign = self.direction(self.sums.setdefault(t, len(self.sums)), target.shape)
        if not np.any(sign):
            return
        count = np.zeros(target.shape, np.int64)
        super().update("add", terms, at, np.abs(value), t)
        super().update("add", count, at, np.ones(value.shape, np.int64), t)
        by = (sign * rounding(target.dtype, int(count.max(initial=0)) + 1) * terms).astype(target.dtype)
        target[...] = np.where(np.isfinite(target) & (count > 0), target + by, target)

    def direction(self, number: int, shape: tuple[int, ...]) -> Any:
        """Returns -1, 0 or 1 for all elements of a sum, or for each of them."""
        return self.signs[number % len(self.signs)]


def rounding(dtype: Any, terms: int) -> float:
    """Returns the allowed rounding error of a sum, relative to the magnitudes of its terms. Where many equal terms are added one after the
    other, each partial sum is rounded to the same side by up to half an ulp of it: in the mean, a quarter of an ulp of the result."""
    summed = accum(from_numpy(dtype)).numpy
    return max(ULPS_REDUCTION * float(finfo(dtype).eps), terms / 4 * float(finfo(summed).eps))


def readings(read: Reading) -> Iterator[Sequence[Array]]:
    """Yields the plain results, then those with perturbed sums, in every combination of directions."""
    yield read(MovedSums((0,)))
    first = MovedSums()
    yield read(first)
    count = min(len(first.sums), MOST_APART)
    for signs in list(product((1, -1), repeat=count))[1:]:
        yield read(MovedSums(signs))


def cuts_floats(stated: Sequence[Equation]) -> bool:
    """Whether an equation casts a float to an integer."""
    return any(_is_cut(e) for q in stated for value in q.expressions for e in walk(value))


def _is_cut(e: Expr) -> bool:
    if not isinstance(e, Apply) or e.op != "cast" or e.dtype is None or not e.dtype.is_integer:
        return False
    source = e.args[0].dtype
    return source is not None and source.is_float


def as_cut(got: Sequence[Array], want: Sequence[Array], stated: Sequence[Equation], read: Reading) -> list[Array]:
    """Returns `want`, with the element of `got` where an integer may be either. Nothing is interpreted where no integer differs, or none is
    cast from a float."""
    differing = [_differ(g, w) for g, w in zip(got, want, strict=True)]
    if not any(differing) or not cuts_floats(stated):
        return list(want)
    near = list(readings(read))
    return [_explained(g, w, [n[k] for n in near]) if differing[k] else w for k, (g, w) in enumerate(zip(got, want))]


def _differ(got: Array, want: Array) -> bool:
    """Whether these are integers, of equal shape and dtype, that are not equal."""
    alike = got.shape == want.shape and got.dtype == want.dtype and from_numpy(got.dtype).is_integer
    return alike and not np.array_equal(got, want)


def _explained(got: Array, want: Array, near: Sequence[Array]) -> Array:
    """Returns `want`, with the element of `got` where one reading gives the one and another reading the other; or where both lie between
    readings of an integer so large that these are apart by more than one."""
    fitting = [n for n in near if n.shape == got.shape]
    least, most = np.minimum.reduce(fitting), np.maximum.reduce(fitting)
    coarse = most.astype(np.float64) - least.astype(np.float64) <= COARSE * np.abs(most.astype(np.float64))
    explained = [np.any([a == n for n in fitting], axis=0) | (coarse & (least <= a) & (a <= most)) for a in (got, want)]
    return np.where(explained[0] & explained[1], got, want)


__all__ = ["MovedSums", "Reading", "as_cut", "cuts_floats", "readings"]
