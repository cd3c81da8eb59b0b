"""Tables in files, read and written piece by piece: Parquet, and JSON with an object on each line.

In: a path, whose end says the format. Out: pieces of a table of so many rows, and a file that appears whole once all are written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.files import open_plain, replacing
from anyshape.tables.arrow import schema_types
from anyshape.tables.columns import ColumnType


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """A table in a file. `count` is its number of rows, None where only reading tells; `has_literals`: its numbers have no dtype."""

    schema: pa.Schema
    count: int | None
    has_literals: bool
    pieces: Callable[[int], Iterator[pa.Table]]

    @property
    def types(self) -> dict[str, ColumnType | None]:
        return schema_types(self.schema.names, self.schema.types)


Write = Callable[[pa.Table], None]


@contextmanager
def table_source(path: str) -> Iterator[TableSource]:
    """A table to read. Raises AnyshapeError for what is not one, also while it is read."""
    formats = {".parquet": _parquet_source, ".jsonl": _json_source}
    read = formats[_format(path, formats)]
    with ExitStack() as stack:
        with _errors_of(path):
            source = read(stack.enter_context(open_plain(path)))

        def pieces(rows: int) -> Iterator[pa.Table]:
            left = source.pieces(rows)
            while True:
                with _errors_of(path):
                    piece = next(left, None)
                if piece is None:
                    return
                yield piece

        yield TableSource(schema=source.schema, count=source.count, has_literals=source.has_literals, pieces=pieces)


def _parquet_source(file: BinaryIO) -> TableSource:
    table = pq.ParquetFile(file, pre_buffer=False)  # row groups are read when they come up

    def pieces(rows: int) -> Iterator[pa.Table]:
        for batch in table.iter_batches(batch_size=rows):
            yield pa.Table.from_batches([batch])

    return TableSource(schema=table.schema_arrow, count=table.metadata.num_rows, has_literals=False, pieces=pieces)


def _json_source(file: BinaryIO) -> TableSource:
    reader = pa_json.open_json(file)

    def pieces(rows: int) -> Iterator[pa.Table]:
        for batch in reader:
            table = pa.Table.from_batches([batch])
            yield from (table.slice(at, rows) for at in range(0, table.num_rows, rows))

    return TableSource(schema=reader.schema, count=None, has_literals=True, pieces=pieces)


@contextmanager
def table_sink(path: str, schema: pa.Schema) -> Iterator[Write]:
    """A way to write the pieces of a table; the file takes its place at the end. Raises AnyshapeError where it cannot be written."""
    formats = {".parquet": _parquet_sink, ".jsonl": _json_sink}
    written = formats[_format(path, formats)]
    with _errors_of(path), replacing(path) as file, written(file, schema) as write:
        yield write


def _parquet_sink(file: BinaryIO, schema: pa.Schema) -> AbstractContextManager[Write]:
    return _closing(pq.ParquetWriter(file, schema))


@contextmanager
def _closing(writer: pq.ParquetWriter) -> Iterator[Write]:
    try:
        yield writer.write_table
    except BaseException:
        with suppress(pa.ArrowException, OSError, ValueError):  # what is there is thrown away
            writer.close()
        raise
    writer.close()


@contextmanager
def _json_sink(file: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    yield partial(_write_lines, file)


def _write_lines(file: BinaryIO, table: pa.Table) -> None:
    for row in table.to_pylist():
        file.write(json.dumps(row, default=str, ensure_ascii=False).encode() + b"\n")


def demand_formats(*paths: str) -> None:
    """Raises ArgumentError for a path whose end is that of no format."""
    for path in paths:
        _format(path, (".parquet", ".jsonl"))


def _format(path: str, formats: Any) -> str:
    end = os.path.splitext(path)[1].lower()
    if end not in formats:
        raise ArgumentError(f"{path}: a table is a file that ends in {' or '.join(formats)}")
    return end


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Errors of the system and of pyarrow as those of a file."""
    try:
        yield
    except AnyshapeError:
        raise
    except (pa.ArrowException, OSError, ValueError) as e:
        text = (isinstance(e, OSError) and e.strerror) or str(e).partition("\n")[0]
        raise AnyshapeError(f"{path}: {text}") from e
