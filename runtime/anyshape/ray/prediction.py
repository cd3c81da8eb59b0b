"""`predict`: a model on each row of a dataset of Ray Data, of a table of pyarrow, or of columns of Python and NumPy.

In: data, a model, the columns of its inputs. Out: data of the same kind with the columns of its outputs. The columns are checked before the
first task runs.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from typing import Any

from anyshape.errors import ArgumentError, ColumnError
from anyshape.public import edge, short
from anyshape.ray.model_file import ModelFile, bytes_of, header_of
from anyshape.tables.table_model import MAX_BATCH, TablePlan, mapping_with_results, plan_table
from anyshape.vm import Executable, compile
from anyshape.vm.executable.saved import load
from anyshape.wording import counted

Concurrency = int | tuple[int, int] | None
ROWS = 1024
"""The rows of a task, where the caller names no other number"""


@edge
def predict(
    data: Any,
    model: Any,
    columns: Mapping[str, str] | None = None,
    *,
    outputs: Mapping[str, str] | None = None,
    batch_dim: str | None = None,
    concurrency: Concurrency = None,
    num_cpus: float = 1,
    rows: int = ROWS,
    max_batch: int = MAX_BATCH,
    convert: bool = False,
) -> Any:
    """Runs a model on each row of `data`, and returns data of the same kind with a column for each output.

    `data` is a dataset of Ray Data, a table of pyarrow, or a mapping of columns; `columns` names the column of each input (default: of its
    name), `outputs` the column of each output to keep (default: all, by their names). Of a model with a batch dim a row has no such
    dim: a list of ids for `ids: i64[batch, length]`. At most `max_batch` rows of equal shapes are one call, without padding; one
    row is, if no batch dim is proved. `batch_dim` names the dim of the rows. `convert` accepts columns of other dtypes of the same kind, if
    their numbers fit.

    With a dataset, `model` is the path of a saved model; `concurrency` is the greatest number of workers or (least, greatest), by default
    one for each `num_cpus` processors of the cluster; `rows` is the size of a task. Otherwise `model` is what `compile` takes or an
    Executable, and these three have no meaning. Raises ColumnError for a column that does not fit, before any task runs, and RowError for a
    row that the model refuses."""
    for name, number in (("rows", rows), ("max_batch", max_batch)):
        if number < 1:
            raise ArgumentError(f"predict: {name} must be at least 1, got {number}")
    if not 0 < num_cpus < math.inf:
        raise ArgumentError(f"predict: num_cpus must be a positive number, got {num_cpus}")
    options: dict[str, Any] = {"outputs": outputs, "batch_dim": batch_dim, "max_batch": max_batch, "convert": convert}
    if _is_of(data, "pyarrow", "Table"):
        from anyshape.tables.arrow import ArrowTables, schema_types

        executable = _executable(model)
        plan = plan_table(executable, schema_types(data.schema.names, data.schema.types), columns, **options)
        return ArrowTables(executable, plan).with_results(data)
    if isinstance(data, Mapping):
        return mapping_with_results(data, _executable(model), columns, **options)
    if not _is_of(data, "ray.data", "Dataset"):
        raise ArgumentError(
            f"predict: data must be a dataset of Ray Data, a table of pyarrow or a mapping of columns, got {short(data)}"
        )
    if not isinstance(model, str | os.PathLike):
        raise ArgumentError(f"predict: of a dataset the model must be the path of a saved one, got {short(model)}")
    path = os.path.abspath(os.fspath(model))
    header = header_of(path)
    plan = plan_table(load(path), _dataset_types(data), columns, **options)
    return mapped(data, ModelFile(path, header, sent(path)), plan, concurrency, num_cpus, rows)


def mapped(data: Any, file: ModelFile, plan: TablePlan, concurrency: Concurrency, num_cpus: float, rows: int) -> Any:
    """The dataset whose batches actors map, one batch in each task: Ray maps a whole block in one, however many rows it has. An actor that
    is lost is started again and its tasks run again, as often as it takes: so Ray Data has it for pools of actors."""
    import ray

    from anyshape.ray.actors import TableActor

    low, high = _pool(concurrency, num_cpus, ray.cluster_resources().get("CPU", 0.0))
    return data.repartition(target_num_rows_per_block=rows).map_batches(
        TableActor,
        fn_constructor_args=(file, plan, max(1, int(num_cpus))),
        compute=ray.data.ActorPoolStrategy(min_size=low, max_size=high),
        batch_format="pyarrow",
        batch_size=rows,
        num_cpus=num_cpus,
        udf_modifying_row_count=False,
    )


def _pool(concurrency: Concurrency, num_cpus: float, available: float) -> tuple[int, int]:
    """The least and the greatest number of workers. A number alone is the greatest. Raises ArgumentError where the least leave no processor
    for the tasks that read what they are to work on, for which Ray would wait without end."""
    if concurrency is None:
        concurrency = max(1, int(available // num_cpus))
    low, high = (1, concurrency) if isinstance(concurrency, int) else concurrency
    if not 1 <= low <= high:
        raise ArgumentError(f"predict: concurrency must be a number of workers or (least, most), got {concurrency}")
    if low * num_cpus + 1 > available:
        raise ArgumentError(
            f"predict: {counted(low, 'worker')} of {num_cpus:g} processors each and a task that reads cannot run on a cluster that has "
            f"{available:g}"
        )
    return low, high


def _is_of(data: Any, package: str, name: str) -> bool:
    """Whether data is of a class of a package, which is not imported to find out."""
    module = sys.modules.get(package)
    return module is not None and isinstance(data, getattr(module, name, ()))


def _executable(model: Any) -> Executable:
    return model if isinstance(model, Executable) else compile(model)


def _dataset_types(data: Any) -> Mapping[str, Any]:
    """The types of a dataset's columns. Raises ColumnError for one whose schema is not known, since it has no rows."""
    from anyshape.tables.arrow import schema_types

    schema = data.schema()
    if schema is None:
        raise ColumnError("(all)", "a schema", "a dataset without rows")
    return schema_types(schema.names, schema.types)


def sent(path: str) -> Any:
    """A way to the bytes of a file from any node, which the object store has then; None where all nodes are this machine."""
    import ray

    here = ray.util.get_node_ip_address()
    if not ray.util.client.ray.is_connected() and all(
        n["NodeManagerAddress"] == here for n in ray.nodes() if n["Alive"]
    ):
        return None
    return FromStore(ray.put(bytes_of(path)))


class FromStore:
    """Bytes in Ray's object store."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def __call__(self) -> Any:
        import ray

        return ray.get(self._reference)
