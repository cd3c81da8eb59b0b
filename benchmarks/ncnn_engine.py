"""ncnn behind the words of `engines.py`: its text of layers and its file of weights, written from an ONNX model by `layers.py`.

ncnn has no batches: another than one raises ValueError. It computes f32 as asked here, its default for x86 but for bf16, which is off.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from benchmarks.layers import Layer, Network, network
from benchmarks.lines import Array

MAGIC = 7767517
"""The first line of ncnn's text of layers"""
_MAX, _MEAN = 0, 1
_NAMES = {"Relu": "ReLU", "Sigmoid": "Sigmoid", "Flatten": "Flatten", "Identity": "Noop"}
Call = Callable[[], object]


def compiled(model: ModelProto, threads: int) -> Callable[[Mapping[str, Array]], Callable[[], list[Any]]]:
    """A function that binds arguments, and gives a call without any. Raises ValueError for a layer that is not written here."""
    import ncnn

    layers = network(model)
    net = ncnn.Net()
    net.opt.num_threads, net.opt.use_vulkan_compute = threads, False
    net.opt.use_bf16_storage = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    text, weights = written(layers)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "net.param").write_text(text)
        (Path(folder) / "net.bin").write_bytes(weights)
        if net.load_param(f"{folder}/net.param") or net.load_model(f"{folder}/net.bin"):
            raise ValueError("ncnn does not read these layers")

    def bind(arguments: Mapping[str, Array]) -> Callable[[], list[Any]]:
        if any(len(a) != 1 for a in arguments.values()):
            raise ValueError("ncnn has no batches")
        mats = {n: ncnn.Mat(np.ascontiguousarray(arguments[n][0])) for n in layers.inputs}

        def call() -> list[Any]:
            extractor = net.create_extractor()
            for name, mat in mats.items():
                extractor.input(name, mat)
            return [extractor.extract(name)[1] for name in layers.outputs]

        return call

    return bind


def arrays(results: Sequence[Any]) -> list[Array]:
    """Results as arrays, with the batch that they have not."""
    return [np.array(r)[None] for r in results]


def written(of: Network) -> tuple[str, bytes]:
    """The text of layers, and the bytes of their weights."""
    readers = Counter(name for layer in of.layers for name in layer.inputs) + Counter(of.outputs)
    lines, weights, blobs, taken = [], b"", 0, Counter[str]()

    def own(name: str) -> str:
        """The name of a value for its next reader: each has one of its own."""
        taken[name] += 1
        return name if readers[name] == 1 or name in of.outputs else f"{name}/{taken[name]}"

    def put(kind: str, inputs: Sequence[str], output: str, fields: str = "") -> None:
        nonlocal blobs
        lines.append(f"{kind} {output} {len(inputs)} 1 {' '.join([*inputs, output])} {fields}".rstrip())
        blobs += 1
        if readers[output] > 1 and output not in of.outputs:
            copies = [f"{output}/{k + 1}" for k in range(readers[output])]
            lines.append(f"Split split/{output} 1 {len(copies)} {output} {' '.join(copies)}")
            blobs += len(copies)

    for name in of.inputs:
        put("Input", [], name)
    for layer in of.layers:
        kind, fields = _spelled(layer)
        put(kind, [own(name) for name in layer.inputs], layer.output, fields)
        if layer.weights is not None and layer.bias is not None:
            flag = np.zeros(1, np.int32)  # f32
            weights += b"".join(np.ascontiguousarray(a).tobytes() for a in (flag, layer.weights, layer.bias))
    return "\n".join([str(MAGIC), f"{len(lines)} {blobs}", *lines, ""]), weights


def _spelled(layer: Layer) -> tuple[str, str]:
    """The kind of a layer, and its numbered fields."""
    (kh, kw), (sh, sw), (dh, dw), (top, left, bottom, right) = layer.kernel, layer.strides, layer.dilations, layer.pads
    match layer.operator:
        case "Conv":
            assert layer.weights is not None
            fields = f"0={len(layer.weights)} 1={kw} 11={kh} 2={dw} 12={dh} 3={sw} 13={sh} 4={left} 14={top} 15={right} 16={bottom}"
            fields += f" 5=1 6={layer.weights.size}" + (f" 7={layer.groups}" if layer.groups > 1 else "")
            return ("ConvolutionDepthWise" if layer.groups > 1 else "Convolution"), fields + _activation(layer)
        case "Gemm":
            assert layer.weights is not None
            return "InnerProduct", f"0={len(layer.weights)} 1=1 2={layer.weights.size}"
        case "MaxPool" | "AveragePool" | "GlobalAveragePool" if layer.dilations == (1, 1):
            kind = _MAX if layer.operator == "MaxPool" else _MEAN
            if layer.operator == "GlobalAveragePool":
                return "Pooling", f"0={kind} 4=1"
            return "Pooling", f"0={kind} 1={kw} 11={kh} 2={sw} 12={sh} 3={left} 13={top} 14={right} 15={bottom} 5=1"
        case "Add" | "Mul":
            return "BinaryOp", f"0={0 if layer.operator == 'Add' else 2}"
        case "Concat":
            return "Concat", "0=0"
        case "Clip" if layer.range is not None:
            return "Clip", "0={} 1={}".format(*layer.range)
    if layer.operator in _NAMES:
        return _NAMES[layer.operator], ""
    raise ValueError(f"{layer.operator} of this form is not written for ncnn")


def _activation(layer: Layer) -> str:
    if layer.range is None:
        return ""
    low, high = layer.range
    return " 9=1" if (low, high) == (0.0, float("inf")) else f" 9=3 -23310=2,{low:e},{high:e}"
