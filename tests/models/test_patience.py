"""How long the harness measures, on times that are known."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest

from benchmarks import patience, streams
from benchmarks.streams import Shape


def samples(spread: float, count: int, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.lognormvariate(0.0, spread) for _ in range(count)]


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.2])
def test_a_known_median_is_near_the_true_one(spread: float) -> None:
    """Two standard errors, nineteen times of twenty; fifteen values of that spread are enough only where it is small."""
    off = []
    for seed in range(200):
        count = next(n for n in range(4, 2000) if patience.known(samples(spread, n, seed)))
        off.append(abs(statistics.median(samples(spread, count, seed)) - 1.0))
    assert sorted(off)[int(0.9 * len(off))] < 3 * patience.CLOSE


def test_wide_values_need_many() -> None:
    assert patience.known(samples(0.02, 15, 1))
    assert not patience.known(samples(0.3, 15, 1))
    assert patience.known(samples(0.3, 600, 1))


def test_few_values_tell_nothing() -> None:
    assert not patience.known([1.0, 1.0, 1.0])


def test_noise_is_the_largest_of_any_engine() -> None:
    assert patience.noise([[1.0, 1.0, 1.02], [2.0, 3.0, 3.0]]) == pytest.approx(1.5)
    assert not patience.quiet([[1.0, 1.0, 1.02], [2.0, 3.0, 3.0]])
    assert patience.quiet([[1.0, 1.05, 1.06]])


class Spread:
    """An engine whose first calls are spread, over an interval of such a width."""

    def __init__(self, name: str, width: float) -> None:
        self.name, self._width, self._rng, self.count = name, width, random.Random(3), 0

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        self.count += 1
        later = [[1.0] * (len(order) - 1)] * (1 + streams.LATER)
        return [[1.0 + self._width * self._rng.random() for _ in order[1:]], *later]

    def turn(self, shape: Shape) -> list[float]:
        raise AssertionError("not asked for")

    stream = turn


def test_an_engine_whose_first_calls_are_spread_is_made_more_often() -> None:
    even, spread = Spread("even", 0.01), Spread("spread", 0.6)
    first, _ = streams.first_calls([even, spread], [(1, 1), (2, 3), (4, 8)])
    assert even.count == streams.ANEW[1] < spread.count <= patience.PATIENCE * streams.ANEW[1]
    assert streams.all_known(first["spread"]) or spread.count == patience.PATIENCE * streams.ANEW[1]


class Slow:
    """An engine that the machine leaves alone once it has been asked so many times."""

    name = "slow"

    def __init__(self, quiet_after: int) -> None:
        self._turns, self._quiet_after = 0, quiet_after

    def turn(self, shape: Shape) -> list[float]:
        self._turns += 1
        return [1.0] * 9 if self._turns > self._quiet_after else [1.5] * 3 if self._turns > 1 else [1.0, 1.5, 1.5]

    def stream(self, order: Sequence[Shape]) -> list[float]:
        self._turns += 1
        return [1.0 if self._turns > self._quiet_after else 1.0 + 0.5 * (self._turns % 2) for _ in order]

    def first(self, order: Sequence[Shape]) -> list[list[float]]:
        raise AssertionError("not asked for")


def test_steady_calls_go_on_until_the_machine_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE", 1e9)
    times = streams.steady([Slow(20)], [(1, 1)], 1e-6)["slow"][(1, 1)]
    assert patience.quiet([times])
    assert len(times) > 60


def test_streams_go_on_until_the_medians_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE", 1e9)
    times = streams.shuffled([Slow(30)], [(1, 1), (2, 2)], 1e-6)["slow"]
    assert streams.all_known(times)
    assert len(times[(1, 1)]) > 30
