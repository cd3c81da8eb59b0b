"""What a call costs that computes next to nothing: an add of four floats, here and in other engines, in one process, in turns.

    PYTHONPATH=runtime:generated python -m benchmarks.call_overhead [--json out.json]

Prints the least nanoseconds per call over many batches, for calls by position, from a dict, with a given array for the result, through
DLPack, and by the Python loop; in the other engines also with inputs and results bound once, which saves them Python's work at a call.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import onnx
import onnxruntime

import anyshape
from benchmarks.engines import available, onnxruntime_options
from benchmarks.op_engines import ENGINES

BATCHES, CALLS = 60, 500


def model() -> onnx.ModelProto:
    kinds = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n"]) for n in "xwy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "add", kinds[:2], kinds[2:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


def session(m: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(
        m.SerializeToString(), onnxruntime_options(1), providers=["CPUExecutionProvider"]
    )


def bound(name: str, inputs: dict[str, Any], result: Any) -> Callable[[], object]:
    """Engines may keep addresses of the arrays only."""
    _, build = ENGINES[name](model().SerializeToString(), 1)
    call = build(inputs, {"y": result})
    call()
    assert (result == inputs["x"] + inputs["w"]).all()
    return call


class Foreign:
    """An array that speaks only DLPack."""

    def __init__(self, a: Any) -> None:
        self.__dlpack__, self.__dlpack_device__ = a.__dlpack__, a.__dlpack_device__


def contenders() -> dict[str, Callable[[], object]]:
    m = model()
    executable, slow, theirs = anyshape.compile(m), anyshape.compile(m, loop="python"), session(m)
    x, w = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    inputs, place, *places = {"x": x, "w": w}, *np.empty((3, 4), np.float32)
    p, q = Foreign(x), Foreign(w)
    names = available(["onnxruntime", "openvino"])
    peers = {f"{n}, bound": bound(n, inputs, result) for n, result in zip(names, places, strict=False)}
    assert (executable(x, w) == x + w).all() and (executable(p, q) == x + w).all()
    return {
        "numpy, x + w": lambda: x + w,
        "anyshape, called": lambda: executable(x, w),
        "anyshape, run": lambda: executable.run(inputs),
        "anyshape, run into a given array": lambda: executable.run(inputs, {"y": place}),
        "anyshape, called with DLPack": lambda: executable(p, q),
        "anyshape, the Python loop": lambda: slow(x, w),
        "onnxruntime, run": lambda: theirs.run(None, inputs),
        **peers,
    }


def measured(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(BATCHES):
        for name, call in calls.items():
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            least[name] = min(least[name], (time.perf_counter() - started) / CALLS * 1e9)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    least = measured(contenders())
    for name, ns in least.items():
        print(f"{name:34} {ns:8.0f} ns")
    if options.json:
        options.json.write_text(json.dumps(least, indent=1))


if __name__ == "__main__":
    main()
