"""Tensors of a request: arrays from elements of JSON or from raw bytes, and elements of arrays for JSON.

In: what a body says. Out: arrays of the datatype and shape that it says. Raises RefusedRequest. Nothing is allocated by a shape alone: the
data must have as many elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from anyshape.dtypes import DType
from anyshape.public import short
from anyshape.serving.datatypes import DATATYPES, DTYPES
from anyshape.serving.refusal import RefusedRequest
from anyshape.serving.request import Array

MOST_DIM = (1 << 63) - 1


def dtype_of(where: str, name: Any) -> DType:
    """The dtype of a name in the protocol."""
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise RefusedRequest(f"{where}: datatype must be one of {', '.join(DTYPES)}, got {short(name)}")
    return dtype


def shape_of(where: str, shape: Any) -> tuple[int, ...]:
    """The shape that a body says."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes) or len(shape) > 64:
        raise RefusedRequest(f"{where}: shape must be a list of at most 64 sizes, got {short(shape)}")
    for n in shape:
        if type(n) is not int or not 0 <= n <= MOST_DIM:
            raise RefusedRequest(f"{where}: a size must be a whole number from 0, got {short(n)}")
    return tuple(shape)


def from_bytes(where: str, raw: bytes | memoryview, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array whose elements are these bytes, in row-major order and little-endian."""
    expected = math.prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise RefusedRequest(f"{where}: {DATATYPES[dtype]} of shape {list(shape)} has {expected} bytes, got {len(raw)}")
    if dtype.is_bool and raw and max(raw) > 1:
        raise RefusedRequest(f"{where}: a byte of BOOL must be 0 or 1")
    a = np.frombuffer(raw, dtype.numpy).reshape(shape)
    return a if a.flags.aligned else a.copy()


def from_elements(where: str, data: Any, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array of a list of elements, nested as the shape is, or flat."""
    flat = _flattened(where, data, len(shape))
    if len(flat) != math.prod(shape):
        raise RefusedRequest(f"{where}: shape {list(shape)} has {math.prod(shape)} elements, but data has {len(flat)}")
    allowed = {bool} if dtype.is_bool else {int} if dtype.is_integer else {int, float}
    wrong = set(map(type, flat)) - allowed
    if wrong:
        got = ", ".join(sorted(t.__name__ for t in wrong))
        raise RefusedRequest(f"{where}: elements of {DATATYPES[dtype]} cannot be {got}")
    try:
        return _numbers(flat, dtype).reshape(shape)
    except (OverflowError, ValueError):
        raise RefusedRequest(f"{where}: an element is out of range of {DATATYPES[dtype]}") from None


def _numbers(flat: list[Any], dtype: DType) -> Array:
    if not dtype.is_integer:
        with np.errstate(over="ignore"):
            return np.array(flat, np.float64).astype(dtype.numpy) if dtype.is_float else np.array(flat, dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    if flat and not limits.min <= min(flat) <= max(flat) <= limits.max:
        raise OverflowError
    return np.array(flat, dtype.numpy)


def _flattened(where: str, data: Any, rank: int) -> list[Any]:
    """The elements of nested lists."""
    if not isinstance(data, list):
        raise RefusedRequest(f"{where}: data must be a list, got {short(data)}")
    rows: list[Any] = data
    for _ in range(rank):
        kinds = set(map(type, rows))
        if list not in kinds:
            break
        if kinds != {list}:
            raise RefusedRequest(f"{where}: data has lists beside numbers")
        if len({len(row) for row in rows}) > 1:
            raise RefusedRequest(f"{where}: lists of data that are beside each other must be of one length")
        rows = list(chain.from_iterable(rows))
    return rows


def elements(a: Array) -> list[Any]:
    """The elements in row-major order, as JSON has them: numbers that JSON cannot spell are NaN, Infinity and -Infinity."""
    flat = a.reshape(-1)
    listed: list[Any] = (flat if a.dtype.kind in "biuf" else flat.astype(np.float32)).tolist()
    return listed


def to_bytes(a: Array) -> bytes:
    """The elements in row-major order, little-endian."""
    return a.tobytes()
