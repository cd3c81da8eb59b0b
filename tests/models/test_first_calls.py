"""What is measured of decoding and of first calls of a process is what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import decoding, first_calls, streams
from benchmarks.models import load


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return load("gpt2").build(tmp_path_factory.mktemp("decoding") / "gpt2.onnx")


def test_steps_take_what_the_steps_before_gave(path: Path) -> None:
    ours, theirs = (decoding.Decoder(name, path, 1) for name in decoding.ENGINES)
    for d in (ours, theirs):
        d.begin(2, 3)
        assert d.steps(4) > 0
    assert [a.shape[2] for a in ours.last()[1:]] == [3 + 1 + 4] * 8
    assert decoding.difference(ours.last(), theirs.last()) < decoding.TOLERANCE
    assert decoding.difference([np.ones(3)], [np.zeros(3)]) == 1


def test_first_calls_of_a_process_are_those_of_an_engine_that_nobody_called(path: Path) -> None:
    engines: list[int] = []

    class Counting(streams.Local):
        def _passes(self, engine: object, *rest: object) -> list[list[float]]:
            engines.append(id(engine))
            return [[0.0] * 2] * streams.DATA

    runner = Counting(lambda: streams.Engine("none", lambda a: [], 0.0, lambda: 0), {(1, 1): [{}], (1, 2): [{}]})
    runner.first_of_process([(1, 1), (1, 2)])
    assert engines == [id(runner._engine)]
    runner.first([(1, 1), (1, 2)])
    assert engines[1] != engines[0]


def test_what_is_said_of_them() -> None:
    summary = first_calls.summary({(1, 1): [], (1, 7): [(1.0, 1.0), (3.0, 1.5), (1.25, 1.0)], (2, 9): [(1.5, 0.75)]})
    assert summary["first"] == pytest.approx({"p50": 1.375, "p95": 1.4875})
    assert summary["worst"] == [2, 9, 1.5]
    assert summary["second"]["p50"] == 0.875
