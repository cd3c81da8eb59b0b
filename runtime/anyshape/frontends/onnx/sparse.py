"""Converts a SparseTensorProto to a dense ndarray, with zeros (or empty strings) where it has no values.

Indices are int64 as ONNX's format says (or narrower, as onnxruntime's tool writes them), within the shape, and all different; without
values they may be left out. They count elements in row-major order, or are a row of coordinates for each value. The format wants them to
ascend; another order means the same, and is accepted as by onnxruntime. Two values at one position are an error, since nothing says
which counts.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import ModelError
from anyshape.frontends.onnx.dtypes import spell
from anyshape.frontends.onnx.refusals import repairable
from anyshape.frontends.onnx.tensors import tensor_array
from anyshape.types import MOST_DIMS
from anyshape.vm.run.available import LOOKED_AT, available_memory

INDICES = (7, 6, 5, 3)
"""Element types of indices: 64, 32, 16 and 8 bits"""
LARGEST = 2**63 - 1


def sparse_array(s: Any, folder: Path | None, where: str) -> NDArray[Any]:
    """Returns all elements, as a read-only array.

    Raises ModelError for damage and for sizes that no memory holds, Refusal for unsupported element types.
    """
    dims = tuple(s.dims)
    if any(n < 0 for n in dims):
        raise ModelError(f"{where}: a sparse tensor of shape {list(dims)}; sizes cannot be negative")
    if len(dims) > MOST_DIMS:
        raise ModelError(f"{where}: a sparse tensor of {len(dims)} dims; there are at most {MOST_DIMS}")
    values = tensor_array(s.values, folder, f"{where}, its values")
    if values.ndim != 1:
        raise ModelError(f"{where}: the values of a sparse tensor must be a vector, got shape {list(values.shape)}")
    count = math.prod(dims)
    if not s.HasField("indices") and not len(values):
        positions = np.empty(0, np.int64)
    else:
        positions = _positions(s.indices, dims, count, len(values), folder, where)
    dense = _zeros(dims, count, values.dtype, where)
    dense.reshape(-1)[positions] = values
    dense.flags.writeable = False
    return dense


def _positions(t: Any, dims: tuple[int, ...], count: int, length: int, folder: Path | None, where: str) -> NDArray[Any]:
    """Returns the position of each value in row-major order."""
    if t.data_type not in INDICES:
        raise ModelError(f"{where}: the indices of a sparse tensor must be int64, got {spell(t.data_type)}")
    indices = tensor_array(t, folder, f"{where}, its indices").astype(np.int64, copy=False)
    if indices.shape not in ((length,), (length, len(dims))):
        raise ModelError(
            f"{where}: the indices of {length} values in a sparse tensor of rank {len(dims)} must have shape [{length}] or "
            f"[{length}, {len(dims)}], got {list(indices.shape)}"
        )
    sizes: Any = min(count, LARGEST) if indices.ndim == 1 else np.array(dims, np.int64)
    outside = np.argwhere((indices < 0) | (indices >= sizes))
    if len(outside):
        k = int(outside[0][0])
        raise ModelError(f"{where}: index {indices[k].tolist()} of value {k} is outside of shape {list(dims)}")
    if indices.ndim == 1:
        order = indices
    elif count <= LARGEST:
        strides = [math.prod(dims[k + 1 :]) for k in range(len(dims))]
        order = indices @ np.array(strides, np.int64) if length else np.empty(0, np.int64)
    else:  # no memory holds such a tensor; the error about its size comes later
        return np.empty(0, np.int64)
    if (twice := repeated(order)) is not None:
        raise ModelError(
            f"{where}: the indices of a sparse tensor must be distinct, but two are {indices[twice].tolist()}"
            + repairable("keeps the last value of each")
        )
    return order


def repeated(order: NDArray[np.int64]) -> int | None:
    """Returns the position of the first number that occurs again; None if all differ."""
    if len(order) < 2 or (order[1:] > order[:-1]).all():
        return None
    seen, counts = np.unique(order, return_counts=True)
    return int(np.flatnonzero(np.isin(order, seen[counts > 1]))[0]) if (counts > 1).any() else None


def _zeros(dims: tuple[int, ...], count: int, dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """Allocates zeros, none of which is written; raises ModelError for more than the available memory."""
    size = count * dtype.itemsize
    try:
        if size > LARGEST or (size > LOOKED_AT and size > available_memory()):
            raise MemoryError
        return np.zeros(dims, dtype)
    except (MemoryError, ValueError):
        raise ModelError(
            f"{where}: a sparse tensor of shape {list(dims)} has {size} bytes, which do not fit in memory"
        ) from None
