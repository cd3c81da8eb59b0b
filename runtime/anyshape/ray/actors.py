"""What runs in a worker of Ray: a model that is loaded once, and batches of rows."""

from __future__ import annotations

import pyarrow as pa

from anyshape.ray.model_file import ModelFile
from anyshape.tables.arrow import ArrowTables
from anyshape.tables.table_model import TablePlan
from anyshape.vm.executable.saved import load


class TableActor:
    """The model of a worker, by the class that `map_batches` makes actors of."""

    def __init__(self, model: ModelFile, plan: TablePlan, threads: int) -> None:
        self._tables = ArrowTables(load(model.here(), threads=threads), plan)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The batch with results. It depends on the batch alone, so that a worker that is lost costs its batches' time and nothing else."""
        return self._tables.with_results(batch, where="batch")
