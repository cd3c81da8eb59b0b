"""Models of `benchmarks.models` as they are, and with integers of 8 bits, as onnxruntime's tools quantise them, for `benchmarks.networks`.

In: the name of a model, and how it is quantised: activations at each call, or by ranges of sample calls, in the form of QDQ or of QLinear
operators. Out: a case.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import onnx
from onnx import ModelProto

from benchmarks.lines import Array
from benchmarks.models import load
from benchmarks.op_cases import Sizes

TOLERANCE = 0.2
"""The tolerance as a share of the largest result: a rounding that differs by a step at one layer moves what follows by steps, too."""
SAMPLES = 2
"""Number of sizes, the last ones, at which calls have the ranges that are taken."""
Form = Literal["f32", "dynamic", "QDQ", "QOperator"]
PRODUCTS = ("MatMul", "Gemm")
OF_IMAGES = ("Conv", "Add", "GlobalAveragePool", "MaxPool", "Flatten", *PRODUCTS)


@dataclass(frozen=True)
class Quantised:
    """A model of `benchmarks.models`; `at` has its two sizes. `quantises`: the operators that are quantised by ranges of calls."""

    operator: str
    of: str
    form: Form
    at: tuple[Sizes, ...]
    quantises: tuple[str, ...] = PRODUCTS
    name: str = ""
    new: bool = False
    steps: int = 0
    unordered: bool = False
    tolerance: float | None = TOLERANCE

    @property
    def outputs(self) -> list[str]:
        return [o.name for o in self.model().graph.output]

    def model(self) -> ModelProto:
        return _model(self.of, self.form, self.quantises, tuple(tuple(sizes.values()) for sizes in self.at[-SAMPLES:]))

    def arrays(self, sizes: Sizes) -> dict[str, Array]:
        taken = {i.name for i in self.model().graph.input}
        return {n: a for n, a in load(self.of).inputs(*sizes.values()).items() if n in taken}


@cache
def _model(name: str, form: Form, operators: tuple[str, ...], samples: Sequence[Sequence[int]]) -> ModelProto:
    from onnxruntime import quantization

    class Samples(quantization.CalibrationDataReader):
        """Calls, by which ranges are found."""

        def __init__(self) -> None:
            self._calls: Iterator[Any] = (load(name).inputs(*sizes) for sizes in samples)

        def get_next(self) -> Any:
            return next(self._calls, None)

    with tempfile.TemporaryDirectory() as folder, _without_warnings():
        path, quantised = load(name).build(Path(folder) / "m.onnx"), Path(folder) / "q.onnx"
        if form == "f32":
            return onnx.load(path)
        if form == "dynamic":
            quantization.quantize_dynamic(path, quantised, weight_type=quantization.QuantType.QInt8)
        else:
            quantization.quantize_static(
                path, quantised, Samples(), quant_format=quantization.QuantFormat[form], op_types_to_quantize=[*operators],
                per_channel=True,
            )  # fmt: skip
        return onnx.load(quantised)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Code in which the tools do not advise to prepare the model first, which they do for every tensor."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    yield
    logging.disable(before)


def _sizes(pairs: Sequence[tuple[int, int]]) -> tuple[Sizes, ...]:
    return tuple({"batch": b, "length": n} for b, n in pairs)


_OF_BERT = _sizes([(1, 1), (1, 16), (1, 128), (4, 128)])
_OF_IMAGES = _sizes([(1, 64), (1, 97), (1, 224), (4, 96)])
MODELS = {
    m.operator: m
    for m in (
        Quantised("bert_mini, quantised dynamically", "bert_mini", "dynamic", _OF_BERT),
        Quantised("bert_mini, QDQ", "bert_mini", "QDQ", _OF_BERT),
        Quantised("mobilenet", "mobilenet", "f32", _OF_IMAGES),
        Quantised("resnet18", "resnet18", "f32", _OF_IMAGES),
        Quantised("mobilenet, QDQ", "mobilenet", "QDQ", _OF_IMAGES, OF_IMAGES),
        Quantised("mobilenet, QLinear", "mobilenet", "QOperator", _OF_IMAGES, OF_IMAGES),
        Quantised("resnet18, QDQ", "resnet18", "QDQ", _OF_IMAGES, OF_IMAGES),
        Quantised("resnet18, QLinear", "resnet18", "QOperator", _OF_IMAGES, OF_IMAGES),
    )
}
