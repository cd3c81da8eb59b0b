"""How long type inference of a whole BERT takes: one more inference of all types, and all passes, with symbolic dims.

PYTHONPATH=runtime:generated python -m benchmarks.inference_speed [bert_base]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import onnx

from anyshape.frontends.onnx import load
from anyshape.graph import Function
from anyshape.passes import infer_types, optimise
from benchmarks.models.structure import FOLDER, fill


def weighted(name: str) -> onnx.ModelProto:
    """The structure of a model with its seeded weights, in memory."""
    return fill(onnx.load(FOLDER / f"{name}.onnx"), seed=0)


def least(call: Callable[[], Any], times: int = 5) -> float:
    """CPU seconds of one call, the least of several."""
    counts = []
    for _ in range(times):
        started = time.process_time()
        call()
        counts.append(time.process_time() - started)
    return min(counts)


def imported(name: str) -> Function:
    return load(weighted(name))


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
