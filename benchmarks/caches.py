"""What ONNX's Attention takes for one query, by what keys and values are in memory.

    python -m benchmarks.caches [--threads 1] [--rounds 40]

Comes in: nothing; queries, keys and values are drawn. Goes out: the least time of a call in us, in turns: of f32, multiplied exactly and
rounded to bf16 (`precision="bf16"`), of bf16 that is widened by Cast, and of bytes with constant scales, one or one for each element, by
DequantizeLinear; and what onnxruntime takes for the first of these. The code of another checkout is measured with its `runtime` and
`generated` first in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import anyshape
from anyshape.precision import Precision

SHAPES = ((32, 8, 128), (64, 8, 128), (12, 12, 64))
"""Heads of queries, heads of keys, elements of each."""
TOKENS = (100, 1000, 4000)
RNG = np.random.default_rng(0)
FORMS: dict[str, tuple[int, Precision, tuple[str, ...]]] = {
    "f32": (TensorProto.FLOAT, "exact", ()),
    "f32, as bf16": (TensorProto.FLOAT, "bf16", ()),
    "bf16": (TensorProto.BFLOAT16, "exact", ("Cast",)),
    "i8, one scale": (TensorProto.INT8, "exact", ("DequantizeLinear",)),
    "i8, scales of elements": (TensorProto.INT8, "exact", ("DequantizeLinear", "each")),
}


def model(shape: tuple[int, int, int], stored: int, before: tuple[str, ...]) -> ModelProto:
    heads, groups, width = shape
    lies = {"q": (TensorProto.FLOAT, heads, "s"), "k": (stored, groups, "t"), "v": (stored, groups, "t")}
    inputs = [
        helper.make_tensor_value_info(n, dtype, ["b", h, tokens, width]) for n, (dtype, h, tokens) in lies.items()
    ]
    scale = RNG.uniform(0.01, 0.03, width if "each" in before else ()).astype(np.float32)
    constants = [numpy_helper.from_array(scale, "scale")] if "DequantizeLinear" in before else []
    nodes = []
    for name in "kv" if before else "":
        if before[0] == "Cast":
            nodes.append(helper.make_node("Cast", [name], [f"{name}0"], to=TensorProto.FLOAT))
        else:
            nodes.append(helper.make_node(before[0], [name, "scale"], [f"{name}0"], axis=3))
    names = ["q", "k0", "v0"] if before else ["q", "k", "v"]
    nodes.append(helper.make_node("Attention", names, ["y"]))
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "step", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def arguments(shape: tuple[int, int, int], stored: int, tokens: int) -> dict[str, Any]:
    heads, groups, width = shape
    dtype = helper.tensor_dtype_to_np_dtype(stored)

    def drawn(*of: int) -> Any:
        return RNG.normal(size=of) * (40 if dtype.kind == "i" else 1)

    return {
        "q": RNG.normal(size=(1, heads, 1, width)).astype(np.float32),
        "k": np.clip(drawn(1, groups, tokens, width), -127, 127).astype(dtype),
        "v": np.clip(drawn(1, groups, tokens, width), -127, 127).astype(dtype),
    }


def least(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The least seconds of each, in turns."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for k, call in enumerate(calls):
            call()  # what the others left in the caches
            start = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser("caches", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of both")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of turns")
    options = parser.parse_args()
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = options.threads
    print("| heads, of keys, elements | tokens | " + " | ".join([*FORMS, "onnxruntime, f32"]) + " |")
    print("|---|---|" + "---|" * (len(FORMS) + 1))
    for shape in SHAPES:
        ours = {
            name: anyshape.compile(model(shape, stored, before), precision=precision, threads=options.threads)
            for name, (stored, precision, before) in FORMS.items()
        }
        proto = model(shape, TensorProto.FLOAT, ()).SerializeToString()
        theirs = onnxruntime.InferenceSession(proto, session_options, providers=["CPUExecutionProvider"])
        for tokens in TOKENS:
            calls = [partial(exe.run, arguments(shape, FORMS[name][0], tokens)) for name, exe in ours.items()]
            calls.append(partial(theirs.run, None, arguments(shape, TensorProto.FLOAT, tokens)))
            cells = " | ".join(f"{seconds * 1e6:.0f}" for seconds in least(calls, options.rounds))
            print(f"| {', '.join(map(str, shape))} | {tokens} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
