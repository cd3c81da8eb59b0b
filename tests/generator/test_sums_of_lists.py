"""Sums over the tensors of a list whose length only a run knows: of narrow floats kept in f32, and rounded once."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import anyshape
from tests.generator.installing import installed

SPEC = """
ops:
  mean_of_all:
    summary: The means, sums and greatest elements of the tensors of a list.
    inputs:  {xs: "seq F[n] for v in c"}
    outputs: {y: "F[n]", total: "F[n]", top: "F[n]"}
    kernel: |
      y[i]     = sum(xs[v][i] / c for v in c)
      total[i] = sum(xs[v][i] for v in c)
      top[i]   = max(xs[v][i] for v in c)
    reference: (sum(x / len(xs) for x in xs), sum(xs), np.max(xs, axis=0))
    examples:
      - {xs: {value: [[1, 2], [3, 6]]}, y: {value: [2, 4]}, total: {value: [4, 8]}, top: {value: [3, 6]}}
"""


@pytest.mark.parametrize("loop", ["native", "python"])
def test_narrow_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str) -> None:
    with installed("listed_ops", SPEC, tmp_path, monkeypatch) as name:
        ops = import_module(f"{name}.api")
        xs = anyshape.input("xs", "list[f16[3]]")
        means, totals, top = ops.mean_of_all(xs)
        run = anyshape.compile(anyshape.function([xs], [means, totals, top]), loop=loop)
        only_mean = anyshape.compile(anyshape.function([xs], means), loop=loop)
        large = [np.full(3, v, np.float16) for v in (60_000, 50_016, -60_000, -49_984)]
        small = [np.full(3, 1, np.float16)] * 3_000  # f16 has no odd numbers beyond 2,048
        for arrays, mean, total, most in ((large, 8, 32, 60_000), (small, 1, 3_000, 1)):
            got = run.run({"xs": arrays})
            assert [a.dtype for a in got] == [np.float16] * 3
            assert [a.tolist() for a in got] == [[mean] * 3, [total] * 3, [most] * 3]
            assert only_mean.run({"xs": arrays})[0].tolist() == [mean] * 3
