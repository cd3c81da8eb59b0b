"""What a product with weights of 4 bits takes, by the form of its zero points, and where its data may be rounded to bytes.

    python -m benchmarks.nbits [--threads 1]

Comes in: nothing; weights of 2048 x 2048 are drawn. Goes out: the least of 12 calls in ms, of anyshape and of onnxruntime, for 1 to 64
rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import anyshape

SIZE, BLOCK, CALLS = 2048, 32, 12
ROWS = (1, 2, 4, 8, 16, 32, 64)
RNG = np.random.default_rng(0)
BYTES = 4
"""The accuracy_level that permits products of bytes"""
FORMS: dict[str, dict[str, np.ndarray]] = {
    "none, or packed": {},
    "none, data in 8 bits": {},
    "floats": {"zero": (RNG.random((SIZE, SIZE // BLOCK)) * 4 + 6).astype(np.float32)},
    "none, columns by g_idx": {"order": RNG.permutation(np.arange(SIZE) // BLOCK).astype(np.int32)},
}


def model(accuracy: int = 0, **more: np.ndarray) -> onnx.ModelProto:
    weights = {
        "codes": RNG.integers(0, 256, (SIZE, SIZE // BLOCK, BLOCK // 2)).astype(np.uint8),
        "scale": (RNG.random(SIZE * SIZE // BLOCK) / 16).astype(np.float32),
        **more,
    }
    names = ["a", *(n if n in weights else "" for n in ("codes", "scale", "zero", "order"))]
    sizes = {"K": SIZE, "N": SIZE, "bits": 4, "block_size": BLOCK, "accuracy_level": accuracy}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **sizes)
    a = helper.make_tensor_value_info("a", TensorProto.FLOAT, ["rows", SIZE])
    kept = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph([node], "g", [a], [onnx.ValueInfoProto(name="y")], kept)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def least(call: Callable[[], Any]) -> float:
    taken = []
    for _ in range(CALLS + 1):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken[1:]) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser("nbits", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of both")
    threads = parser.parse_args().threads
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    print("| zero points | rows | anyshape, ms | onnxruntime, ms |\n|---|---|---|---|")
    for name, more in FORMS.items():
        proto = model(BYTES if name.endswith("8 bits") else 0, **more)
        ours = anyshape.compile(proto, threads=threads)
        theirs = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for rows in ROWS:
            feeds = {"a": RNG.normal(size=(rows, SIZE)).astype(np.float32)}
            mine = least(partial(ours.run, feeds))
            other = least(partial(theirs.run, None, feeds))
            print(f"| {name} | {rows} | {mine:.2f} | {other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
