"""Make the zoo's structures again: `python -m benchmarks.models.zoo.export [NAME ...]`; needs torch and transformers.

Comes in: the models of the `*_zoo` modules. Goes out: `../structures/zoo_*.onnx`, as torch's tracing exporter writes them, and for some a
second one by its newer exporter (`_dynamo`), each loaded by onnxruntime once and then stripped of its weights.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import onnx
import onnxruntime
import torch

from benchmarks.models import structure
from benchmarks.models.zoo import (
    audio_zoo,
    branching_zoo,
    dense_zoo,
    detection_zoo,
    other_zoo,
    table_zoo,
    transformers_zoo,
    vision_zoo,
)  # fmt: skip
from benchmarks.models.zoo.exported import Exported

MODELS: dict[str, Callable[[], Exported]] = {
    exported.__name__: exported
    for exported in (
        transformers_zoo.bert, transformers_zoo.gpt2, transformers_zoo.llama, transformers_zoo.t5, transformers_zoo.vit,
        transformers_zoo.swin, transformers_zoo.whisper, vision_zoo.resnet, vision_zoo.mobilenet, vision_zoo.unet,
        detection_zoo.detector,
        other_zoo.lstm, other_zoo.gru, other_zoo.greedy, other_zoo.experts, other_zoo.graph_network,
        audio_zoo.spectrum, audio_zoo.codec, dense_zoo.segmenter, dense_zoo.denoiser, dense_zoo.yolo, table_zoo.columns,
        table_zoo.forecast, branching_zoo.chunked, branching_zoo.state_space,
    )
}  # fmt: skip
BY_THE_NEWER_EXPORTER = {
    "resnet", "unet", "experts", "graph_network", "bert", "llama", "whisper", "vit", "segmenter", "spectrum", "codec", "denoiser", "yolo",
    "columns", "forecast", "state_space",
}  # fmt: skip
BY_IT_ALONE = {"state_space", "spectrum", "forecast"}
OPSETS = {"graph_network": 18}  # scatter with a maximum is of opset 18
NEWER_OPSETS = {"denoiser": 23, "llama": 23, "columns": 23, "codec": 18}  # 20 else; Attention is of opset 23


def traced(name: str, path: Path) -> None:
    module, arguments, inputs, outputs, axes = MODELS[name]()
    torch.onnx.export(
        module.eval(), arguments, str(path), dynamo=False, opset_version=OPSETS.get(name, 17),
        input_names=list(inputs), output_names=list(outputs), dynamic_axes=axes,
    )  # fmt: skip


def captured(name: str, path: Path) -> None:
    module, arguments, inputs, outputs, axes = MODELS[name]()
    shapes = tuple(dict.fromkeys(axes.get(i, ()), torch.export.Dim.DYNAMIC) or None for i in inputs)
    takes_any_number = any(p.kind is p.VAR_POSITIONAL for p in signature(module.forward).parameters.values())
    program = torch.onnx.export(
        module.eval(), arguments, dynamo=True, opset_version=NEWER_OPSETS.get(name, 20), verbose=False,
        input_names=list(inputs), output_names=list(outputs), dynamic_shapes=(shapes,) if takes_any_number else shapes,
    )  # fmt: skip
    assert program is not None
    program.save(str(path))


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names or MODELS:
        exporters = {} if name in BY_IT_ALONE else {name: traced}
        exporters |= {f"{name}_dynamo": captured} if name in BY_THE_NEWER_EXPORTER else {}
        for target, export in exporters.items():
            torch.manual_seed(0)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.onnx"
                export(name, path)
                onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
                bare = structure.strip(structure.renamed(onnx.load(path)))
            structure.keep(bare, target)


if __name__ == "__main__":
    main(sys.argv[1:])
