"""A model on tables of pyarrow: columns of every form that has tensors in it, results as nested lists, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError, ColumnError, UnsupportedError
from anyshape.ray import predict
from anyshape.tables.arrow import column_rows, result_column
from anyshape.types import parse_type
from tests.tables.live.saved import assert_has_results, expected_columns, saved_model, text_table


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_model(tmp_path_factory.mktemp("models"))


def test_results_are_nested_lists_in_the_order_of_the_rows(model: Path) -> None:
    table = text_table(100)
    result = predict(table, model)
    assert result.schema.names == ["id", "ids", "w", "pooled", "states"]
    assert result.schema.field("states").type == pa.list_(pa.list_(pa.float32()))
    assert_has_results(result, expected_columns(table, model))


@pytest.mark.parametrize(
    "part",
    [
        lambda t: t.slice(7),
        lambda t: t.slice(7, 0),
        lambda t: pa.concat_tables([t.slice(0, 30), t.slice(3, 40), t.slice(99)]),
        lambda t: pa.Table.from_batches(t.to_batches(max_chunksize=9)),
        lambda t: t.set_column(1, "ids", t["ids"].cast(pa.large_list(pa.int64()))),
    ],
)
def test_pieces_of_a_table(part: Callable[[Any], Any], model: Path) -> None:
    table = text_table(100)
    expected = expected_columns(table, model)
    assert_has_results(predict(part(table), model), expected)


SQUARES = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(SQUARES.tolist(), pa.list_(pa.list_(pa.float32()))),
        pa.array(SQUARES.tolist(), pa.list_(pa.list_(pa.float32(), 3), 2)),
        pa.array(SQUARES.tolist(), pa.large_list(pa.list_(pa.float32(), 3))),
        pa.FixedShapeTensorArray.from_numpy_ndarray(SQUARES),
    ],
)
def test_forms_of_tensors(column: pa.Array) -> None:
    for start in (0, 1):
        rows = column_rows("x", pa.chunked_array([column[start:]]))
        np.testing.assert_array_equal(np.stack(rows), SQUARES[start:])
    x = anyshape.input("x", "f32[n, 2, m]")
    exe = anyshape.compile(anyshape.Function([x], [ops.mul(x, 2.0)], result_names=["y"]))
    y = predict(pa.table({"x": column}), exe)["y"]
    np.testing.assert_array_equal(np.array(y.to_pylist()), 2 * SQUARES)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([True, False], "bool"),
        ([1, -2], "i8"),
        ([1.5, np.inf], "f16"),
        ([[], [1, 2]], "u64"),
        ([[[]], [[1.0], [2.0]]], "f64"),
    ],
)
def test_results_of_every_rank_and_dtype_come_back(values: list[Any], text: str) -> None:
    rank = np.asarray(values[1]).ndim
    t = parse_type(f"{text}[{', '.join('?' * rank)}]")
    rows = [np.asarray(v, t.dtype.numpy) for v in values]
    column = pa.chunked_array([result_column("y", t, rows)])
    for a, b in zip(rows, column_rows("y", column), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


LISTS = pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1], None], LISTS), "null in row 1"),
        (pa.array([[1], [2, None]], LISTS), "null in row 1"),
        (pa.array([None, None]), "null"),
        (pa.array([[[1], [1]], [[1]]]), "rank 2"),
        (pa.array([1, 2]), "rank 0"),
        (pa.array(["a", "b"]), "string"),
        (pa.array([["a"], ["b"]]), "list<"),
        (pa.array([[1.0], [2.0]]), "double"),
        (pa.array([[1], [2]], pa.list_(pa.int32())), "int32"),
        (pa.array([{"a": 1}, {"a": 2}]), "struct"),
        (pa.array(["a", "b"]).dictionary_encode(), "dictionary"),
        (pa.array([[1], [2]], pa.list_(pa.timestamp("s"))), "timestamp"),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), r"where length is 2|int64"),
    ],
)
def test_a_column_that_does_not_fit_is_named(column: Any, words: str, model: Path) -> None:
    w = pa.array([[1.0], [1.0]], pa.list_(pa.float32(), 1))
    with pytest.raises(ColumnError, match=rf"column (ids|w): expected .*({words})"):
        predict(pa.table({"ids": column, "w": w}), model)


def test_lists_in_a_row_that_are_no_rectangle() -> None:
    x = anyshape.input("x", "f32[n, a, b]")
    exe = anyshape.compile(anyshape.Function([x], [ops.mul(x, 2.0)], result_names=["y"]))
    column = pa.array([[[1.0]], [[1.0], [1.0, 2.0]]], pa.list_(pa.list_(pa.float32())))
    with pytest.raises(ColumnError, match="lists of equal lengths in a row, got lengths 1, 2 in row 1"):
        predict(pa.table({"x": column}), exe)


def test_what_pyarrow_has_no_type_for(model: Path) -> None:
    x = anyshape.input("x", "f32[n]")
    narrow = anyshape.compile(anyshape.Function([x], [ops.cast(x, to="bf16")], result_names=["y"]))
    with pytest.raises(UnsupportedError, match=r"output y is bf16\[\], and pyarrow has no type"):
        predict(pa.table({"x": pa.array([1.0], pa.float32())}), narrow)
    with pytest.raises(AnyshapeError, match="column pooled: expected no such column"):
        predict(text_table(2).append_column("pooled", pa.array([1, 2])), model)
    with pytest.raises(AnyshapeError, match="column w: expected one column of this name, got several"):
        predict(text_table(2).append_column("w", pa.array([1, 2])), model)
