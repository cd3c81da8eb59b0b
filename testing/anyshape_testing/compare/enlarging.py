"""Measures by how much equations amplify rounding errors: later steps of a recurrence multiply the error of a step, and a root or a
quotient multiplies that of a sum whose terms cancel.

The equations are interpreted again with every element of every sum of floats perturbed, up or down at random, by its allowed rounding
error. A result may be off by twice as much as one of these readings; that of a recurrence by four times as much as a reading there or
beside it, since an element may happen to be nearly the same in all readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.equations.builder import Equation, RecurrenceStep
from anyshape.equations.expr import Apply, Expr, Read, Reduce, Tensor
from anyshape.equations.interpret import Arithmetic
from anyshape.equations.traversal import walk
from anyshape_testing.compare.cuts import MovedSums, Reading
from anyshape_testing.compare.tolerance import is_float

Array = NDArray[Any]
READINGS = 4
"""Two of them go the one way and the other: what a sum whose terms cancel comes to may have either sign"""
ULPS_OF_TWO = 4
"""The ulps by which a sum of two terms, and every other operation in ROUNDED, is perturbed: terms and result are rounded"""
ROUNDED: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("add", "sub"), lambda out, a, b: a + b),
    **dict.fromkeys(("mul", "div"), lambda out, a, b: out),
    **dict.fromkeys(("sin", "cos"), lambda out, a: a),
}
"""The magnitude to which an operation's rounding error is relative, from those of its result and its arguments: for a sum its terms, which
may cancel; for a sine its argument, whose last place is most of a sine near zero"""
STEEP = frozenset(("sqrt", "div", "log", "pow"))
"""Operations whose derivative is unbounded"""


class JoltedSums(MovedSums):
    """Perturbs each element of sums of floats, with those of two terms, and of other operations in ROUNDED, up or down at random."""

    def __init__(self, seed: int, sign: int = 1, reductions: bool = True, narrowing: bool = False) -> None:
        """Makes an arithmetic of perturbations, negated with the other `sign`. `reductions`: whether sums of many terms, quotients and
        sines are perturbed, besides sums of two terms. `narrowing`: whether casts to floats of fewer bits are, by a unit of their last
        place: in a composition, values between its calls are rounded to the dtype of tensors."""
        super().__init__()
        self.random, self.sign, self.reductions = np.random.default_rng(seed), sign, reductions
        self.narrowing = narrowing

    def reduce(self, e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
        return super().reduce(e, body, keep, axes) if self.reductions else Arithmetic.reduce(self, e, body, keep, axes)

    def update(self, op: str, target: Array, at: Sequence[Array], value: Array, t: Tensor) -> None:
        (super().update if self.reductions else partial(Arithmetic.update, self))(op, target, at, value, t)

    def apply(self, e: Apply, args: list[Array]) -> Array:
        out = super().apply(e, args)
        if (
            self.narrowing
            and e.op == "cast"
            and is_float(out)
            and out.itemsize < args[0].itemsize
            and is_float(args[0])
        ):
            with np.errstate(all="ignore"):
                by = self.direction(0, out.shape) * float(finfo(out.dtype).eps) * out.astype(np.float64)
                return np.where(np.isfinite(out), out.astype(np.float64) + by, out).astype(out.dtype)
        if (not _adds(e) and not (self.reductions and _rounds(e))) or out.ndim == 0:
            return out
        with np.errstate(all="ignore"):
            rounded = ROUNDED[e.op](*(np.abs(a.astype(np.float64)) for a in (out, *args)))
            by = self.direction(0, out.shape) * ULPS_OF_TWO * float(finfo(out.dtype).eps) * rounded
            return np.where(np.isfinite(out), out + by.astype(out.dtype), out).astype(out.dtype)

    def direction(self, number: int, shape: tuple[int, ...]) -> Array:
        return self.sign * self.random.choice((-1, 1), shape)


def _adds(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op in ("add", "sub") and e.dtype is not None and e.dtype.is_float


class OverflowingSums(Arithmetic):
    """Replaces sums of finite floats that overflow in some order of their terms by `lost`, and with `terms` those of which a term is an
    infinity or NaN."""

    def __init__(self, lost: float, terms: bool = False) -> None:
        self.lost, self.terms = lost, terms

    def update(self, op: str, target: Array, at: Sequence[Array], value: Array, t: Tensor) -> None:
        terms = np.abs(target)
        super().update(op, target, at, value, t)
        if op not in ("add", "sub") or not is_float(target):
            return
        magnitudes, finite = np.abs(value), np.zeros(target.shape, np.int64)
        super().update("add", finite, at, (~np.isfinite(magnitudes)).astype(np.int64), t)
        super().update("add", terms, at, magnitudes, t)
        lost = (np.isinf(terms) & (finite == 0)) | ((finite > 0) if self.terms else False)
        target[...] = np.where(lost, np.asarray(self.lost, target.dtype), target)

    def reduce(self, e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
        out = super().reduce(e, body, keep, axes)
        if e.kind != "sum" or not is_float(out):
            return out
        terms = np.abs(np.where(keep, body, 0))
        finite = np.isfinite(terms).all(axis=axes, keepdims=True)
        overflows = np.isinf(terms.sum(axis=axes, keepdims=True, dtype=out.dtype))
        by_terms = ~finite if self.terms else np.zeros_like(finite)
        return np.where((finite & overflows) | by_terms, np.asarray(self.lost, out.dtype), out)


def overflowing(read: Reading, terms: bool = False) -> list[Array]:
    """Finds, for each result, the elements that depend on a sum that overflows in one order of its terms and not in another. `terms`: or of
    which a term overflows. Of finite operands a product of three factors may do so in one order of them and not in another, or not at
    all where the sum is taken of two of them first."""
    none, some = ([np.asarray(a) for a in read(OverflowingSums(lost, terms))] for lost in (np.nan, 1.0))
    return [_is_nan(a) & ~_is_nan(b) for a, b in zip(none, some, strict=True)]


def _is_nan(a: Array) -> Array:
    return np.isnan(a.astype(np.float64)) if is_float(a) else np.zeros(a.shape, bool)


def _rounds(e: Apply) -> bool:
    return e.op in ROUNDED and e.dtype is not None and e.dtype.is_float


def recurs(stated: Sequence[Equation]) -> bool:
    """Whether equations read what they computed at earlier positions."""
    return any(isinstance(q.form, RecurrenceStep) for q in stated)


def is_steep(stated: Sequence[Equation]) -> bool:
    """Whether equations take a root, a logarithm or a quotient of a sum that they compute."""
    steep = [e for q in stated for e in walk(q.value) if isinstance(e, Apply) and e.op in STEEP]
    summed = {q.target for q in stated if any(map(_adds, walk(q.value)))}
    return any(_adds(e) or (isinstance(e, Read) and e.tensor in summed) for s in steep for e in walk(s))


def enlarged(
    read: Reading, beside: bool = True, reductions: bool | None = None, narrowing: bool = False
) -> list[Array]:
    """Returns, for each element of each result, twice the largest difference of a perturbed reading from the plain one; 0 for results that
    are no floats.

    `beside`, for recurrences: four times the largest difference among elements that share a position. `reductions`: whether sums of many
    terms are perturbed, too; by default those of recurrences are. `narrowing`: whether casts to fewer bits are."""
    moves = beside if reductions is None else reductions
    jolted = [JoltedSums(seed, sign, moves, narrowing) for seed in range(READINGS // 2) for sign in (-1, 1)]
    plain, *moved = [[np.asarray(a) for a in read(s)] for s in (MovedSums((0,)), *jolted)]
    apart = [np.max([_apart(m[k], p) for m in moved], axis=0) for k, p in enumerate(plain)]
    return [4 * _beside(a) if beside else 2 * a for a in apart]


def _beside(spread: Array) -> Array:
    """Returns for each element the largest value among those that share a position with it, on the axis where that is least."""
    if spread.ndim < 2 or spread.size == 0:
        return np.full(spread.shape, np.max(spread, initial=0.0))
    axes = range(spread.ndim)
    shared = [np.max(spread, axis=tuple(k for k in axes if k != axis), keepdims=True) for axis in axes]
    least: Array = np.minimum.reduce([np.broadcast_to(most, spread.shape) for most in shared])
    return least


def _apart(moved: Array, plain: Array) -> Array:
    """Returns the differences of elements; infinity where one of them is no number, or they are different infinities."""
    if not is_float(moved) or moved.shape != plain.shape:
        return np.zeros(plain.shape)
    m, p = moved.astype(np.float64), plain.astype(np.float64)
    same = (m == p) | (np.isnan(m) & np.isnan(p))
    with np.errstate(all="ignore"):
        apart = np.where(same, 0.0, np.abs(m - p))
    return np.where(np.isnan(apart), np.inf, apart)


__all__ = ["JoltedSums", "enlarged", "is_steep", "overflowing", "recurs"]
