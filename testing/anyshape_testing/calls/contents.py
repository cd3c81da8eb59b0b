"""Makes contents of random tensors: plain numbers, ties and equal rows, zeros of both signs, NaN and infinities, the ends of dtypes, sorted
rows, one value everywhere; indices within their ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, DType, highest, lowest
from anyshape.graph.value import SIZES, SMALL
from anyshape_testing.process.profile import LONG

Array = NDArray[Any]
Bounds = tuple[int, int]
Ends = tuple[int | None, int | None]
TIES, CONSTANT, SORTED, RISING = "ties", "constant", "sorted", "rising"
UNIT, ABOVE = "unit", "above"
"""Styles of numbers between 0 and 1, and between 1 and 3, for functions that are finite only there"""
STYLES = ("plain", "plain", "plain", "small", TIES, "special", "special", "extreme", "extreme", SORTED, CONSTANT)
LARGE = {"near 1000": (1000.0, 0.1), "near 20": (20.0, 0.1)}
"""Means of positive numbers and their largest relative deviation: many of them sum to more than a narrow float holds"""
LEVEL = "level"
"""The style of ones"""
FEW = (-1.0, -0.0, 0.0, 1.0, 2.0)
"""Numbers of ties: zeros of both signs are equal, and an op may distinguish them"""


def contents(
    shape: tuple[int, ...],
    dtype: DType,
    seed: int,
    style: str,
    bounds: Bounds | None = None,
    ends: Ends = (None, None),
    most: float = math.inf,
) -> Array:
    """Makes an array of a style. `bounds`: of an index, or of a float, which is at most the last integer of the range; `ends`: the first
    and the last element, which bound the others; `most`: the largest number of the style "extreme"."""
    rng = np.random.default_rng(seed)
    if dtype is CHAR:
        return _strings(rng, shape)
    if dtype.is_bool:
        array = np.asarray(rng.integers(0, 2, shape)).astype(bool)
    elif style == RISING:
        low, high = bounds or (0, 4)
        array = np.asarray(rng.integers(low, max(high, low + 1), shape)).astype(dtype.numpy)
    elif bounds is not None:
        array = _within(rng, shape, dtype, style, *bounds)
    else:
        array = (
            _of_integers(rng, shape, dtype, style) if dtype.is_integer else _of_floats(rng, shape, dtype, style, most)
        )
    return _ended(_arranged(rng, array, style), ends)


def _within(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, style: str, low: int, high: int) -> Array:
    """Draws numbers from low on and below high, floats up to the last integer; only the ends for the styles of special numbers."""
    if dtype.is_float:
        return np.asarray(rng.uniform(low, max(high - 1, low), shape)).astype(dtype.numpy)
    last = max(high, low + 1)
    if style in ("special", "extreme"):
        return np.asarray(rng.choice([low, last - 1], shape)).astype(dtype.numpy)
    return np.asarray(rng.integers(low, last, shape)).astype(dtype.numpy)


def _of_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, style: str) -> Array:
    low, high = (-1, 3) if style == TIES else (-9, 10)
    array = np.asarray(rng.integers(low, high, shape)).astype(dtype.numpy)
    return _strewn(rng, array, np.array(_extremes(dtype, shape), dtype.numpy), 8) if style == "extreme" else array


def _of_floats(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, style: str, most: float) -> Array:
    if style in (UNIT, ABOVE):
        low, high = (0, 1) if style == UNIT else (1, 3)
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype.numpy)
    if style == TIES:
        return np.asarray(rng.choice(FEW, shape)).astype(dtype.numpy)
    array = np.ones(shape) if style == LEVEL else np.asarray(rng.normal(size=shape) * 2)
    if style in LARGE:
        mean, spread = LARGE[style]
        array = mean * (1 + rng.uniform(-spread, spread, shape))
    if style == "small":
        array = np.round(array)
    if style == "extreme":
        array = array * np.exp(rng.uniform(-40, 40, shape))
    with np.errstate(over="ignore"):
        array = np.asarray(array).astype(dtype.numpy)
    if style == "special":
        return _strewn(rng, array, np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(dtype.numpy), 6)
    if style == "extreme":
        info = finfo(dtype.numpy)
        most = min(most, float(info.max))
        return _strewn(rng, array, np.array([most, -most, info.tiny, -info.tiny]).astype(dtype.numpy), 12)
    return array


def _strewn(rng: np.random.Generator, array: Array, values: Array, one_in: int) -> Array:
    """Replaces about one element in `one_in`, and at least one, by one of the values."""
    if array.size:
        at = rng.integers(0, array.size, 1 + array.size // one_in)
        array.reshape(-1)[at] = rng.choice(values, at.size)
    return array


def _arranged(rng: np.random.Generator, array: Array, style: str) -> Array:
    """Sorts rows, makes some of them equal, or fills the array with one value, as the style says."""
    arrange: Mapping[str, Callable[[Array], Array]] = {
        SORTED: lambda a: np.sort(a)[..., ::-1] if rng.integers(0, 2) else np.sort(a),
        RISING: np.sort,
        TIES: lambda a: a[rng.integers(0, max(1, len(a) // 2), len(a))] if len(a) and rng.integers(0, 2) else a,
        CONSTANT: lambda a: np.full_like(a, a.flat[0]) if a.size else a,
    }
    return arrange[style](array) if style in arrange and array.ndim else array


def _ended(array: Array, ends: Ends) -> Array:
    first, last = ends
    if ends == (None, None) or not array.size:
        return array
    array = np.clip(array, first, last)
    for at, value in ((0, first), (-1, last)):
        if value is not None:
            array.reshape(-1)[at] = value
    return array


LETTERS = "aabbcAB,, \t1éÉßÿµŻżſΣσςЖжѐ😀\0"
"""Letters of random strings: separators, letters with and without case, and a zero within the string"""


def _strings(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draws characters of strings of all lengths up to the last dim."""
    chars = rng.choice(np.array(list(LETTERS)), shape)
    ends = rng.integers(0, shape[-1] + 1, (*shape[:-1], 1)) if shape else np.array(1)
    return np.where(np.arange(shape[-1] if shape else 1).reshape(-1 if shape else ()) < ends, chars, "\0").astype(
        dtype=CHAR.numpy
    )


def _extremes(dtype: DType, shape: tuple[int, ...]) -> list[int]:
    """Lists integers at the ends of the dtype. Small tensors of SIZES may be carried as symbolic sizes, which are checked for overflow and
    never wrap: theirs are small enough that the product of two fits."""
    if not LONG or (dtype in SIZES and len(shape) <= 1 and math.prod(shape) <= SMALL):
        most = 2 ** (dtype.bits // 2 - 2)
        return [-most if dtype.kind == "int" else 2**dtype.bits - most, most]
    return [int(lowest(dtype)), int(lowest(dtype)) + 1, int(highest(dtype)) - 1, int(highest(dtype))]
