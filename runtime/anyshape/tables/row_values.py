"""The elements of columns as arrays of an input's dtype and rank, one for each row.

In: columns of Python and NumPy, or arrays of rows that a column of pyarrow was split into. Out: dense arrays that fit the type of a row as
far as it has numbers. Raises ColumnError, with the number of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anyshape.errors import ColumnError
from anyshape.public import short
from anyshape.tables.columns import Array
from anyshape.tables.schema import fits_dtype
from anyshape.types import TensorType


def sequence_rows(name: str, column: Sequence[Any], expected: TensorType, convert: bool) -> list[Array]:
    """The values of a column of Python or NumPy."""
    return fitting_rows(name, [_value(name, k, v, expected) for k, v in enumerate(column)], expected, convert)


def _value(name: str, row: int, value: Any, expected: TensorType) -> Array:
    """One value as an array: numbers of Python become elements of the expected dtype, where they are of its kind."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        a = np.asarray(value)
        if a.dtype == expected.dtype.numpy or a.dtype.kind not in "biuf":
            return a
        if a.size == 0 or np.can_cast(a.dtype, expected.dtype.numpy, "same_kind"):
            return _converted(name, row, a, expected)
    except (TypeError, ValueError, OverflowError) as e:
        raise ColumnError(name, str(expected), f"{short(value)} in row {row} ({e})") from None
    return a


def fitting_rows(name: str, rows: Sequence[Array], expected: TensorType, convert: bool, first: int = 0) -> list[Array]:
    """The rows as dense arrays of the expected dtype. `first`: the number of the first one."""
    return [_fitting(name, first + k, a, expected, convert) for k, a in enumerate(rows)]


def _fitting(name: str, row: int, a: Array, expected: TensorType, convert: bool) -> Array:
    dtype, shape = expected.dtype.numpy, expected.shape
    if a.dtype != dtype:
        if not fits_dtype(a.dtype, dtype, convert):
            raise ColumnError(name, str(expected), f"{a.dtype} in row {row}")
        a = _converted(name, row, a, expected)
    if shape is not None and (
        a.ndim != len(shape) or any(isinstance(n, int) and n != m for n, m in zip(shape, a.shape))
    ):
        raise ColumnError(name, str(expected), f"the shape {list(a.shape)} in row {row}")
    return np.ascontiguousarray(a).reshape(a.shape)


def _converted(name: str, row: int, a: Array, expected: TensorType) -> Array:
    """Elements in another dtype of their kind. Raises ColumnError for numbers that it has no room for."""
    with np.errstate(all="ignore"):
        converted = a.astype(expected.dtype.numpy)
        lost = converted != a if expected.dtype.is_integer else np.isinf(converted) & ~np.isinf(a)
    if np.any(lost):
        raise ColumnError(
            name, str(expected), f"{a[lost].flat[0].item()} in row {row}, which {expected.dtype} has no room for"
        )
    return converted
