"""Dims and conditions as data and back: the same expressions, and no more data than there are expressions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anyshape.dims import Dim, SizeReader, SizeWriter, evaluate, fresh, ge, maximum, minimum, select, symbol
from anyshape.errors import ParseError

N, M = symbol("n"), symbol("m")


def there_and_back(*sizes: Any) -> list[Any]:
    write = SizeWriter()
    data = json.loads(json.dumps([write(e) for e in sizes]))
    read = SizeReader(json.loads(json.dumps(write.table)))
    return [read(d) for d in data]


def test_expressions_come_back_as_they_were() -> None:
    sizes = [7, True, N, 3 * N * M - 2, N // 4, (N + 1) % M, maximum(N, M), select(ge(N, M), N * N, M), ge(N, 2)]
    assert there_and_back(*sizes) == sizes


def test_an_unknown_comes_back_as_one_other_unknown() -> None:
    x = fresh("?", 1, 9)
    a, b = there_and_back(x, x + N)
    assert a != x and isinstance(a, Dim) and b - N == a
    assert evaluate(b, {a: 4, N: 2}) == 6


def test_what_expressions_share_is_written_once() -> None:
    """Eighteen doublings of an expression would be a quarter of a million times as large as a tree."""
    e: Any = N
    for k in range(18):
        e = minimum(e // (k + 2) * M, e + k)
    write = SizeWriter()
    write(e)
    assert len(write.table) < 200
    assert there_and_back(e) == [e]


@pytest.mark.parametrize(
    "table", [[["?"]], [["+", [1, 0]]], [["+", [1, -1]]], [["max", [3]]], [["symbol", "n"]], [3], [[]]]
)
def test_a_damaged_table_is_refused(table: Any) -> None:
    with pytest.raises(ParseError, match="no dim or condition is recorded as"):
        SizeReader(table)


@pytest.mark.parametrize("data", [[0], [-1], ["n"], [1, 2], []])
def test_damaged_data_is_refused(data: Any) -> None:
    with pytest.raises(ParseError, match="no dim or condition is recorded as"):
        SizeReader([])(data)
