"""A matrix of weights as codes, scales and zero points: weight = (code - zero point) * scale, one scale for each group of a row.

In: rows of weights, and how to round. Out: codes, and how far what they stand for is from the weights. Rows are rounded some megabytes at
a time, so that a mapped weight is never in memory as a whole.

`rtn` takes the range of each group as it is and rounds to nearest. `mse` clips: of the shares CLIPPING of the range it takes the one of the
least squared error (Choukroun, Kravchik, Yang and Kisilev, Low-bit Quantization of Neural Networks for Efficient Inference, 2019,
arXiv:1902.06822, which searches the scale in this way). Symmetric groups have their zero point in the middle of the codes, and a scale
whose sign is that of the element of the largest magnitude, negated: this element has the code 0, and no code is wasted (as in llama.cpp's
Q4_0).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CLIPPING = tuple(1.0 - k / 40 for k in range(21))
"""Shares of a group's range that `mse` tries"""

METHODS = {"rtn": (1.0,), "mse": CLIPPING}
"""The shares of a range that each method tries"""

CHUNK = 1 << 21
"""About how many elements are rounded at a time"""


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How weights are rounded: to integers of so many bits, in groups of so many elements of a row."""

    bits: int
    group: int
    symmetric: bool
    method: str


@dataclass(frozen=True, kw_only=True)
class GroupedCodes:
    """Rows of codes: `packed` is u8 [rows, groups, bytes of a group], `scales` is [rows, groups], `zeros` the packed zero points of each
    row, or None for the middle code. Elements past the end of a row stand for 0. `error` is the root mean square of what was lost, as a
    share of that of the weights."""

    packed: Array
    scales: Array
    zeros: Array | None
    error: float


def packed_bytes(codes: Array, bits: int) -> Array:
    """Packs codes along the last axis, the first in the lowest bits; a last byte that is not full ends in zeros."""
    if bits == 8:
        return codes
    if codes.shape[-1] % 2:
        codes = np.concatenate([codes, np.zeros((*codes.shape[:-1], 1), np.uint8)], -1)
    packed: Array = codes[..., 0::2] | codes[..., 1::2] << 4
    return packed


def chunks(rows: Array) -> Iterator[tuple[int, int]]:
    """Lists ranges of rows of about CHUNK elements."""
    step = max(1, CHUNK // max(1, rows.shape[1]))
    return ((k, min(k + step, len(rows))) for k in range(0, len(rows), step))


def rounded(rows: Array, how: Rounding, factor: float = 1.0) -> GroupedCodes:
    """Rounds a matrix, times a factor. The scales have the dtype of the matrix. Its elements have to be finite."""
    count, size = rows.shape
    groups = max(1, math.ceil(size / how.group))
    packed = np.empty((count, groups, how.group * how.bits // 8), np.uint8)
    scales = np.empty((count, groups), rows.dtype)
    zeros = None if how.symmetric else np.empty((count, groups), np.uint8)
    lost = total = 0.0
    for start, stop in chunks(rows):
        part = np.zeros((stop - start, groups * how.group), np.float32)
        part[:, :size] = _scaled(rows[start:stop], factor)
        best = _best_of(part.reshape(stop - start, groups, how.group), how, rows.dtype)
        packed[start:stop], scales[start:stop] = packed_bytes(best.codes, how.bits), best.scales
        if zeros is not None:
            zeros[start:stop] = best.zeros
        lost += float(best.errors.sum())
        total += float(np.square(part, dtype=np.float64).sum())
    points = None if zeros is None else packed_bytes(zeros, how.bits)
    return GroupedCodes(packed=packed, scales=scales, zeros=points, error=_share(lost, total))


def _share(lost: float, total: float) -> float:
    """The root of a sum of squares as a share of another's."""
    return math.sqrt(lost / total) if total else 0.0


@dataclass(frozen=True, kw_only=True)
class ChannelFloats:
    """Rows of narrow floats with one scale for each row; `error` as of `GroupedCodes`."""

    values: Array
    scales: Array
    error: float


def rounded_to_floats(rows: Array, dtype: np.dtype[Any]) -> ChannelFloats:
    """Rounds each row to narrow floats of which the largest stands for the element of the largest magnitude."""
    known = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    largest = known[np.isfinite(known)].max()
    values, scales = np.empty(rows.shape, dtype), np.empty(len(rows), rows.dtype)
    lost = total = 0.0
    for start, stop in chunks(rows):
        part = rows[start:stop].astype(np.float32)
        stored = (np.abs(part).max(-1, initial=0).astype(np.float64) / largest).astype(rows.dtype)
        stored[stored == 0] = 1
        wide = stored.astype(np.float32)[:, None]
        values[start:stop] = np.clip(part / wide, -largest, largest).astype(dtype)
        scales[start:stop] = stored
        lost += float(np.square(values[start:stop].astype(np.float32) * wide - part, dtype=np.float64).sum())
        total += float(np.square(part, dtype=np.float64).sum())
    return ChannelFloats(values=values, scales=scales, error=_share(lost, total))


def _scaled(rows: Array, factor: float) -> Array:
    values = rows.astype(np.float32)
    return values if factor == 1.0 else values * np.float32(factor)


@dataclass(kw_only=True)
class _RoundedGroups:
    """Codes of some groups; `errors` is the squared error of each group."""

    codes: Array
    scales: Array
    zeros: Array
    errors: Array


def _best_of(part: Array, how: Rounding, dtype: np.dtype[Any]) -> _RoundedGroups:
    """Rounds groups by the clipping of the least squared error of each."""
    low = np.minimum(part.min(-1), 0).astype(np.float64)
    high = np.maximum(part.max(-1), 0).astype(np.float64)
    limits = _symmetric if how.symmetric else _asymmetric
    best: _RoundedGroups | None = None
    for share in METHODS[how.method]:
        candidate = _coded(part, *limits(low * share, high * share, how.bits), how.bits, dtype)
        if best is None:
            best = candidate
            continue
        better = candidate.errors < best.errors
        for name in ("codes", "scales", "zeros", "errors"):
            getattr(best, name)[better] = getattr(candidate, name)[better]
    assert best is not None
    return best


def _asymmetric(low: Array, high: Array, bits: int) -> tuple[Array, Array]:
    """The scale by which a range, with 0 in it, has all codes, and the code of 0."""
    most = (1 << bits) - 1
    scale = (high - low) / most
    with np.errstate(invalid="ignore", divide="ignore"):
        zero = np.where(scale > 0, np.rint(-low / scale), 0)
    return scale, np.clip(zero, 0, most)


def _symmetric(low: Array, high: Array, bits: int) -> tuple[Array, Array]:
    """The scale by which the element of the largest magnitude has the code 0, with the middle code for 0."""
    middle = 1 << bits - 1
    return np.where(-low > high, low, high) / -middle, np.full(low.shape, float(middle))


def _coded(part: Array, scale: Array, zero: Array, bits: int, dtype: np.dtype[Any]) -> _RoundedGroups:
    """Rounds groups by a scale, which is first rounded to the dtype that it is stored in, and so small that no code stands for infinity. A
    scale of 0 is that of zeros alone."""
    most, limits = (1 << bits) - 1, np.finfo(dtype)
    limit = float(limits.max) * (1 - 2 * float(limits.eps)) / np.maximum(zero, most - zero)
    stored = np.clip(scale, -limit, limit).astype(dtype)
    stored[stored == 0] = 1
    wide = stored.astype(np.float32)[:, :, None]
    middle = zero.astype(np.float32)[:, :, None]
    codes = np.clip(np.rint(part / wide) + middle, 0, most)
    errors = np.square((codes - middle) * wide - part, dtype=np.float64).sum(-1)
    return _RoundedGroups(codes=codes.astype(np.uint8), scales=stored, zeros=zero.astype(np.uint8), errors=errors)
