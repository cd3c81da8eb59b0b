"""A model on the rows of tables of Python and NumPy: joined without padding, in order, and columns that do not fit."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.batching import BatchDim
from anyshape.errors import ArgumentError, ColumnError, RowError, UnsupportedError
from anyshape.ray import predict
from anyshape.tables.columns import sequence_types
from anyshape.tables.row_calls import RowCalls
from anyshape.tables.row_types import row_layout
from anyshape.tables.table_model import TableModel, plan_table
from tests.tables.models import centred_model, columns_of_model, text_model, text_rows


@pytest.fixture(scope="module")
def text() -> Any:
    return anyshape.compile(text_model())


@pytest.fixture(scope="module")
def centred() -> Any:
    return anyshape.compile(centred_model())


def test_each_row_has_the_results_of_a_call_of_its_own(text: Any) -> None:
    table = {"id": list(range(50)), **text_rows(50)}
    result = predict(table, text)
    assert list(result) == ["id", "ids", "w", "pooled", "states"]
    assert isinstance(result["pooled"], np.ndarray) and isinstance(result["states"], list)
    for k, (ids, w) in enumerate(zip(table["ids"], table["w"])):
        pooled, states = text(ids[None], w[None])
        np.testing.assert_allclose(result["pooled"][k], pooled[0], rtol=1e-6)
        np.testing.assert_array_equal(result["states"][k], states[0])
        assert result["states"][k].shape == (len(ids), 4)


def test_rows_of_equal_shapes_are_one_call_and_none_is_padded(text: Any) -> None:
    table, shapes = text_rows(50), list[tuple[int, ...]]()
    model = TableModel(text, plan_table(text, sequence_types(table), max_batch=4))

    def call(inputs: Any) -> Any:
        shapes.append(inputs["ids"].shape)
        return text.run(inputs)

    calls = RowCalls(call, model.plan.layout, model.types.dropped, 4)
    calls.run(table)
    rows = Counter[int]()
    for n, length in shapes:
        rows[length] += n
    assert rows == Counter(map(len, table["ids"]))
    assert len(shapes) == sum(-(-n // 4) for n in rows.values())
    assert [length for _, length in shapes] == sorted((length for _, length in shapes), reverse=True)


def test_a_model_without_a_batch_dim_runs_row_by_row(centred: Any) -> None:
    rows = [np.ones(n, np.float32) * n for n in (3, 3, 1, 0)]
    result = predict({"x": rows}, centred)
    assert [y.tolist() for y in result["y"]] == [[0.0] * 3, [0.0] * 3, [0.0], []]
    whole = predict({"x": [np.arange(6, dtype=np.float32).reshape(2, 3)] * 2}, centred)
    assert [y.tolist() for y in whole["y"]] == [[[-2.5, -1.5, -0.5], [0.5, 1.5, 2.5]]] * 2


def test_rows_of_two_meanings_are_refused_until_the_dim_is_named() -> None:
    x = anyshape.input("x", "f32[time, batch]")
    exe = anyshape.compile(
        anyshape.Function([x], [ops.sub(x, ops.mean(x, axes=(0,), keepdims=True))], result_names=["y"])
    )
    rows = np.array([[1, 3], [2, 2]], np.float32)
    with pytest.raises(ArgumentError, match=r"along batch \(axis 1 of x\), .* or along time, one in each call"):
        predict({"x": rows}, exe)
    assert [y.tolist() for y in predict({"x": rows}, exe, batch_dim="batch")["y"]] == [[-1, 1], [0, 0]]
    assert [y.tolist() for y in predict({"x": rows}, exe, batch_dim="time")["y"]] == [[0, 0], [0, 0]]
    with pytest.raises(ArgumentError, match=r"no input has a dim n; they are x: f32\[time, batch\]"):
        predict({"x": rows}, exe, batch_dim="n")


def test_rows_may_be_another_axis_than_the_first() -> None:
    exe = anyshape.compile(columns_of_model())
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.testing.assert_array_equal(predict({"x": x}, exe)["y"], 2 * x)


def test_numbers_of_python_become_elements_of_the_input(text: Any) -> None:
    result = predict({"ids": [[1, 2], []], "w": [[1, 0.5], []]}, text)
    assert result["pooled"].tolist() == [[8.0, 9.5, 11.0, 12.5], [0.0] * 4]


def test_a_table_without_rows(text: Any) -> None:
    result = predict({"ids": [], "w": []}, text)
    assert result["pooled"].shape == (0, 4) and result["states"] == []


def test_columns_and_outputs_have_the_names_that_are_passed(text: Any) -> None:
    t = text_rows(3)
    result = predict({"tokens": t["ids"], "w": t["w"]}, text, {"ids": "tokens"}, outputs={"pooled": "vector"})
    assert list(result) == ["tokens", "w", "vector"]


IDS, W = np.zeros((2, 3), np.int64), np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("table", "options", "column", "words"),
    [
        ({"ids": IDS}, {}, "w", "a column for the input w, got the columns ids"),
        ({"ids": IDS, "v": W}, {"columns": {"w": "u"}}, "u", "a column for the input w"),
        (
            {"ids": IDS.astype(np.int32), "w": W},
            {},
            "ids",
            r"i64\[length\] in each row, for the input ids, got int32\[3\]",
        ),
        ({"ids": IDS, "w": W.astype(float)}, {}, "w", "got float64"),
        ({"ids": W, "w": W}, {"convert": True}, "ids", "got float32"),
        ({"ids": IDS[:, 0], "w": W}, {}, "ids", "rank 0"),
        ({"ids": IDS[None].repeat(2, 0), "w": W}, {}, "ids", "rank 2"),
        ({"ids": IDS, "w": W[:, :2]}, {}, "w", r"where length is 3 by column ids, got float32\[2\]"),
        ({"ids": ["a", "b"], "w": W}, {}, "ids", "<U1"),
        ({"ids": [[1], ["a"]], "w": W}, {}, "ids", "row 1"),
        ({"ids": [[1], [[1]]], "w": W}, {}, "ids", r"the shape \[1, 1\] in row 1"),
        ({"ids": [[1], [[1], [1, 2]]], "w": W}, {}, "ids", "row 1"),
        ({"ids": [[1], None], "w": W}, {}, "ids", "row 1"),
        ({"ids": [{1: 2}, {}], "w": W}, {}, "ids", "object"),
        ({"ids": [[1.5], [1]], "w": W}, {}, "ids", "float64"),
        ({"ids": [[1 << 70], [1]], "w": W}, {}, "ids", "object"),
        (
            {"ids": IDS, "w": np.full((2, 3), 1e300)},
            {"convert": True},
            "w",
            "got 1e[+]300 in row 0, which f32 has no room for",
        ),
        (
            {"ids": IDS.astype(np.uint64) + (1 << 63), "w": W},
            {"convert": True},
            "ids",
            "9223372036854775808 in row 0, which i64",
        ),
        ({"ids": IDS, "w": W, "pooled": W}, {}, "pooled", "name another one by outputs"),
    ],
)
def test_a_column_that_does_not_fit_is_named(table: Any, options: Any, column: str, words: str, text: Any) -> None:
    with pytest.raises(ColumnError, match=words) as e:
        predict(table, text, **options)
    assert e.value.column == column and isinstance(e.value, ArgumentError)
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)


def test_columns_of_other_dtypes_are_converted_where_that_is_asked_for(text: Any) -> None:
    converted = predict({"ids": IDS.astype(np.int8), "w": W.astype(np.float64) + 0.1}, text, convert=True)
    np.testing.assert_array_equal(converted["pooled"], predict({"ids": IDS, "w": W + np.float32(0.1)}, text)["pooled"])


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ({"ids": IDS, "w": W}, {"columns": {"y": "w"}}, "the model has no input y; its inputs are ids, w"),
        ({"ids": IDS, "w": W}, {"outputs": {"y": "w"}}, "the model has no output y; its outputs are pooled, states"),
        ({"ids": IDS, "w": W}, {"outputs": {}}, "none is named"),
        ({"ids": IDS, "w": W}, {"outputs": {"pooled": "z", "states": "z"}}, "two of them"),
        ({"ids": IDS, "w": W}, {"max_batch": 0}, "max_batch must be at least 1"),
        ({"ids": IDS, "w": W}, {"num_cpus": 0}, "num_cpus must be a positive number"),
        ({"ids": IDS, "w": W[:1]}, {}, "as many rows each, got ids: 2, w: 1"),
        ({"ids": IDS, "w": 3}, {}, "column w must be an array or a sequence"),
        ({"ids": "ab", "w": W}, {}, "column ids must be an array or a sequence"),
        ([1, 2], {}, "a mapping of columns, got"),
        (None, {}, "a mapping of columns, got None"),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, options: Any, words: str, text: Any) -> None:
    with pytest.raises(ArgumentError, match=words):
        predict(arguments, text, **options)


def test_a_row_that_the_model_refuses_has_its_number(text: Any) -> None:
    table = {"ids": [[1, 2], [1, 77], [3, 4]], "w": [[1.0, 1.0]] * 3}
    with pytest.raises(RowError, match=r"row 1 of the table: gather: index 77 is out of range") as e:
        predict(table, text)
    assert e.value.row == 1
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)
    unequal = {"ids": [[1, 2], [1]], "w": [[1.0, 1.0]] * 2}
    with pytest.raises(RowError, match=r"row 1 of the table: .*length"):
        predict(unequal, text)


def test_a_model_that_no_table_has_rows_for() -> None:
    s = anyshape.input("s", "char[n, w]")
    with pytest.raises(UnsupportedError, match=r"s is char\[n, w\]"):
        predict({"s": ["a"]}, anyshape.compile(anyshape.Function([s], [s], result_names=["y"])))
    constant = anyshape.compile(anyshape.Function([], [anyshape.constant(np.ones(2))], result_names=["y"]))
    with pytest.raises(UnsupportedError, match="no inputs"):
        predict({}, constant)


def test_the_layout_of_a_model_whose_batch_dim_is_not_proved(centred: Any) -> None:
    joined, whole = row_layout(centred, {"x": 1}), row_layout(centred, {"x": 2})
    assert isinstance(joined, BatchDim) and joined.most == whole.most == 1
    assert (joined.inputs[0].axis, joined.outputs[0].axis) == (0, 0)
    assert (whole.inputs[0].axis, whole.outputs[0].axis) == (None, None)
