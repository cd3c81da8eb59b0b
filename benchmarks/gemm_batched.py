"""Batches of small products, B variable or transposed, beside onnxruntime and NumPy: the shapes of attention.

PYTHONPATH=runtime python benchmarks/gemm_batched.py
"""

from __future__ import annotations

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

CASES = [
    (48, 128, 64, 128, False),
    (48, 128, 128, 64, False),
    (12, 512, 64, 512, False),
    (12, 512, 512, 64, False),
    (48, 17, 64, 23, False),
    (48, 1, 64, 128, False),
    (48, 128, 64, 128, True),
    (12, 512, 64, 512, True),
    (12, 77, 64, 77, True),
    (48, 1, 64, 128, True),
]


def product_kernel(transposed: bool) -> Loaded:
    """Scalars batch, m, n, k; buffers a, b, c."""
    module = Module(host_target())
    with module.kernel("product") as f:
        batch, m, n, k = (f.load(f.arg("scalars"), I64, at) for at in range(4))
        a, b, c = (f.load(f.arg("buffers"), PTR, at) for at in range(3))
        loops = [gemm.Batch(batch, f.mul(m, k), f.mul(k, n), f.mul(m, n))]
        right = gemm.Strided(b, 1, k) if transposed else gemm.Strided(b, n, 1)
        spec = gemm.ContractionSpec(
            element=F32, m=m, n=n, k=k, a=gemm.Strided(a, k, 1), b=right, c=gemm.Destination(c, n), batch=loops
        )
        gemm.emit_contraction(f, spec, f.arg("scratch"), f.arg("part"), f.arg("nparts"))
        f.ret(const(f.result, 0))
    return compile_module(module, gemm.resolve(module.imports, module.target))


def own(loaded: Loaded, a: Array, b: Array, c: Array, k: int) -> Callable[[], object]:
    batch, m, n = c.shape
    tiles = gemm.tiles_for(host_target(), F32)
    scratch = aligned(gemm.scratch_bytes(tiles, m, n, k, True) // 4 + 16)
    scalars = np.array([batch, m, n, k])
    buffers = np.array([a.ctypes.data, b.ctypes.data, c.ctypes.data])
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 5)(loaded.address("product"))
    args = scalars.ctypes.data, buffers.ctypes.data, scratch.ctypes.data, 0, 1
    keep = (scalars, buffers, scratch)
    return lambda: (function(*args), keep)[0]


def onnx_call(a: Array, b: Array, c: Array, transposed: bool) -> Callable[[], object]:
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(name, floats, list(x.shape)) for name, x in (("a", a), ("b", b))]
    outputs = [helper.make_tensor_value_info("c", floats, list(c.shape))]
    nodes = [helper.make_node("MatMul", ["a", "t" if transposed else "b"], ["c"])]
    if transposed:
        nodes.insert(0, helper.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]))
    graph = helper.make_graph(nodes, "product", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in (("a", a), ("b", b)):
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    binding.bind_output("c", "cpu", 0, np.float32, c.shape, c.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def main() -> None:
    peak = measure_peak()
    kernels = {flag: product_kernel(flag) for flag in (False, True)}
    print(f"peak {peak:.0f} GFLOP/s; % of peak, then time of others / ours")
    for batch, m, k, n, transposed in CASES:
        rng = np.random.default_rng(0)
        a, c, d = aligned(batch, m, k), aligned(batch, m, n), aligned(batch, m, n)
        b = aligned(batch, n, k) if transposed else aligned(batch, k, n)
        a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
        right = b.swapaxes(1, 2) if transposed else b
        calls = [own(kernels[transposed], a, b, c, k), onnx_call(a, b, d, transposed), lambda a=a, r=right: a @ r]
        flops = 2.0 * batch * m * k * n
        times = best_times(calls, flops, peak, 0.5)
        assert np.allclose(c, d, atol=1e-3 * math.sqrt(k))
        share = [100 * flops / t / 1e9 / peak for t in times]
        print(
            f"{batch:3} x {m:4} {k:4} {n:4} {'B^T' if transposed else '   '} {times[0] * 1e6:9.1f} us"
            f" {share[0]:6.1f} {share[1]:6.1f} {share[2]:6.1f}   ort {times[1] / times[0]:5.2f}"
            f"   numpy {times[2] / times[0]:5.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
