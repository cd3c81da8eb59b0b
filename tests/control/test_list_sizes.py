"""Sizes of a list that a loop carries: as narrow as every turn keeps them, however wide they were declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, lists, ops

X, Y, K = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]"), anyshape.input("k", "i64[]")
A, B = np.arange(3, dtype=np.float32), np.ones(2, np.float32)


def doubled(i: Any, rows: Any) -> Any:
    return [lists.append(rows, ops.mul(X, 2.0))]


def longer(i: Any, rows: Any) -> Any:
    return [lists.append(rows, ops.concat([lists.at(rows, -1), X], axis=0))]


def nested(i: Any, rows: Any) -> Any:
    return control.loop(2, doubled, [rows])


CASES: dict[str, tuple[Callable[[], Any], Callable[..., Any], str, list[Any]]] = {
    "one element": (lambda: lists.of([X], "f32[?]"), doubled, "n", [A, 2 * A, 2 * A]),
    "none yet": (lambda: lists.empty("f32[?]"), doubled, "n", [2 * A, 2 * A]),
    "a loop in the loop": (lambda: lists.empty("f32[?]"), nested, "n", [2 * A] * 4),
    "elements of two sizes": (lambda: lists.of([X, Y], "f32[?]"), doubled, "?", [A, B, 2 * A, 2 * A]),
    "elements that grow": (lambda: lists.of([X], "f32[?]"), longer, "?", [A, np.tile(A, 2), np.tile(A, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_as_narrow_as_iterations_keep_them(name: str) -> None:
    initial, iteration, size, expected = CASES[name]
    (rows,) = control.loop(K, iteration, [initial()])
    f = anyshape.function([X, Y, K], rows)
    assert str(f.results[0].type) == f"list[f32[{size}]]"
    assert str(anyshape.parse(str(f)).results[0].type) == f"list[f32[{size}]]"
    got = anyshape.compile(f)(A, B, np.array(2))
    assert all(map(np.array_equal, got, expected)) and len(got) == len(expected)


def test_a_declared_input_stays_as_wide() -> None:
    (rows,) = control.loop(K, doubled, [anyshape.input("rows", "list[f32[?]]")])
    assert str(rows.type) == "list[f32[?]]"


def test_what_is_stacked_has_the_size() -> None:
    (rows,) = control.loop(K, doubled, [lists.empty("f32[?]")])
    f = anyshape.function([X, K], ops.sum(ops.stack(rows), axes=(0,)))
    assert str(f.results[0].type) == "f32[n]"
    np.testing.assert_array_equal(anyshape.compile(f)(A, np.array(3)), 6 * A)
