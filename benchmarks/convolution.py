"""Convolutions beside onnxruntime on one thread: a layer of a residual network, a depthwise one, a pointwise one.

    python -m benchmarks.convolution [--seconds 1]

Prints the least processor time of each over alternating runs, which other processes disturb little, and onnxruntime's over ours.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import anyshape

LAYERS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int]] = {
    "3x3, 64 to 64 of 56x56": ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    "depthwise 3x3, 128 of 56x56": ((1, 128, 56, 56), (128, 1, 3, 3), 128, 1),
    "1x1, 128 to 128 of 28x28": ((1, 128, 28, 28), (128, 128, 1, 1), 1, 0),
}
"""Shape of x, shape of the weights, groups, pads."""


def model(x: tuple[int, ...], w: tuple[int, ...], groups: int, pad: int) -> bytes:
    """One convolution of which batch, height and width are unknown."""
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.normal(size=w).astype(np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=groups, pads=[pad] * 4)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", x[1], "h", "v"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", w[0], "h", "v"])]
    graph = helper.make_graph([node], "layer", inputs, outputs, [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(made.SerializeToString())


def least(runs: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least time of each, in seconds, taking turns."""
    best = [float("inf")] * len(runs)
    end = time.process_time() + seconds
    while time.process_time() < end:
        for k, run in enumerate(runs):
            start = time.process_time()
            run()
            best[k] = min(best[k], time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.0)
    seconds = parser.parse_args().seconds
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for name, layer in LAYERS.items():
        data = model(*layer)
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        exe = anyshape.compile(data)
        x = np.random.default_rng(1).normal(size=layer[0]).astype(np.float32)
        np.testing.assert_allclose(exe(x), session.run(None, {"x": x})[0], rtol=1e-3, atol=1e-3)
        ours, theirs = least([partial(exe, x), partial(session.run, None, {"x": x})], seconds)
        print(f"{name:30} {ours * 1e6:9.0f} us, onnxruntime {theirs * 1e6:9.0f} us: {theirs / ours:.2f}")


if __name__ == "__main__":
    main()
