"""Kernels made from equations beside onnxruntime (and NumPy), in one process, interleaved, one thread.

In: nothing; `--quick` measures less. Out: a table of times, of ratios to onnxruntime, and of the ratios that hand-written
kernels had on the machine they were measured on (the recipe). Ratios are what compares between machines.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from anyshape import dims
from anyshape.dims import Dim
from anyshape.equations import Tensor
from anyshape.lower import Group, PackedConstant
from benchmarks.gemm_measure import Array, aligned, timed
from tests.lower.groups import Builder, K, M, N
from tests.lower.native import Native

Call = Callable[[], object]
ROW_SHAPES = ((6144, 512), (6144, 128), (512, 768), (128, 1000), (8, 30522), (1000, 77), (4096, 1024))
SOFTMAX_RECIPE = (1.34, 1.08, 1.01, 0.95, 1.00, 1.31, 1.14)
LAYER_NORM_RECIPE = (2.99, 3.10, 3.46, 3.39, 2.37, 3.11, 2.06)
MLP_SHAPES = ((8, 768, 3072), (64, 768, 3072), (128, 768, 3072), (512, 256, 1024))
MLP_RECIPE = (1.35, 1.10, 1.13, 1.17)


@dataclass(frozen=True)
class Case:
    """A shape: what is called, and the ratio to reach."""

    name: str
    ours: Call
    onnx: Call
    numpy: Call
    recipe: float
    check: Callable[[], float]


def native_call(group: Group, arrays: dict[Tensor, Array], sizes: dict[Dim, int]) -> tuple[Call, list[Array]]:
    """A call of the bare kernel on fixed buffers."""
    native = Native(group)
    kernel = native.kernel
    scalars = np.array([int(dims.evaluate(s, sizes)) for s in kernel.scalars] or [0], np.int64)
    inputs = []
    for t in kernel.inputs:
        source = t.array if isinstance(t, PackedConstant) else arrays[t]
        place = aligned(*source.shape)
        place[...] = source
        inputs.append(place)
    outputs = [aligned(*(int(dims.evaluate(n, sizes)) for n in t.shape)) for t in kernel.outputs]
    scratch = aligned(int(dims.evaluate(kernel.scratch, sizes)) // 4 + 16)
    table = np.array([a.ctypes.data for a in (*inputs, *outputs)], np.uintp)
    args = (scalars.ctypes.data, table.ctypes.data, scratch.ctypes.data, 0, 1)
    keep = (scalars, table, inputs, scratch, native)

    def call(run: object = native.call, held: object = keep) -> object:
        return run(*args)

    return call, outputs


def onnx_call(nodes: list[object], inputs: dict[str, Array], constants: dict[str, Array], out: Array) -> Call:
    """onnxruntime on bound buffers, one thread, all its optimisations."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * a.ndim) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * out.ndim)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
    value = ort.OrtValue.ortvalue_from_numpy(out)
    binding.bind_ortvalue_output("y", value)

    def call() -> object:
        return session.run_with_iobinding(binding)

    call()
    out[...] = value.numpy()
    return call


def _difference(ours: Call, mine: Array, theirs: Array) -> float:
    ours()
    return float(np.max(np.abs(mine - theirs)))


def softmax_case(r: int, c: int, recipe: float) -> Case:
    b = Builder("softmax")
    x = b.input([N, M])
    b.output(b.softmax(x))
    a = np.random.default_rng(0).normal(size=(r, c)).astype(np.float32)
    ours, (y,) = native_call(b.group(), {x: a}, {N: r, M: c})
    z = np.empty_like(a)
    theirs = onnx_call([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": a}, {}, z)

    def by_numpy() -> Array:
        e: Array = np.exp(a - a.max(-1, keepdims=True))
        return np.asarray(e / e.sum(-1, keepdims=True), np.float32)

    return Case(f"softmax {r}x{c}", ours, theirs, by_numpy, recipe, lambda: _difference(ours, y, z))


def layer_norm_case(r: int, c: int, recipe: float) -> Case:
    b = Builder("layer_norm")
    x, s, t = b.input([N, M]), b.input([M]), b.input([M])
    b.output(b.layer_norm(x, s, t))
    rng = np.random.default_rng(0)
    a, p, q = (rng.normal(size=n).astype(np.float32) for n in ((r, c), c, c))
    ours, (y,) = native_call(b.group(), {x: a, s: p, t: q}, {N: r, M: c})
    z = np.empty_like(a)
    node = helper.make_node("LayerNormalization", ["x", "s", "t"], ["y"], axis=-1)
    theirs = onnx_call([node], {"x": a}, {"s": p, "t": q}, z)

    def by_numpy() -> Array:
        d = a - a.mean(-1, keepdims=True)
        return np.asarray(d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * p + q, np.float32)

    return Case(f"layer_norm {r}x{c}", ours, theirs, by_numpy, recipe, lambda: _difference(ours, y, z))


def mlp_case(m: int, k: int, n: int, recipe: float) -> Case:
    b = Builder("mlp")
    x, w, t = b.input([N, k]), b.input([k, n]), b.input([n])
    b.output(b.gelu(b.map(lambda p, q: p + q, b.matmul(x, w), t)))
    rng = np.random.default_rng(0)
    a, p, q = ((rng.normal(size=s) * 0.1).astype(np.float32) for s in ((m, k), (k, n), n))
    group = replace(b.group(), constants={w: p})
    ours, (y,) = native_call(group, {x: a, w: p, t: q}, {N: m, M: n, K: k})
    z = np.empty((m, n), np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["u"]),
        helper.make_node("Add", ["u", "t"], ["v"]),
        helper.make_node("Gelu", ["v"], ["y"]),
    ]
    theirs = onnx_call(nodes, {"x": a}, {"w": p, "t": q}, z)
    return Case(
        f"matmul+bias+gelu {m}x{k}x{n}", ours, theirs, lambda: a @ p + q, recipe, lambda: _difference(ours, y, z)
    )


def measure(case: Case, budget: float) -> tuple[float, float, float]:
    """Best time of batches of about 0.4 ms, the contenders in turn."""
    calls = [case.ours, case.onnx, case.numpy]
    repeats = [max(1, int(4e-4 / timed(c, 1))) for c in calls]
    best = [math.inf] * 3
    spent = 0.0
    while spent < budget:
        for at, c in enumerate(calls[: 3 if spent < budget / 6 else 2]):
            t = timed(c, repeats[at])
            spent += t * repeats[at]
            best[at] = min(best[at], t)
    return best[0], best[1], best[2]


def families() -> dict[str, Callable[[], list[Case]]]:
    return {
        "softmax": lambda: [softmax_case(*s, r) for s, r in zip(ROW_SHAPES, SOFTMAX_RECIPE)],
        "layer_norm": lambda: [layer_norm_case(*s, r) for s, r in zip(ROW_SHAPES, LAYER_NORM_RECIPE)],
        "matmul+bias+gelu": lambda: [mlp_case(*s, r) for s, r in zip(MLP_SHAPES, MLP_RECIPE)],
    }


REQUIRED = 0.8
"""The share of the recipe's ratios below which the run fails"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("families", nargs="*", default=[])
    options = parser.parse_args()
    slow = []
    for family, make in families().items():
        if options.families and family not in options.families:
            continue
        ours_to_recipe = []
        print(f"{'':28}     us   onnxruntime    numpy   ratio  recipe   max |difference|")
        for case in make():
            mine, theirs, plain = measure(case, 0.15 if options.quick else 0.8)
            ratio = theirs / mine
            ours_to_recipe.append(ratio / case.recipe)
            times = f"{mine * 1e6:8.1f} {theirs * 1e6:12.1f} {plain * 1e6:9.1f}"
            print(f"{case.name:28}{times} {ratio:7.2f} {case.recipe:7.2f}   {case.check():.1e}")
        mean = math.exp(sum(map(math.log, ours_to_recipe)) / len(ours_to_recipe))
        print(f"{family}: {mean:.0%} of the recipe's ratios to onnxruntime (geometric mean)\n")
        if mean < REQUIRED:
            slow.append(family)
    if slow:
        raise SystemExit(f"below {REQUIRED:.0%} of the recipe: {', '.join(slow)}")


if __name__ == "__main__":
    main()
