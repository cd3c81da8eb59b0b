"""Positions, sizes and counts: of which dtypes they may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import anyshape
from anyshape import control, lists, ops
from anyshape.dtypes import ALL, CHAR, NARROW

X = anyshape.input("x", "f32[n]")
LIST = lists.of([X, X])
WHOLE_BYTES = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}
PLACES: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "insert": (lambda at: lists.insert(LIST, X, at), WHOLE_BYTES),
    "erase": (lambda at: lists.erase(LIST, at), WHOLE_BYTES),
    "at": (lambda at: lists.at(LIST, at), WHOLE_BYTES),
    "split": (lambda at: lists.split(X, at), WHOLE_BYTES),
    "an operand for a parameter": (lambda at: ops.topk(X, at)[0], WHOLE_BYTES),
    "a size in a list of sizes": (lambda at: ops.reshape(X, (at, -1)), WHOLE_BYTES),
    "an end of a slice": (lambda at: X[at:], WHOLE_BYTES),
    "an index": (lambda at: X[at], {"i32", "i64"}),
    "a count of iterations": (lambda at: control.loop(at, lambda k, v: [v], [X])[0], {"i64"}),
}


@pytest.mark.parametrize("place", PLACES)
def test_index_dtypes(place: str) -> None:
    """Each dtype is compiled, or refused where the value is made."""
    build, expected = PLACES[place]
    accepted = set()
    for dtype in (*ALL, *NARROW, CHAR):
        at = anyshape.input("at", f"{dtype}[]")
        try:
            result = build(at)
        except anyshape.AnyshapeError:
            continue
        anyshape.compile(anyshape.function([X, at], result))
        accepted.add(str(dtype))
    assert accepted == expected
