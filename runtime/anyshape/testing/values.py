"""Contents of random tensors: plain, special (NaN, infinities, signed zeros), extreme, in order; indices within their ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, DType, highest, lowest
from anyshape.graph.value import SIZES, SMALL
from anyshape.testing.profile import WIDE

Array = NDArray[Any]
STYLES = ("plain", "plain", "small", "special", "extreme")
LARGE = {"near 1000": (1000.0, 0.1), "near 20": (20.0, 0.1)}
"""Positive numbers around these means, and how far at most: many of them sum to more than a narrow float holds."""
LEVEL = "level"
"""All 1."""
RISING = "rising"
"""Small numbers, each row in order: what asserts on values mostly want, of offsets, of bins, of lengths."""


def contents(
    shape: tuple[int, ...], dtype: DType, seed: int, style: str, bounds: tuple[int, int] | None = None
) -> Array:
    """An array of that style; `bounds` are those of an index, or of a float, which may be anything up to the last integer."""
    rng = np.random.default_rng(seed)
    if dtype is CHAR:
        return _strings(rng, shape)
    if dtype.is_bool:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if style == RISING:
        low, high = bounds or (0, 4)
        return np.sort(np.atleast_1d(rng.integers(low, max(high, low + 1), shape))).reshape(shape).astype(dtype.numpy)
    if bounds is not None and dtype.is_float:
        return np.asarray(rng.uniform(bounds[0], max(bounds[1] - 1, bounds[0]), shape)).astype(dtype.numpy)
    if bounds is not None:
        return np.asarray(rng.integers(bounds[0], max(bounds[1], bounds[0] + 1), shape)).astype(dtype.numpy)
    if dtype.is_integer:
        a = np.asarray(rng.integers(-9, 10, shape)).astype(dtype.numpy)
        if style == "extreme" and a.size:
            at = rng.integers(0, a.size, 1 + a.size // 8)
            a.reshape(-1)[at] = rng.choice(np.array(_extremes(dtype, shape), dtype.numpy), at.size)
        return a
    a = np.asarray(rng.normal(size=shape) * 2)
    if style == LEVEL:
        a = np.ones(shape)
    if style in LARGE:
        mean, spread = LARGE[style]
        a = mean * (1 + rng.uniform(-spread, spread, shape))
    if style == "small":
        a = np.round(a)
    if style == "extreme":
        a = a * np.exp(rng.uniform(-40, 40, shape))
    with np.errstate(over="ignore"):
        a = np.asarray(a).astype(dtype.numpy)
    if style == "special" and a.size:
        at = rng.integers(0, a.size, 1 + a.size // 6)
        a.reshape(-1)[at] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], at.size)
    return a


LETTERS = "aabbcAB,, \t1éÉßÿµŻżſΣσςЖжѐ😀\0"
"""Of random strings: some that separate, some of two cases, some of one, and a zero within."""


def _strings(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Characters of strings of all lengths that there is room for."""
    chars = rng.choice(np.array(list(LETTERS)), shape)
    ends = rng.integers(0, shape[-1] + 1, (*shape[:-1], 1)) if shape else np.array(1)
    return np.where(np.arange(shape[-1] if shape else 1).reshape(-1 if shape else ()) < ends, chars, "\0").astype(
        dtype=CHAR.numpy
    )


def _extremes(dtype: DType, shape: tuple[int, ...]) -> list[int]:
    """Integers at the ends of the dtype. Small tensors of SIZES are carried as sizes, which are checked and never wrap: of those the
    product of two still fits."""
    if not WIDE or (dtype in SIZES and len(shape) <= 1 and math.prod(shape) <= SMALL):
        most = 2 ** (dtype.bits // 2 - 2)
        return [-most if dtype.kind == "int" else 2**dtype.bits - most, most]
    return [int(lowest(dtype)), int(lowest(dtype)) + 1, int(highest(dtype)) - 1, int(highest(dtype))]
