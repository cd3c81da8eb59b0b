"""A saved model of texts and tables for it, for the tests with pyarrow and Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import anyshape
from tests.tables.models import text_model, text_rows


def saved_model(folder: Path) -> Path:
    """Saves the model of texts."""
    path = folder / "text.anyshape"
    anyshape.compile(text_model()).save(path)
    return path


def text_table(count: int, longest: int = 6, refused: int | None = None) -> pa.Table:
    """A table with the columns id, ids and w; the ids of the row `refused` are out of the model's range."""
    rows = text_rows(count, longest=longest)
    ids = [a.tolist() for a in rows["ids"]]
    if refused is not None:
        ids[refused], rows["w"][refused] = [77], np.ones(1, np.float32)
    weights = pa.array([a.tolist() for a in rows["w"]], pa.list_(pa.float32()))
    return pa.table({"id": pa.array(range(count)), "ids": pa.array(ids, pa.list_(pa.int64())), "w": weights})


def expected_columns(table: pa.Table, model: Path) -> dict[str, list[Any]]:
    """The results of each row of a table, by a call of its own."""
    exe, columns = anyshape.load(model), dict[str, list[Any]](pooled=[], states=[])
    for ids, w in zip(table["ids"].to_pylist(), table["w"].to_pylist()):
        for name, y in zip(exe.output_names, exe(np.array([ids], np.int64), np.array([w], np.float32))):
            columns[name].append(y[0])
    return columns


def assert_has_results(table: pa.Table, expected: dict[str, list[Any]]) -> None:
    """Asserts that the columns of a table are these results up to rounding, in the order of its column id."""
    for name, rows in expected.items():
        for k, row in zip(table["id"].to_pylist(), table[name].to_pylist(), strict=True):
            np.testing.assert_allclose(np.reshape(row, rows[k].shape), rows[k], rtol=1e-5)
