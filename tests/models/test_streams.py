"""What the harness says of first calls, from engines whose times are known."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest

from benchmarks import streams
from benchmarks.streams import Shape

SHAPES = [(1, 1), (2, 3), (4, 8), (1, 64)]
SURPLUS, AGAIN = 1.1, 1.05


class Drifting:
    """An engine on a machine that is fast at times: each time that it is made, all its calls take so many times as long."""

    name = "drifting"

    def __init__(self) -> None:
        self._speed = random.Random(5)

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        slow = self._speed.choice([1.0, 1.7, 2.3])
        return [[k * slow * b * n * 1e-6 for b, n in order[1:]] for k in (SURPLUS, AGAIN, *[1.0] * streams.LATER)]

    def iteration(self, shape: Shape) -> list[float]:
        raise AssertionError("not asked for")

    stream = iteration


def test_first_calls_are_compared_with_those_of_the_same_engine() -> None:
    first, second = streams.first_calls([Drifting()], SHAPES)
    assert set(first["drifting"]) == set(SHAPES)
    for shape in SHAPES:
        assert statistics.median(first["drifting"][shape]) == pytest.approx(SURPLUS)
        assert statistics.median(second["drifting"][shape]) == pytest.approx(AGAIN)


def test_every_shape_but_the_one_in_front_counts_once_for_each_engine_made() -> None:
    first, _ = streams.first_calls([Drifting()], SHAPES)
    assert sum(map(len, first["drifting"].values())) == streams.ANEW[1] * (len(SHAPES) - 1)


class Scattered(Drifting):
    """An engine whose first calls take now less and now more than later ones."""

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        passes = super().first(order)
        return [[self._speed.uniform(0.7, 1.3) * seconds for seconds in passes[0]], *passes[1:]]


def test_slow_engines_are_made_more_often_where_first_calls_are_scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FIRST_SECONDS", 0.0)
    for engine, count in (
        (Scattered(), streams.DOUBTFUL),
        (Drifting(), 8),
    ):  # the eighth is the fourth with some shape not in front
        first, _ = streams.first_calls([engine], SHAPES)
        assert sum(map(len, first["drifting"].values())) == count * (len(SHAPES) - 1), engine
