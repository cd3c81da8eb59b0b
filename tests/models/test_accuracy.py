"""Whole models beside float64: errors at most twice those of onnxruntime. `python -m benchmarks.accuracy` goes through all models."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import accuracy
from benchmarks.models import MODELS

QUICK = (
    "shape_heavy",
    "mlp",
    "lstm",
    "detection",
    "zoo_gpt2",
    "zoo_llama",
    "zoo_resnet",
    "zoo_experts",
    "zoo_detector",
)


@pytest.mark.parametrize("name", QUICK)
def test_errors_are_at_most_twice_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    models = dict(accuracy.models(tmp_path))
    assert set(MODELS) <= models.keys()
    compared = accuracy.compare(*models[name]())
    assert compared.theirs < accuracy.NO_ROUNDING and compared.ratio <= accuracy.LIMIT, compared


def test_errors_below_what_f32_can_tell_are_alike() -> None:
    near, far = accuracy.Errors(1e-9, 1e-12), accuracy.Errors(5e-7, 2e-7)
    assert near.ratio == 1.0 and far.ratio == pytest.approx(2.5)
