"""Perturbs arithmetic within rounding and reordering, to measure by how much results of different executors may differ.

Each float that an operation rounds is perturbed at random (as in the Monte Carlo arithmetic of D. S. Parker, 1997); exact results are
kept, so that indices computed in floats change only where rounding decides them. A sum or product whose partial results may overflow or
vanish in one order and not in another becomes NaN or infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.equations.expr import Apply, Reduce
from anyshape.equations.interpret import Arithmetic
from anyshape.equations.numeric import apply_numeric

Array = NDArray[Any]
WIDE: Any = np.longdouble
APPROXIMATED = frozenset(("exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "pow"))
"""Functions that kernels approximate, so that no result is exact"""


class Rounding(Arithmetic):
    """`part`: the largest relative perturbation of a rounded float; a negative one perturbs downwards. Equal seeds give equal ones."""

    def __init__(self, part: float, seed: int) -> None:
        self.part, self.random = part, np.random.default_rng(seed)

    def apply(self, e: Apply, args: list[Array]) -> Array:
        out = super().apply(e, args)
        if out.dtype.kind != "f" or not out.size:
            return out
        return self.changed(out, np.abs(out), rounded(e, args, out))

    def reduce(self, e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
        """Perturbs a sum relative to its terms' magnitudes, since they may cancel."""
        out = super().reduce(e, body, keep, axes)
        if e.kind not in ("sum", "prod") or out.dtype.kind != "f" or not body.size:
            return out
        terms = np.where(keep, body, 0 if e.kind == "sum" else 1).astype(WIDE)
        if e.kind == "sum":
            spread = np.abs(terms).sum(axis=axes, keepdims=True)
            inexact = spread >= units(terms, axes) * 2.0 ** (np.finfo(out.dtype).nmant + 1)
            loose = order_decides_sum(terms, axes, out.dtype)
        else:
            spread, inexact = np.abs(out), out != terms.prod(axis=axes, keepdims=True)
            loose = order_decides_product(terms, axes, out.dtype)
        changed = self.changed(out, spread, inexact)
        return np.where(loose, np.asarray(np.nan if self.part > 0 else np.inf, out.dtype), changed)

    def changed(self, a: Array, spread: Array, where: Array) -> Array:
        by = self.random.uniform(0.1, 1, a.shape) * self.part
        return np.where(where & np.isfinite(a), a + (spread * by).astype(a.dtype), a)


def rounded(e: Apply, args: list[Array], out: Array) -> Array:
    """Finds the elements of `out`, the result of a float operation, that are not exact."""
    if e.op in APPROXIMATED:
        return np.ones(out.shape, bool)
    if e.op == "sqrt":
        return np.asarray(np.square(out.astype(WIDE)) != args[0])
    if e.op == "cast" or len(args) == 2:
        floats = [a.astype(WIDE) if a.dtype.kind == "f" else a for a in args]
        return np.asarray(out != (floats[0] if e.op == "cast" else apply_numeric(e, floats)))
    return np.zeros(out.shape, bool)


def units(terms: Array, axes: tuple[int, ...]) -> Array:
    """Returns the largest power of two of which all terms are multiples: their sum is exact in any order if it is small enough."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(terms), terms, 0).astype(np.float64))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    unit = np.where(whole == 0, np.inf, np.ldexp((whole & -whole).astype(np.float64), exponent - 53))
    return np.asarray(unit.min(axis=axes, keepdims=True))


def order_decides_sum(terms: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Whether some partial sum is infinite and another order of the same terms has none."""
    ups, downs = (
        np.where(np.isfinite(terms) & (s * terms > 0), terms, 0).sum(axis=axes, keepdims=True) for s in (1, -1)
    )
    largest = WIDE(np.finfo(dtype).max)
    return np.asarray(((ups > largest) | (-downs > largest)) & (ups != 0) & (downs != 0))


def order_decides_product(terms: Array, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Whether some partial product is infinite or vanishes, and another order of the same factors has none."""
    counted = np.isfinite(terms) & (terms != 0)
    size = np.log2(np.abs(np.where(counted, terms, 1)))
    up, down = (np.where(s * size > 0, size, 0).sum(axis=axes, keepdims=True) for s in (1, -1))
    zero = (terms == 0).any(axis=axes, keepdims=True)
    info = np.finfo(dtype)
    overflows, vanishes = up >= info.maxexp - 1, down <= info.minexp
    return np.asarray((overflows & ((down < 0) | zero)) | (vanishes & (up > 0) & ~zero))


__all__ = ["Rounding", "order_decides_product", "order_decides_sum"]
