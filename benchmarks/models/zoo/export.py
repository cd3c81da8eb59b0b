"""Make the zoo's structures again: `python -m benchmarks.models.zoo.export [NAME ...]`; needs torch and transformers.

Comes in: the models of the `*_zoo` modules. Goes out: `../structures/zoo_*.onnx`, as torch's tracing exporter writes them, and for some a
second one by its newer exporter (`_dynamo`), each loaded by onnxruntime once and then stripped of its weights.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import onnxruntime
import torch

from benchmarks.models import structure
from benchmarks.models.zoo import detection_zoo, other_zoo, transformers_zoo, vision_zoo
from benchmarks.models.zoo.exported import Exported

MODELS: dict[str, Callable[[], Exported]] = {
    exported.__name__: exported
    for exported in (
        transformers_zoo.bert, transformers_zoo.gpt2, transformers_zoo.llama, transformers_zoo.t5, transformers_zoo.vit,
        transformers_zoo.swin, transformers_zoo.whisper, vision_zoo.resnet, vision_zoo.mobilenet, vision_zoo.unet,
        detection_zoo.detector,
        other_zoo.lstm, other_zoo.gru, other_zoo.greedy, other_zoo.experts, other_zoo.graph_network,
    )
}  # fmt: skip
BY_THE_NEWER_EXPORTER = ("resnet", "unet", "experts", "graph_network")
OPSETS = {"graph_network": 18}  # scatter with a maximum is of opset 18


def traced(name: str, path: Path) -> None:
    module, arguments, inputs, outputs, axes = MODELS[name]()
    torch.onnx.export(
        module.eval(), arguments, str(path), dynamo=False, opset_version=OPSETS.get(name, 17),
        input_names=list(inputs), output_names=list(outputs), dynamic_axes=axes,
    )  # fmt: skip


def captured(name: str, path: Path) -> None:
    module, arguments, inputs, outputs, axes = MODELS[name]()
    shapes = tuple(dict.fromkeys(axes.get(i, ()), torch.export.Dim.DYNAMIC) or None for i in inputs)
    program = torch.onnx.export(
        module.eval(), arguments, dynamo=True, opset_version=20, verbose=False,
        input_names=list(inputs), output_names=list(outputs), dynamic_shapes=shapes,
    )  # fmt: skip
    assert program is not None
    program.save(str(path))


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names or MODELS:
        exporters = {name: traced, **({f"{name}_dynamo": captured} if name in BY_THE_NEWER_EXPORTER else {})}
        for target, export in exporters.items():
            torch.manual_seed(0)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.onnx"
                export(name, path)
                onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
                bare = structure.strip(structure.renamed(onnx.load(path)))
            kept = structure.FOLDER / f"zoo_{target}.onnx"
            onnx.save(bare, kept)
            print(f"{target}: {len(bare.graph.node)} nodes, {kept.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
