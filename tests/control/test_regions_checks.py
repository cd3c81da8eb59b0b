"""Checks of regions once more is known: what decides them, and how a refusal tells it."""

from __future__ import annotations

import pytest

from anyshape import dims
from anyshape.errors import ShapeError
from anyshape.graph.regions import substituted_check
from anyshape.rules import Check

N, M = dims.symbol("n"), dims.symbol("m")
_SAME = dims.eq(N, M)
assert not isinstance(_SAME, bool)
SAME = Check(_SAME, ("sizes ", N, " and ", M), "add", "node1")


def test_what_is_known_decides_a_check() -> None:
    assert substituted_check(SAME, {}) is SAME
    assert substituted_check(SAME, {N: 3, M: 3}) is None
    left = substituted_check(SAME, {N: 3})
    assert left is not None and left.message == "sizes 3 and m"


def test_a_check_that_cannot_hold_is_reported_with_what_is_known() -> None:
    with pytest.raises(ShapeError, match=r"add \(node1\): sizes 3 and 2$"):
        substituted_check(SAME, {N: 3, M: 2})
