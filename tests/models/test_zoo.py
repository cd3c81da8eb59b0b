"""Small models of many kinds as exporters write them, each compiled once and beside onnxruntime at several shapes; some quantised too.

ANYSHAPE_LONG=1 takes those of `LONGER` as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime import quantization

import anyshape
from anyshape_testing.process.profile import LONG
from benchmarks.models import structure
from benchmarks.models.zoo.arguments import MAKERS, calls

NAMES = sorted(p.stem.removeprefix("zoo_") for p in structure.FOLDER.glob("zoo_*.onnx"))

LONGER = frozenset({
    "codec", "columns", "denoiser", "denoiser_dynamo", "lightgbm", "llama_dynamo", "optimum_clip", "optimum_deberta", "optimum_detr",
    "optimum_distilbert", "optimum_mobilevit", "optimum_qwen2", "optimum_segformer", "optimum_whisper_decoder", "segmenter",
    "segmenter_dynamo", "sklearn_support_vectors", "tf_separable", "vit_dynamo", "whisper_dynamo", "yolo",
})  # fmt: skip
"""Models that have much in common with others: they take twice as long as the rest"""


def peer(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # exporters declare shapes that are not what comes out
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def agrees(path: Path, name: str, tolerance: float) -> None:
    """One compile, several shapes, then the first one again; the bits of equal calls are equal."""
    ours, theirs = anyshape.compile(path), peer(path)
    first: list[Any] = []
    for k, arrays in enumerate([*calls(name), calls(name)[0]]):
        feed = {i.name: arrays[i.name] for i in theirs.get_inputs()}
        results = ours.run(feed)
        for got, want in zip(results, theirs.run(None, feed), strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(
                got, want, rtol=0, atol=tolerance * max(1.0, np.abs(want).max(initial=0)), err_msg=f"call {k}"
            )
        if k == 0:
            first = results
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, results, strict=True))
    assert all(np.abs(a).max() > 1e-3 for a in first if a.size), "weights that make results of zeros test nothing"


def test_every_model_of_the_zoo_is_here() -> None:
    assert {n.removesuffix("_dynamo") for n in NAMES} == set(MAKERS) and set(NAMES) > LONGER


@pytest.mark.parametrize("name", NAMES if LONG else [n for n in NAMES if n not in LONGER])
def test_agrees_with_onnxruntime(name: str, tmp_path: Path) -> None:
    path = structure.build(f"zoo_{name}", tmp_path / "m.onnx", seed=7)
    agrees(path, name, 2e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_dynamically_quantised(name: str, tmp_path: Path) -> None:
    """Weights as 8-bit integers, activations quantised at each call: DynamicQuantizeLinear and MatMulInteger."""
    path = structure.build(f"zoo_{name}", tmp_path / "m.onnx", seed=7)
    quantization.quantize_dynamic(path, tmp_path / "q.onnx", weight_type=quantization.QuantType.QInt8)
    assert "MatMulInteger" in {n.op_type for n in onnx.load(tmp_path / "q.onnx").graph.node}
    agrees(tmp_path / "q.onnx", name, 0.02)


class Samples(quantization.CalibrationDataReader):
    """The calls of a model, for its ranges to be found by."""

    def __init__(self, name: str) -> None:
        self._calls = iter(calls(name))

    def get_next(self) -> Any:
        return next(self._calls, None)


def test_quantised_with_samples(tmp_path: Path) -> None:
    """QuantizeLinear and DequantizeLinear around everything, with scales of one element."""
    path = structure.build("zoo_resnet", tmp_path / "m.onnx", seed=7)
    quantised = tmp_path / "q.onnx"
    quantization.quantize_static(path, quantised, Samples("resnet"), quant_format=quantization.QuantFormat.QDQ)
    assert "DequantizeLinear" in {n.op_type for n in onnx.load(quantised).graph.node}
    agrees(quantised, "resnet", 0.05)
