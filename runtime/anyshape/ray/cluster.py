"""A table in a file through the workers of a cluster, for a caller that writes the results: `anyshape batch --address`.

In: the address of a cluster, the path of a Parquet file that all nodes see, a saved model and a plan. Out: the pieces of the table with
results, in the order of its rows.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.ray.model_file import ModelFile, header_of
from anyshape.ray.prediction import mapped, sent
from anyshape.tables.table_model import TablePlan

REACHED_SECONDS = 20.0
"""Seconds in which the address of a cluster must answer"""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """A connection to a cluster, with no more than warnings on the terminal. Raises AnyshapeError where there is none."""
    try:
        _demand_reachable(address)
        ray.init(address, logging_level=logging.WARNING, log_to_driver=False)
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as e:
        raise AnyshapeError(f"there is no cluster of Ray to connect to at {address}: {e}") from e
    try:
        yield
    finally:
        ray.shutdown()


def _demand_reachable(address: str) -> None:
    """Raises OSError where nothing listens at HOST:PORT, for which Ray itself waits for minutes; other addresses are Ray's to look up."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), REACHED_SECONDS).close()


def ordered_pieces(source: str, model: str, plan: TablePlan, workers: int | None, rows: int) -> Iterator[Any]:
    """The table with results, as workers return it. Raises the AnyshapeError of a worker."""
    if not source.lower().endswith(".parquet"):
        raise ArgumentError(f"{source}: a cluster reads .parquet; without --address it may be .jsonl")
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    try:
        data = ray.data.read_parquet(os.path.abspath(source))
        file = ModelFile(model, header_of(model), sent(model))
        yield from mapped(data, file, plan, workers, 1, rows).iter_batches(batch_size=None, batch_format="pyarrow")
    except ray.exceptions.RayError as e:
        raise worker_error(e) from e


def worker_error(e: ray.exceptions.RayError) -> AnyshapeError:
    """The error that a failed dataset is for its user: what a worker raised, which Ray keeps as the text of a traceback, or Ray's own."""
    text = str(e).strip()
    raised = re.findall(rf"(?m)^{re.escape(AnyshapeError.__module__)}\.\w+: (.+)$", text)
    return AnyshapeError(raised[-1] if raised else f"Ray: {text.partition(chr(10))[0] or type(e).__name__}")
