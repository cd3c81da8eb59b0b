"""The matrix product beside onnxruntime and NumPy, one thread, contenders interleaved in one process.

    PYTHONPATH=runtime python benchmarks/gemm.py [--rows 1,8,64] [--variable-b] [--shift 16]

Each contender runs in batches of about half a millisecond, in turn, and its best batch counts: on a shared machine that
is the figure that repeats. `peak` is measured too, by twenty independent chains of multiply-adds.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import onnx
import onnxruntime
from gemm_measure import Array, aligned, best_times, measure_peak

from anyshape.lower import gemm
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import Loaded, compile_module
from anyshape.lower.llvm.types import F32, I64, PTR, const
from anyshape.lower.target import host_target

SHAPES = [(256, 256), (768, 768), (1024, 1024), (768, 3072), (3072, 768), (256, 1024)]
ROWS = [1, 2, 4, 8, 16, 64, 128, 512, 1024]


def product_kernel(prepacked: bool) -> Loaded:
    """Scalars m, n, k; buffers a, b, c."""
    module = Module(host_target())
    with module.kernel("product") as f:
        m, n, k = (f.load(f.arg("scalars"), I64, at) for at in range(3))
        a, b, c = (f.load(f.arg("buffers"), PTR, at) for at in range(3))
        right = gemm.Prepacked(b) if prepacked else gemm.Strided(b, n, 1)
        spec = gemm.ContractionSpec(
            element=F32, m=m, n=n, k=k, a=gemm.Strided(a, k, 1), b=right, c=gemm.Destination(c, n)
        )
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"))
        f.ret(const(f.result, 0))
    return compile_module(module, gemm.resolve(module.imports, module.target))


def own(
    loaded: Loaded, a: Array, b: Array, c: Array, k: int, n: int, prepacked: bool, shift: int
) -> Callable[[], object]:
    """`shift`: bytes, a multiple of 4, that the panels begin behind a line of the cache."""
    tiles = gemm.tiles_for(host_target(), F32)
    if prepacked:
        packed = gemm.prepack_b(b, tiles)
        b = aligned(packed.size + shift // 4)[shift // 4 :]
        b[...] = packed.reshape(-1)
    scratch = aligned(gemm.scratch_bytes(tiles, len(a), n, k, False) // 4 + 16)
    scalars = np.array([len(a), n, k])
    buffers = np.array([a.ctypes.data, b.ctypes.data, c.ctypes.data])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(loaded.address("product"))
    args = scalars.ctypes.data, buffers.ctypes.data, scratch.ctypes.data, 0, 1
    keep = (scalars, buffers, scratch, b)
    return lambda: (function(*args), keep)[0]


def onnx_call(a: Array, b: Array, c: Array, constant: bool) -> Callable[[], object]:
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("a", floats, [None, a.shape[1]])]
    weights = [onnx.numpy_helper.from_array(b, "b")] if constant else []
    if not constant:
        inputs.append(helper.make_tensor_value_info("b", floats, list(b.shape)))
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    outputs = [helper.make_tensor_value_info("c", floats, [None, b.shape[1]])]
    graph = helper.make_graph([node], "product", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in [("a", a)] + ([] if constant else [("b", b)]):
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    binding.bind_output("c", "cpu", 0, np.float32, c.shape, c.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def main() -> None:
    parser = argparse.ArgumentParser(description="The matrix product beside onnxruntime and NumPy, one thread.")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--budget", type=float, default=0.4, help="seconds per case")
    parser.add_argument("--variable-b", action="store_true", help="B is an input, not a constant")
    parser.add_argument(
        "--shift", type=int, default=0, help="bytes that a constant B begins behind a line of the cache"
    )
    options = parser.parse_args()
    peak = measure_peak()
    prepacked = not options.variable_b
    loaded = product_kernel(prepacked)
    print(
        f"peak {peak:.0f} GFLOP/s; {'constant' if prepacked else 'variable'} B; % of peak, then time of others / ours"
    )
    print(
        f"{'M':>5} {'K':>5} {'N':>5} {'us':>9} {'ours':>6} {'ort':>6} {'numpy':>6} {'ort/ours':>9} {'numpy/ours':>10}"
    )
    for m in map(int, options.rows.split(",")):
        ratios = []
        for k, n in SHAPES:
            rng = np.random.default_rng(0)
            a, b, c, d, e = aligned(m, k), aligned(k, n), aligned(m, n), aligned(m, n), aligned(m, n)
            a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
            calls = [own(loaded, a, b, c, k, n, prepacked, options.shift), onnx_call(a, b, d, prepacked)]
            calls.append(lambda a=a, b=b, e=e: np.matmul(a, b, out=e))
            times = best_times(calls, 2.0 * m * k * n, peak, options.budget)
            assert np.allclose(c, d, atol=1e-3 * math.sqrt(k))
            share = [200.0 * m * k * n / t / 1e9 / peak for t in times]
            ratios.append(times[1] / times[0])
            print(
                f"{m:5} {k:5} {n:5} {times[0] * 1e6:9.1f} {share[0]:6.1f} {share[1]:6.1f} {share[2]:6.1f}"
                f" {times[1] / times[0]:9.2f} {times[2] / times[0]:10.2f}",
                flush=True,
            )
        print(f"{m:5} geometric mean of ort/ours {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}", flush=True)


if __name__ == "__main__":
    main()
