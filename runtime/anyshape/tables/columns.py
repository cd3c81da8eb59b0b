"""Columns of a table: what is known of one before its rows are read, and those of Python and NumPy.

In: a sequence of rows' values. Out: its `ColumnType`, or None where it has no rows to know it by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError, ArgumentError, ColumnError
from anyshape.public import short

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ColumnType:
    """What each row of a column is: the dtype of its elements, None for what is no tensor of numbers; a size for each dim, None for one
    that differs. `is_literal`: numbers of Python, which have no dtype of their own. `text` spells it in messages."""

    dtype: np.dtype[Any] | None
    dims: tuple[int | None, ...]
    text: str
    is_literal: bool = False


def sequence_types(table: Mapping[str, Any]) -> dict[str, ColumnType | None]:
    """The types of columns of Python and NumPy; of a sequence of unlike values that of the first. Raises ArgumentError for columns that
    are not of one length."""
    for name, column in table.items():
        if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__") or _is_scalar(column):
            raise ArgumentError(
                f"column {name} must be an array or a sequence with a value for each row, got {short(column)}"
            )
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise ArgumentError(f"the columns of a table must have as many rows each, got {listed}")
    return {name: _sequence_type(name, column) for name, column in table.items()}


def _is_scalar(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.ndim == 0


def _sequence_type(name: str, column: Any) -> ColumnType | None:
    if isinstance(column, np.ndarray) and column.dtype != object:
        return array_type(column.dtype, column.shape[1:])
    if not len(column):
        return None
    try:
        first = column[0]
        value = np.asarray(first)
    except (ValueError, TypeError, KeyError, IndexError, AnyshapeError) as e:
        raise ColumnError(name, "arrays or lists of numbers", f"{short(column)} ({e})") from None
    literal = not isinstance(first, np.ndarray | np.generic)
    return array_type(value.dtype, (None,) * value.ndim, literal)


def array_type(dtype: np.dtype[Any], dims: Sequence[int | None], is_literal: bool = False) -> ColumnType:
    """The type of a column whose rows are arrays."""
    text = f"{dtype}[{', '.join('?' if n is None else str(n) for n in dims)}]"
    is_tensor = dtype.kind not in "OSUMmc" and not (dtype.kind == "V" and dtype.names is not None)
    return ColumnType(dtype=dtype if is_tensor else None, dims=tuple(dims), text=text, is_literal=is_literal)
