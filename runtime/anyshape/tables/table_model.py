"""A model with its plan for tables: which column is which input, which axes have the rows, what outputs are called.

In: an executable and the types of columns. Out: a `TablePlan`, once the columns are checked, which a process can send to others; and with
it tables with results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anyshape.batching import BatchDim
from anyshape.errors import UnsupportedError
from anyshape.tables.columns import Array, ColumnType, sequence_types
from anyshape.tables.row_calls import RowCalls
from anyshape.tables.row_types import RowTypes, demand_tensors, row_layout, row_types
from anyshape.tables.row_values import sequence_rows
from anyshape.tables.schema import check_columns, named_columns, named_outputs
from anyshape.types import TensorType
from anyshape.vm.executable.executable import Executable

MAX_BATCH = 32
"""The most rows of one call, where the caller names no other number"""


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """How a model runs on the rows of a table: the axes that have the rows, the column of each input, that of each output that is kept,
    the most rows of a call, and whether other dtypes of the same kind are converted."""

    layout: BatchDim
    columns: Mapping[str, str]
    outputs: Mapping[str, str]
    max_batch: int = MAX_BATCH
    convert: bool = False


def plan_table(
    executable: Executable,
    types: Mapping[str, ColumnType | None],
    columns: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    *,
    batch_dim: str | None = None,
    max_batch: int = MAX_BATCH,
    convert: bool = False,
) -> TablePlan:
    """Checks the columns of a table against a model's inputs. Raises ColumnError, ArgumentError, and UnsupportedError for a model whose
    inputs or outputs no table has."""
    demand_tensors(executable)
    chosen = named_columns(executable.input_names, columns, types)
    ranks = {name: None if (t := types[column]) is None else len(t.dims) for name, column in chosen.items()}
    layout = row_layout(executable, ranks, batch_dim)
    check_columns(row_types(executable, layout).inputs, chosen, types, convert)
    results = named_outputs(executable.output_names, outputs, types)
    return TablePlan(layout=layout, columns=chosen, outputs=results, max_batch=max_batch, convert=convert)


class TableModel:
    """An executable that runs on the rows of tables by a plan."""

    def __init__(self, executable: Executable, plan: TablePlan) -> None:
        self.plan = plan
        self.types: RowTypes = row_types(executable, plan.layout)
        self._calls = RowCalls(executable.run, plan.layout, self.types.dropped, plan.max_batch)

    def results(
        self, values: Callable[[str, TensorType], Sequence[Array]], first: int = 0, where: str = "table"
    ) -> dict[str, tuple[TensorType, list[Array]]]:
        """Runs the model on all rows: by column, its type and its rows. `values` has the rows of a column as arrays of a type."""
        inputs = {name: values(self.plan.columns[name], t) for name, t in self.types.inputs.items()}
        outputs = self._calls.run(inputs, first, where)
        return {column: (self.types.outputs[name], outputs[name]) for name, column in self.plan.outputs.items()}

    def mapping(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """A table of Python and NumPy with the columns of the results: an array where every row has the shape that the output's type says,
        else a list of arrays."""

        def values(column: str, expected: TensorType) -> list[Array]:
            return sequence_rows(column, table[column], expected, self.plan.convert)

        return {**table, **{name: _stacked(t, rows) for name, (t, rows) in self.results(values).items()}}


def mapping_with_results(
    table: Mapping[str, Any], executable: Executable, columns: Mapping[str, str] | None = None, **options: Any
) -> dict[str, Any]:
    """Plans and runs a table of Python and NumPy; options are those of `plan_table`."""
    return TableModel(executable, plan_table(executable, sequence_types(table), columns, **options)).mapping(table)


def _stacked(t: TensorType, rows: list[Array]) -> Any:
    if not t.is_static:
        return rows
    assert t.shape is not None
    return np.stack(rows) if rows else np.zeros((0, *t.shape), t.dtype.numpy)


def demand_rank(name: str, t: TensorType) -> int:
    """The rank of an output that becomes a column of nested lists. Raises UnsupportedError where it is not known."""
    if t.rank is None:
        raise UnsupportedError(
            f"output {name} is {t}: its rank is not known, and a column has one; leave it out by outputs"
        )
    return t.rank
