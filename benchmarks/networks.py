"""Whole networks beside onnxruntime and OpenVINO, in turns: detectors, audio, a quantised BERT, at several sizes of one model.

    PYTHONPATH=runtime:generated:. python -m benchmarks.networks [unet wav2vec] [--quick] [--threads 1] [--json rows.json]

The networks are those of `networks.yaml`, with seeded weights, and the quantised models of `quantised.py`. For each size the median of many
short batches, and the best peer's over ours: above 1 we are faster. Exit code 1 where results differ from every peer's, or an engine cannot
run a network, each of which is told.
`--errors` prints errors against float64 instead; exit code 1 means that one is more than twice onnxruntime's.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import yaml
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import anyshape
from benchmarks.engines import available
from benchmarks.op_audit import QUICK_TURNS, TURNS, US, Engines, alone, audit, remarks, summary
from benchmarks.op_cases import OPSET, Case, Value, choices, filled
from benchmarks.quantised import MODELS, Quantised

TABLE = Path(__file__).with_name("networks.yaml")


@dataclass(frozen=True)
class Tensor:
    """A value of a network. `dims`: of its pictures, 1 where they are rows."""

    name: str
    channels: int
    dims: int


class Layers:
    """The functions of the table's expressions: each adds nodes, and constants of such sizes that numbers stay about as large."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Value] = {}

    def node(self, op: str, x: Tensor, *operands: str, channels: int = 0, **attributes: Any) -> Tensor:
        y = Tensor(f"v{len(self.nodes)}", channels or x.channels, x.dims)
        self.nodes.append(helper.make_node(op, [x.name, *operands], [y.name], **attributes))
        return y

    def constant(self, text: str) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = Value.read(text)
        return name

    def normal(self, *shape: int, over: int) -> str:
        return self.constant(f"f32[{', '.join(map(str, shape))}] by {over**-0.5}")

    def conv(
        self, x: Tensor, m: int, k: int = 3, stride: int = 1, groups: int = 1, dilation: int = 1, pad: int | None = None
    ) -> Tensor:
        """Keeps the sizes of pictures where nothing is said of padding and strides."""
        c, n, pad = x.channels // groups, x.dims, dilation * (k - 1) // 2 if pad is None else pad
        weights = self.normal(m, c, *[k] * n, over=c * k**n), self.constant(f"f32[{m}] by 0.1")
        return self.node(
            "Conv", x, *weights, channels=m, strides=[stride] * n, pads=[pad] * 2 * n, group=groups, dilations=[dilation] * n
        )  # fmt: skip

    def conv_transpose(self, x: Tensor, m: int, k: int, stride: int, pad: int = 0) -> Tensor:
        c, n = x.channels, x.dims
        weights = self.normal(c, m, *[k] * n, over=c * k**n // stride**n)
        return self.node("ConvTranspose", x, weights, channels=m, strides=[stride] * n, pads=[pad] * 2 * n)

    def max_pool(self, x: Tensor, k: int, stride: int = 1) -> Tensor:
        n, pad = x.dims, (k - 1) // 2
        return self.node("MaxPool", x, kernel_shape=[k] * n, strides=[stride] * n, pads=[pad] * 2 * n)

    def upsample(self, x: Tensor) -> Tensor:
        scales = self.constant(f"f32[{2 + x.dims}] = [1, 1{', 2' * x.dims}]")
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.node("Resize", x, "", scales, **how)

    def concat(self, *xs: Tensor) -> Tensor:
        return self.node("Concat", xs[0], *(x.name for x in xs[1:]), channels=sum(x.channels for x in xs), axis=1)

    def dense(self, x: Tensor, m: int) -> Tensor:
        y = self.node("MatMul", x, self.normal(x.channels, m, over=x.channels), channels=m)
        return self.node("Add", y, self.constant(f"f32[{m}] by 0.1"))

    def layer_norm(self, x: Tensor) -> Tensor:
        weights = (self.constant(f"f32[{x.channels}] by {factor}") for factor in (1, 0.1))
        return self.node("LayerNormalization", x, *weights, axis=-1)

    def channels_last(self, x: Tensor) -> Tensor:
        return self.node("Transpose", x, perm=[0, *range(2, 2 + x.dims), 1])

    def channels_first(self, x: Tensor) -> Tensor:
        return self.node("Transpose", x, perm=[0, 1 + x.dims, *range(1, 1 + x.dims)])

    def mean(self, x: Tensor) -> Tensor:
        return self.node("GlobalAveragePool", x)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.node("Add", x, y.name)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.node("Mul", x, y.name)

    def relu(self, x: Tensor) -> Tensor:
        return self.node("Relu", x)

    def leaky(self, x: Tensor) -> Tensor:
        return self.node("LeakyRelu", x, alpha=0.1)

    def sigmoid(self, x: Tensor) -> Tensor:
        return self.node("Sigmoid", x)

    def tanh(self, x: Tensor) -> Tensor:
        return self.node("Tanh", x)

    def silu(self, x: Tensor) -> Tensor:
        return self.mul(x, self.sigmoid(x))

    def gelu(self, x: Tensor) -> Tensor:
        """Computes gelu as exporters write it."""
        half, one, root = (self.constant(f"f32 = {number}") for number in (0.5, 1, math.sqrt(0.5)))
        erf = self.node("Erf", self.node("Mul", x, root))
        return self.node("Mul", self.mul(x, self.node("Add", erf, one)), half)

    def functions(self) -> dict[str, Callable[..., Tensor]]:
        """The layers that take a value, by name."""
        kept = ("node", "constant", "normal", "functions")
        return {n: getattr(self, n) for n in vars(Layers) if not n.startswith("_") and n not in kept}


def lines(entries: Sequence[Any], values: Mapping[str, Any] | None = None) -> Iterator[str]:
    """The lines of a network, those repeated that are to be, with their values in them; an inner `for` has those of the outer one too."""
    known = values or {}
    for entry in entries:
        if isinstance(entry, str):
            yield filled(entry, known)
        else:
            for own in choices(filled(entry["for"], known)):
                yield from lines(entry["do"], {**known, **own})


def network(name: str, entry: Mapping[str, Any]) -> Case:
    """Makes the case of a network. Raises ValueError for a line that is no assignment."""
    layers, shape = Layers(), entry["in"]
    names: dict[str, Tensor] = {"x": Tensor("x", shape[1], len(shape) - 2)}
    for line in lines(entry["layers"]):
        target, equals, expression = line.partition(" = ")
        if not equals:
            raise ValueError(f"{name}: {line!r} is no layer, like y = relu(conv(x, 32))")
        names[target] = eval(expression, {"__builtins__": {}, **layers.functions()}, names)
    columns = zip(*entry["at"].values(), strict=True)
    return Case(
        operator=name,
        name="",
        nodes=tuple(layers.nodes),
        inputs={"x": Value.read(f"f32[{', '.join(map(str, shape))}]")},
        constants=layers.constants,
        at=tuple(dict(zip(entry["at"], sizes, strict=True)) for sizes in columns),
        opset=OPSET,
        new=False,
        steps=0,
        unordered=False,
    )


@cache
def networks() -> dict[str, Case]:
    return {name: network(name, entry) for name, entry in yaml.safe_load(TABLE.read_text()).items()}


def wide(model: ModelProto) -> ModelProto:
    """A model with f64 in place of f32, but for the scales of Resize, which are f32 by the standard."""
    widened = ModelProto()
    widened.CopyFrom(model)
    scales = {n.input[2] for n in widened.graph.node if n.op_type == "Resize"}
    for t in widened.graph.initializer:
        if t.name not in scales:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))
    for v in widened.graph.input:
        v.type.tensor_type.elem_type = TensorProto.DOUBLE
    return widened


def errors(case: Case, growth: float | None = None) -> dict[str, float]:
    """Errors at the last size, ours and onnxruntime's: the root of the mean square, as a part of that of results in f64."""
    import onnxruntime

    model, arguments = case.model(), case.arrays(case.at[-1])
    (exact,) = anyshape.compile(wide(model), growth=0).run({n: a.astype(np.float64) for n, a in arguments.items()})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    executable = anyshape.compile(model) if growth is None else anyshape.compile(model, growth=growth)
    results = {US: executable.run(arguments), "onnxruntime": session.run(None, arguments)}
    size = float(np.sqrt(np.mean(np.square(exact))))
    return {name: float(np.sqrt(np.mean(np.square(y - exact)))) / size for name, (y,) in results.items()}


def show_errors(cases: Sequence[Case], growth: float | None) -> int:
    worst = 0.0
    for case in cases:
        of_engines = errors(case, growth)
        ratio = of_engines[US] / of_engines["onnxruntime"]
        worst = max(worst, ratio)
        print(
            f"{case.operator:40}" + "".join(f"  {n} {e:.1e}" for n, e in of_engines.items()) + f"  {ratio:.2f} times",
            flush=True,
        )
    return worst > 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {'; '.join([*networks(), *MODELS])}")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TURNS} turn of each engine, and not {TURNS}")
    parser.add_argument(
        "--engines",
        nargs="*",
        default=["onnxruntime", "openvino"],
        help="peers (both); of convolutions ncnn and litert too",
    )
    parser.add_argument("--threads", type=int, default=1, help="of every engine (1; 0: all processors)")
    parser.add_argument("--errors", action="store_true", help="errors against float64, in place of times")
    parser.add_argument("--growth", type=float, help="of errors, by algorithms with fewer products (as by default)")
    parser.add_argument("--json", type=Path, help="write the rows here, as they come")
    options = parser.parse_args()
    known: dict[str, Case | Quantised] = {**networks(), **MODELS}
    if unknown := [n for n in options.names if n not in known]:
        parser.error(f"no network {', '.join(unknown)}")
    chosen = [known[n] for n in options.names or known]
    if options.errors:
        return show_errors([case for case in chosen if isinstance(case, Case)], options.growth)
    engines = Engines(available([US, *options.engines]), options.threads or os.cpu_count() or 1)
    with ExitStack() as stack:
        stack.callback(engines.end_all)
        rows = audit(chosen, engines, QUICK_TURNS if options.quick else TURNS, options.json)
    print("\n".join([*remarks(rows, "refused"), *remarks(rows, "differences"), summary(rows)]))
    return any(r["refused"] or alone(r) for r in rows)


if __name__ == "__main__":
    sys.exit(main())
