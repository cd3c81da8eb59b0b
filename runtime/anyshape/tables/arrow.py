"""Types, columns and results of pyarrow: nested lists of numbers, and tensors as their packages write them, as arrays of rows and back.

In: schemas and tables. Out: column types; for each row an array over the column's memory; columns of nested lists. A list in a list must be
a rectangle in each row. Nulls are refused with the number of their row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anyshape.errors import ColumnError, UnsupportedError
from anyshape.tables.columns import Array, ColumnType
from anyshape.tables.row_values import fitting_rows
from anyshape.tables.table_model import TableModel, TablePlan, demand_rank
from anyshape.types import TensorType
from anyshape.vm.executable.executable import Executable

MOST_ELEMENTS = (1 << 31) - 1
"""The most elements of a column of lists, whose offsets have 32 bits"""


def schema_types(names: Sequence[str], types: Sequence[Any]) -> dict[str, ColumnType | None]:
    """The types of columns; None for what is no type of pyarrow, of which only rows tell more. Raises ColumnError for a name twice."""
    if twice := next((name for name, n in Counter(names).items() if n > 1), None):
        raise ColumnError(twice, "one column of this name", "several")
    return {name: _column_type(t) if isinstance(t, pa.DataType) else None for name, t in zip(names, types)}


def _column_type(t: Any) -> ColumnType:
    if isinstance(t, pa.BaseExtensionType):
        return _tensor_type(t)
    dims: list[int | None] = []
    element = t
    while True:
        if pa.types.is_fixed_size_list(element):
            dims.append(element.list_size)
        elif pa.types.is_list(element) or pa.types.is_large_list(element):
            dims.append(None)
        else:
            return ColumnType(dtype=_dtype(element), dims=tuple(dims), text=str(t))
        element = element.value_type


def _tensor_type(t: Any) -> ColumnType:
    """The type of a column of tensors: pyarrow's own, and those of packages that call its parts as Ray does."""
    element = getattr(t, "scalar_type", None) or getattr(t, "value_type", None)
    shape, ndim = getattr(t, "shape", None), getattr(t, "ndim", None)
    if getattr(t, "permutation", None) is not None:
        shape, ndim = None, len(t.permutation)
    dims = tuple(shape) if shape is not None else (None,) * ndim if isinstance(ndim, int) else None
    dtype = _dtype(element) if isinstance(element, pa.DataType) and dims is not None else None
    return ColumnType(dtype=dtype, dims=dims or (), text=str(t))


def _dtype(t: Any) -> np.dtype[Any] | None:
    """The dtype of elements; None for what are no numbers or bools."""
    is_number = pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_boolean(t)
    return np.dtype(t.to_pandas_dtype()) if is_number else None


def column_rows(name: str, column: pa.ChunkedArray, first: int = 0) -> list[Array]:
    """The rows of a column that holds tensors. Raises ColumnError for nulls and for lists that are no rectangle."""
    rows: list[Array] = []
    for chunk in column.chunks:
        rows += _chunk_rows(name, chunk, first + len(rows))
    return rows


def _chunk_rows(name: str, chunk: Any, first: int) -> Iterator[Array]:
    if chunk.null_count:
        raise ColumnError(name, "no nulls", f"null in row {first + _first_null(chunk)}")
    if isinstance(chunk, pa.ExtensionArray):
        to_numpy = getattr(chunk, "to_numpy_ndarray", None) or (lambda: chunk.to_numpy(zero_copy_only=False))
        return map(np.asarray, to_numpy())
    levels: list[Array] = []
    lists = chunk
    while pa.types.is_nested(lists.type):
        levels.append(_offsets(lists))
        lists = lists.flatten()
        if lists.null_count:
            raise ColumnError(name, "no nulls", f"null in row {first + _row_of(_first_null(lists), levels)}")
    return _cut(name, lists.to_numpy(zero_copy_only=False), levels, len(chunk), first)


def _offsets(lists: Any) -> Array:
    """The offsets at which each list of an array begins and ends among the values of all of them."""
    if pa.types.is_fixed_size_list(lists.type):
        return np.arange(len(lists) + 1, dtype=np.int64) * int(lists.type.list_size)
    offsets = lists.offsets.to_numpy()
    return np.asarray(offsets - offsets[0] if len(offsets) else np.zeros(1, np.int64))


def _first_null(array: Any) -> int:
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def _row_of(position: int, levels: Sequence[Array]) -> int:
    """The row of an element at a position below these levels of lists."""
    for offsets in reversed(levels):
        position = int(np.searchsorted(offsets, position, side="right")) - 1
    return position


def _cut(name: str, elements: Array, levels: Sequence[Array], count: int, first: int) -> Iterator[Array]:
    """The array of each row: its elements, in the shape that the lengths of its lists say."""
    for k in range(count):
        start, end, shape = k, k + 1, list[int]()
        for offsets in levels:
            lengths = np.diff(offsets[start : end + 1])
            if lengths.size and (lengths != lengths[0]).any():
                raise ColumnError(
                    name, "lists of equal lengths in a row", f"lengths {_some(lengths)} in row {first + k}"
                )
            shape.append(int(lengths[0]) if lengths.size else 0)
            start, end = int(offsets[start]), int(offsets[end])
        yield elements[start:end].reshape(shape)


def _some(lengths: Array) -> str:
    return ", ".join(map(str, lengths[:8])) + (", …" if len(lengths) > 8 else "")


def result_type(name: str, t: TensorType) -> pa.DataType:
    """The type of the column of an output: nested lists. Raises UnsupportedError for elements that pyarrow has no type for."""
    try:
        element = pa.from_numpy_dtype(t.dtype.numpy)
    except (pa.ArrowException, TypeError, ValueError):
        raise UnsupportedError(
            f"output {name} is {t}, and pyarrow has no type for its elements; leave it out by outputs"
        ) from None
    for _ in range(demand_rank(name, t)):
        element = pa.list_(element)
    return element


def result_column(name: str, t: TensorType, rows: Sequence[Array]) -> pa.Array:
    """A column of nested lists, of arrays of one rank."""
    kind, rank = result_type(name, t), demand_rank(name, t)
    count = sum(a.size for a in rows)
    if count > MOST_ELEMENTS:
        raise UnsupportedError(f"output {name}: {count} elements in one piece of a table; run fewer rows at a time")
    flat = np.concatenate([a.reshape(-1) for a in rows]) if rows else np.zeros(0, t.dtype.numpy)
    column = pa.array(flat)
    for level in reversed(range(rank)):
        shapes = [(int(np.prod(a.shape[:level], dtype=np.int64)), a.shape[level]) for a in rows]
        lengths = np.repeat([n for _, n in shapes], [k for k, _ in shapes]) if shapes else np.zeros(0, np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        column = pa.ListArray.from_arrays(pa.array(offsets), column)
    return column.cast(kind)


class ArrowTables:
    """A model that adds the columns of its results to tables of pyarrow. Raises UnsupportedError for results that these cannot hold."""

    def __init__(self, executable: Executable, plan: TablePlan) -> None:
        self._model = TableModel(executable, plan)
        types = self._model.types.outputs
        self.fields = [pa.field(column, result_type(name, types[name])) for name, column in plan.outputs.items()]

    def schema(self, of_table: pa.Schema) -> pa.Schema:
        """The schema of a table with results."""
        return pa.schema([*of_table, *self.fields], metadata=of_table.metadata)

    def with_results(self, table: pa.Table, first: int = 0, where: str = "table") -> pa.Table:
        """A table with the columns of the results; `first` is the number of its first row."""

        def values(column: str, expected: TensorType) -> list[Array]:
            rows = column_rows(column, table.column(column), first)
            return fitting_rows(column, rows, expected, self._model.plan.convert, first)

        results = self._model.results(values, first, where)
        for field, (name, (t, rows)) in zip(self.fields, results.items(), strict=True):
            table = table.append_column(field, result_column(name, t, rows))
        return table
