"""`anyshape batch MODEL IN OUT`: a model on each row of a table in a file, here or on a cluster of Ray."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from anyshape.cli import arguments
from anyshape.cli.answer import Answer
from anyshape.cli.progress import progress
from anyshape.errors import AnyshapeError, ArgumentError, MissingPackageError
from anyshape.tables.table_model import TablePlan, plan_table
from anyshape.vm import Executable, compile
from anyshape.wording import counted

if TYPE_CHECKING:
    from anyshape.tables.table_files import TableSource


def batch_command(args: argparse.Namespace) -> Answer:
    """Compiles or loads the model, checks the columns, and writes the table with results."""
    _demand_packages("pyarrow", *(["ray"] if args.address else []))
    from anyshape.tables.arrow import ArrowTables
    from anyshape.tables.table_files import demand_formats, table_sink, table_source

    demand_formats(args.source, args.target)
    if args.workers is not None and not args.address:
        raise ArgumentError("--workers is for --address; in this process --threads says how many processors are used")
    start = time.perf_counter()
    with ExitStack() as stack:
        signals = stack.enter_context(_ended_by_signals())
        source = stack.enter_context(table_source(args.source))
        with progress(f"compiling {args.model}"):
            dims = arguments.dims(args.dim)
            executable = compile(args.model, dims, threads=args.threads, repair=args.repair or None)
        plan = plan_table(
            executable,
            source.types,
            arguments.named(args.columns, "--columns", "INPUT=COLUMN"),
            arguments.named(args.outputs, "--outputs", "OUTPUT=COLUMN") or None,
            batch_dim=args.batch_dim,
            max_batch=args.max_batch,
            convert=args.convert or source.has_literals,
        )
        tables = ArrowTables(executable, plan)
        write = stack.enter_context(table_sink(args.target, tables.schema(source.schema)))
        pieces = (
            stack.enter_context(_cluster_pieces(args, executable, plan))
            if args.address
            else _pieces(tables, source, args.rows)
        )
        count = 0
        of = "" if source.count is None else f" of {source.count}"
        with progress(lambda: f"{count}{of} rows"):
            for piece in pieces:
                signals.demand_none()
                write(piece)
                count += piece.num_rows
        signals.demand_none()
    seconds = time.perf_counter() - start
    text = f"{counted(count, 'row')} in {seconds:.1f} s, written to {args.target}"
    return Answer(text=text, data={"rows": count, "seconds": seconds, "output": args.target, "batch": str(plan.layout)})


def _demand_packages(*names: str) -> None:
    from importlib.util import find_spec

    for name in names:
        if find_spec(name) is None:
            text = f"anyshape batch needs the extra [ray]: pip install 'anyshape[ray]' (there is no package {name})"
            raise MissingPackageError(text, name=name)


def _pieces(tables: Any, source: TableSource, rows: int) -> Iterator[Any]:
    """The table with results, piece by piece."""
    first = 0
    for piece in source.pieces(rows):
        yield tables.with_results(piece, first)
        first += piece.num_rows


@contextmanager
def _cluster_pieces(args: argparse.Namespace, executable: Executable, plan: TablePlan) -> Iterator[Iterator[Any]]:
    """The table with results from a cluster, in the order of its rows."""
    from anyshape.ray.cluster import connected, ordered_pieces

    with tempfile.TemporaryDirectory() as folder, connected(args.address):
        saved = os.path.join(folder, "model.anyshape")
        executable.save(saved)
        yield ordered_pieces(args.source, saved, plan, args.workers, args.rows)


class _Signals:
    """SIGINT and SIGTERM while a command runs."""

    def __init__(self) -> None:
        self._arrived: int | None = None

    def arrive(self, number: int, frame: object = None) -> None:
        """Handles a signal. Raises KeyboardInterrupt for SIGINT and _Terminated for another."""
        self._arrived = number
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise _Terminated(f"ended by {signal.Signals(number).name}")

    def demand_none(self) -> None:
        """Raises again for a signal that arrived: Python drops what is raised within the callback of a weak reference, or `__del__`."""
        if self._arrived is not None:
            self.arrive(self._arrived)


@contextmanager
def _ended_by_signals() -> Iterator[_Signals]:
    """SIGTERM ends the command as an error does, so that it leaves no temporary file, and neither it nor SIGINT gets lost."""
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield signals
        return
    before = {number: signal.signal(number, signals.arrive) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Terminated(AnyshapeError):
    """SIGTERM arrived."""
