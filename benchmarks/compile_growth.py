"""How compiling grows: seconds of the processor, the most memory and the code, for graphs that are long, wide, deep or all constants.

    PYTHONPATH=runtime:generated:. python -m benchmarks.compile_growth [sigmoid split forest ...] [--sizes 100 1000]

Each row is a process of its own, without an object cache; imports and the compile of a graph of two nodes come first and do not
count. Seconds are those of all threads. `per node` falls where kernels of one form are shared, and must not rise with the size.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

Nodes = list[NodeProto]
make = helper.make_node


def _value(name: str, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, 1, shape)


def _model(
    nodes: Nodes, inputs: Mapping[str, Any], outputs: list[str], weights: Mapping[str, Any] | None = None
) -> ModelProto:
    named = [numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()]
    ins, outs = [_value(n, s) for n, s in inputs.items()], [_value(n, None) for n in outputs]
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", ins, outs, named), opset_imports=domains, ir_version=8)


def chain(*ops: str) -> Callable[[int], ModelProto]:
    """Ops in a row, in turns."""

    def model(n: int) -> ModelProto:
        nodes = []
        for k in range(n):
            op, more = ops[k % len(ops)], ["x"] if ops[k % len(ops)] in ("Add", "Mul") else []
            nodes.append(make(op, [f"a{k - 1}" if k else "x", *more], [f"a{k}"]))
        return _model(nodes, {"x": ["n", "m"]}, [f"a{n - 1}"])

    return model


def split(n: int) -> ModelProto:
    outputs = [f"y{k}" for k in range(n)]
    return _model([make("Split", ["x"], outputs, axis=1, num_outputs=n)], {"x": ["n", 2 * n]}, outputs)


def variadic(op: str, **attributes: int) -> Callable[[int], ModelProto]:
    """Returns what makes a model of one op with so many operands."""

    def model(n: int) -> ModelProto:
        inputs = {f"x{k}": ["n", 2] for k in range(n)}
        return _model([make(op, [*inputs], ["y"], **attributes)], inputs, ["y"])

    return model


def scalers(n: int) -> ModelProto:
    """Imputer and Scaler in turns, of other constants each."""
    nodes = []
    for k in range(n):
        numbers = [1.0 + k + j for j in range(4)]
        attributes: dict[str, Any] = (
            {"offset": numbers, "scale": numbers}
            if k % 2
            else {"imputed_value_floats": numbers, "replaced_value_float": 0.0}
        )
        op = "Scaler" if k % 2 else "Imputer"
        nodes.append(make(op, [f"a{k - 1}" if k else "x"], [f"a{k}"], domain="ai.onnx.ml", **attributes))
    return _model(nodes, {"x": ["n", 4]}, [f"a{n - 1}"])


def forest(trees: int) -> ModelProto:
    """A TreeEnsembleRegressor of full trees of depth 6, 127 nodes each."""
    rng, inner = np.random.default_rng(0), 63
    number, tree = np.tile(np.arange(127), trees), np.repeat(np.arange(trees), 127)
    leaf = number >= inner
    attributes: dict[str, Any] = {
        "nodes_treeids": tree, "nodes_nodeids": number, "nodes_featureids": np.where(leaf, 0, rng.integers(0, 4, leaf.size)),
        "nodes_values": np.where(leaf, 0, rng.normal(size=leaf.size)), "nodes_truenodeids": np.where(leaf, 0, 2 * number + 1),
        "nodes_falsenodeids": np.where(leaf, 0, 2 * number + 2), "target_treeids": tree[leaf], "target_nodeids": number[leaf],
        "target_weights": rng.normal(size=leaf.sum()), "target_ids": np.zeros(leaf.sum(), int),
    }  # fmt: skip
    modes = ["LEAF" if end else "BRANCH_LEQ" for end in leaf]
    lists = {k: v.tolist() for k, v in attributes.items()}
    node = make("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_modes=modes, **lists)
    return _model([node], {"x": ["n", 4]}, ["y"])


def boxes(rois: int) -> ModelProto:
    rng = np.random.default_rng(0)
    weights = {
        "image": rng.normal(size=(1, 16, 32, 32)).astype("f"), "rois": rng.uniform(0, 30, (rois, 4)).astype("f"),
        "of": np.zeros(rois, np.int64),
    }  # fmt: skip
    align = make("RoiAlign", ["image", "rois", "of"], ["c"], output_height=7, output_width=7, sampling_ratio=2)
    return _model([align, make("Add", ["c", "x"], ["y"])], {"x": []}, ["y"], weights)


def unique(n: int) -> ModelProto:
    numbers = {"a": np.random.default_rng(0).integers(0, 1000, n).astype("f")}
    return _model([make("Unique", ["a"], ["c"]), make("Add", ["c", "x"], ["y"])], {"x": []}, ["y"], numbers)


GRAPHS: dict[str, tuple[Callable[[int], ModelProto], tuple[int, ...]]] = {
    "sigmoid": (chain("Sigmoid"), (8, 100, 1000)),
    "mixture": (chain("Sin", "Exp", "Tanh", "Sigmoid", "Erf"), (10, 100, 300)),
    "add": (chain("Add"), (100, 1000, 20_000)),
    "softmax": (chain("Softmax"), (100, 1000, 5000)),
    "split": (split, (100, 1000, 2000)),
    "concat": (variadic("Concat", axis=1), (100, 1000, 2000)),
    "sum": (variadic("Sum"), (100, 1000, 2000)),
    "scalers": (scalers, (50, 250)),
    "forest": (forest, (1, 10, 100)),
    "boxes": (boxes, (50,)),
    "unique": (unique, (50_000,)),
}


def measured(name: str, size: int) -> dict[str, Any]:
    """Compiles the model in this process, and measures the compile."""
    import anyshape

    build = GRAPHS[name][0]
    anyshape.compile(chain("Relu")(2).SerializeToString())
    model = build(size).SerializeToString()
    start = time.process_time()
    exe = anyshape.compile(model)
    exe.wait()
    seconds = time.process_time() - start
    images = {id(k.code): len(k.code.image) for p in exe.plan.programs for k in p.kernels if hasattr(k, "code")}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "MB": most, "kernels": len(images), "code": sum(images.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="graph", help=", ".join(GRAPHS))
    parser.add_argument("--sizes", nargs="*", type=int)
    parser.add_argument("--here", action="store_true", help="one graph of one size in this process, as JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured(options.graphs[0], options.sizes[0])))
        return
    for name in options.graphs or GRAPHS:
        for size in options.sizes or GRAPHS[name][1]:
            command = [sys.executable, "-m", "benchmarks.compile_growth", name, "--sizes", str(size), "--here"]
            environment = {**os.environ, "ANYSHAPE_CACHE": "", "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            r = json.loads(done.stdout)
            print(
                f"{name:8} {size:6}  {r['seconds']:6.2f} s  {r['seconds'] / size * 1e3:8.2f} ms per node  {r['MB']:5.0f} MB  "
                f"{r['kernels']:4} kernels, {r['code'] / 1024:7.0f} KB",
                flush=True,
            )


if __name__ == "__main__":
    main()
