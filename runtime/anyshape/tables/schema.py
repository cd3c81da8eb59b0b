"""Columns against inputs, before the first call: names, dtypes, ranks and sizes.

In: the types of rows and of columns. Out: nothing, or the ColumnError of the first column that does not fit. What a schema leaves open (the
lengths of lists) is looked at row by row in `row_values`, and by the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from anyshape.dims import Dim
from anyshape.errors import ArgumentError, ColumnError
from anyshape.tables.columns import ColumnType
from anyshape.types import TensorType


def named_columns(inputs: Iterable[str], columns: Mapping[str, str] | None, available: Iterable[str]) -> dict[str, str]:
    """The column of every input: the one that `columns` names, else the one of its name. Raises ArgumentError for a name that is no input,
    and ColumnError for a column that is not there."""
    inputs, available, columns = list(inputs), list(available), columns or {}
    if unknown := sorted(set(columns) - set(inputs)):
        raise ArgumentError(f"columns: the model has no input {', '.join(unknown)}; its inputs are {', '.join(inputs)}")
    chosen = {name: columns.get(name, name) for name in inputs}
    for name, column in chosen.items():
        if column not in available:
            raise ColumnError(column, f"a column for the input {name}", f"the columns {', '.join(available) or 'none'}")
    return chosen


def named_outputs(outputs: Iterable[str], names: Mapping[str, str] | None, available: Iterable[str]) -> dict[str, str]:
    """The column that each output becomes: all under their own names, or those that `names` has. Raises ArgumentError for a name that is
    no output or twice there, and ColumnError for a column that is there already."""
    outputs, available = list(outputs), set(available)
    chosen = {name: name for name in outputs} if names is None else dict(names)
    if unknown := sorted(set(chosen) - set(outputs)):
        raise ArgumentError(
            f"outputs: the model has no output {', '.join(unknown)}; its outputs are {', '.join(outputs)}"
        )
    if not chosen:
        raise ArgumentError(f"outputs: none is named; the model's outputs are {', '.join(outputs)}")
    for name, column in chosen.items():
        if column in available:
            raise ColumnError(
                column, f"no such column, for the output {name}", "one in the table; name another one by outputs"
            )
    if len(set(chosen.values())) < len(chosen):
        raise ArgumentError(f"outputs: two of them are to be one column: {chosen}")
    return chosen


def check_columns(
    inputs: Mapping[str, TensorType],
    columns: Mapping[str, str],
    types: Mapping[str, ColumnType | None],
    convert: bool = False,
) -> None:
    """Raises ColumnError for a column whose rows cannot fit its input. `convert`: other dtypes of the same kind are converted."""
    sizes: dict[Dim, tuple[str, int]] = {}
    for name, expected in inputs.items():
        column = columns[name]
        t = types[column]
        if t is None:
            continue
        text = f"{expected} in each row, for the input {name}"
        if t.dtype is None or not fits_dtype(t.dtype, expected.dtype.numpy, convert or t.is_literal):
            raise ColumnError(column, text, t.text)
        if expected.shape is None:
            continue
        if len(t.dims) != len(expected.shape):
            raise ColumnError(column, text, f"{t.text}, of rank {len(t.dims)}")
        for size, n in zip(expected.shape, t.dims):
            if n is None:
                continue
            if isinstance(size, int):
                if size != n:
                    raise ColumnError(column, text, t.text)
            elif size.is_symbol and sizes.setdefault(size, (column, n))[1] != n:
                before, m = sizes[size]
                raise ColumnError(column, f"{text}, where {size} is {m} by column {before}", t.text)


def fits_dtype(dtype: np.dtype[Any], expected: np.dtype[Any], convert: bool) -> bool:
    """Whether elements of a dtype are, or may become, those of another one."""
    return dtype == expected or (convert and np.can_cast(dtype, expected, "same_kind"))
