"""How long type inference of a whole BERT takes: import, one more inference of all types, and all passes, with symbolic dims.

    PYTHONPATH=runtime:generated python -m benchmarks.inference_speed [bert_base]

No weights are filled in beyond zeros: types do not look at them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from anyshape.frontends.onnx import load
from anyshape.graph import Function
from anyshape.passes import infer_types, optimise

from benchmarks.models.structure import FOLDER


def zero_weights(name: str) -> onnx.ModelProto:
    """The structure of a model, its large tensors filled with zeros."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    for tensor in model.graph.initializer:
        if not tensor.raw_data and not (tensor.float_data or tensor.int64_data or tensor.int32_data):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.raw_data = np.zeros(tuple(tensor.dims), dtype).tobytes()
    return model


def least(call: Callable[[], Any], times: int = 5) -> float:
    """CPU seconds of one call, the least of several."""
    found = []
    for _ in range(times):
        started = time.process_time()
        call()
        found.append(time.process_time() - started)
    return min(found)


def imported(name: str) -> Function:
    return load(zero_weights(name))


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "bert_base"
    f = imported(name)
    print(f"{name}: {len(f.nodes)} nodes")
    print(f"  infer_types {least(lambda: infer_types(f)) * 1e3:8.1f} ms")
    optimised = optimise(f)
    print(f"  optimise    {least(lambda: optimise(f)) * 1e3:8.1f} ms, leaving {len(optimised.nodes)} nodes")
    print(f"  again       {least(lambda: optimise(optimised)) * 1e3:8.1f} ms, nothing left to change")


if __name__ == "__main__":
    main()
