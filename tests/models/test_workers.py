"""Benchmarks' engines in processes of their own: they answer as an engine here would, and are stopped in between."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import anyshape
from benchmarks.models import load
from benchmarks.workers import Worker, workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def state(worker: Worker) -> str:
    return Path(f"/proc/{worker._process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_one_answers_while_the_others_are_stopped(tmp_path: Path) -> None:
    model = load("shape_heavy")
    path = model.build(tmp_path / "model.onnx")
    shapes = model.SHAPES[:3]
    calls = {shape: [model.inputs(*shape, seed=k) for k in range(2)] for shape in shapes}
    with workers(["anyshape", "anyshape"], path, 1, calls) as engines:
        assert [state(w) for w in engines] == ["T", "T"]
        expected = anyshape.compile(path, threads=1).run(calls[shapes[1]][0])
        for worker in engines:
            for a, b in zip(worker.results(calls[shapes[1]][0]), expected, strict=True):
                np.testing.assert_array_equal(a, b)
        assert len(engines[0].stream(shapes)) == 3
        assert all(len(p) == 2 and min(p) > 0 for p in engines[1].first(shapes))
        assert min(engines[0].turn(shapes[0])) > 0
        assert [state(w) for w in engines] == ["T", "T"]
        with pytest.raises(KeyError):
            engines[0].turn((0, 0))
    assert all(w._process.returncode is not None for w in engines)
