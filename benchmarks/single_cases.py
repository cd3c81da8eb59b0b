"""The single ops that `benchmarks.single_ops` times: an ONNX graph of one or a few nodes each, its sizes, and the work it is.

Sizes of inputs are unknown to the compilers (equal ones have one name), those of constants known. `moved`: bytes of inputs and results,
each once, and of the constants of products; `flops`: of matrix products only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper

Array = NDArray[Any]
Dims = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`shape`: of the result, which is called y; `fixed`: the sizes that the model gives as numbers."""

    group: str
    name: str
    nodes: Sequence[NodeProto]
    inputs: dict[str, Array]
    shape: Dims
    constants: dict[str, Array] = field(default_factory=dict)
    flops: int = 0
    fixed: tuple[int, ...] = ()

    @property
    def moved(self) -> int:
        weights = sum(a.nbytes for a in self.constants.values()) if self.flops else 0
        return weights + sum(a.nbytes for a in self.inputs.values()) + self.dtype.itemsize * math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result: that of the first float."""
        return next(a.dtype for a in (*self.inputs.values(), *self.constants.values()) if a.dtype.kind == "f")

    def model(self) -> ModelProto:
        def dims(shape: Dims) -> list[int | str]:
            return [n if n in self.fixed else f"d{n}" for n in shape]

        def value(name: str, a: Array) -> Any:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), dims(a.shape))

        constants = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        result = helper.make_tensor_value_info(
            "y", helper.np_dtype_to_tensor_dtype(self.dtype), [f"y{k}" for k in range(len(self.shape))]
        )
        inputs = [value(n, a) for n, a in self.inputs.items()]
        graph = helper.make_graph(list(self.nodes), "case", inputs, [result], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def label(shape: Dims) -> str:
    return "x".join(map(str, shape))


def one(group: str, op: str, shape: Dims, result: Dims, note: str = "", **attributes: Any) -> Case:
    """A node of one operand."""
    name = f"{label(shape)}{note}"
    return Case(group, name, [helper.make_node(op, ["x"], ["y"], **attributes)], {"x": normal(*shape)}, result)


def products() -> list[Case]:
    node = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    cases = []
    for k, n in ((256, 256), (256, 1024), (768, 768), (1024, 1024), (768, 3072), (3072, 768)):
        for m in (1, 2, 4, 7, 8, 16, 33, 64, 512):
            w = normal(k, n) * k**-0.5
            cases.append(Case("gemm", f"{m}x{k}x{n}", node, {"x": normal(m, k)}, (m, n), {"w": w}, 2 * m * n * k, (k,)))
    for m, k, n in ((5, 128, 512), (5, 512, 128), (128, 64, 64), (100, 300, 10), (128, 300, 10)):
        w = normal(k, n) * k**-0.5
        cases.append(Case("gemm", f"{m}x{k}x{n}", node, {"x": normal(m, k)}, (m, n), {"w": w}, 2 * m * n * k, (k,)))
    for k, n in ((256, 1024), (768, 3072)):
        for m in (1, 4, 8, 64, 512):
            x, w = normal(m, k).astype(np.float16), (normal(k, n) * k**-0.5).astype(np.float16)
            cases.append(Case("f16 gemm", f"{m}x{k}x{n}", node, {"x": x}, (m, n), {"w": w}, 2 * m * n * k, (k,)))
    for batch, m, k, n in ((1, 128, 768, 768), (48, 128, 64, 128), (12, 77, 64, 77), (12, 512, 512, 64)):
        arguments = {"x": normal(batch, m, k), "w": normal(batch, k, n)}
        name = f"{label((batch, m, k))} by {label((k, n))}"
        cases.append(Case("gemm, both unknown", name, node, arguments, (batch, m, n), {}, 2 * batch * m * n * k))
    return cases


def rows() -> list[Case]:
    shapes = ((8, 768), (512, 768), (6144, 128), (1000, 77), (8, 30522), (64, 8192))
    cases = [one("softmax", "Softmax", s, s, axis=-1) for s in shapes]
    node = [helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1)]
    for s in shapes:
        cases.append(
            Case("layer norm", label(s), node, {"x": normal(*s)}, s, {"s": normal(s[1]), "b": normal(s[1])}, 0, s[1:])
        )
    return cases


def attentions() -> list[Case]:
    """Makes attention as exporters write it: keys transposed, a scale, what is to be added to scores of each key, and a softmax between two
    products.

    Batch and both lengths are unknown, but one query of a step of decoding; the names: batch x heads x queries x width, keys."""
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=(0, 1, 3, 2)),
        helper.make_node("MatMul", ["q", "kt"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    cases, heads, width = [], 12, 64
    for batch, m, n in ((2, 128, 128), (8, 77, 77), (2, 512, 512), (2, 33, 333), (4, 1, 1000)):
        q, kv, masked = (batch, heads, m, width), (batch, heads, n, width), np.arange(n) >= n - n // 10
        mask = np.broadcast_to(np.where(masked, np.float32(-1e4), np.float32(0)), (batch, 1, 1, n)).copy()
        arguments = {"q": normal(*q), "k": normal(*kv)[:, ::-1].copy(), "v": normal(*kv)[::-1].copy(), "mask": mask}
        scale, flops = {"scale": np.array(width**-0.5, np.float32)}, 4 * batch * heads * m * n * width
        cases.append(Case("attention", f"{label(q)}, {n} keys", nodes, arguments, q, scale, flops, (1, heads, width)))
    return cases


def chains() -> list[Case]:
    gelu = [helper.make_node("Add", ["x", "b"], ["u"]), helper.make_node("Gelu", ["u"], ["y"])]
    tanh = [
        helper.make_node("Mul", ["x", "s"], ["u"]),
        helper.make_node("Add", ["u", "t"], ["v"]),
        helper.make_node("Tanh", ["v"], ["y"]),
    ]
    mul = [helper.make_node("Mul", ["x", "s"], ["u"]), helper.make_node("Add", ["u", "t"], ["y"])]
    cases = []
    for s in ((64, 768), (512, 3072)):
        cases.append(Case("bias, gelu", label(s), gelu, {"x": normal(*s)}, s, {"b": normal(s[1])}, 0, s[1:]))
        three = {n: normal(*s) for n in "xst"}
        cases.append(Case("tanh(x*s+t)", label(s), tanh, three, s))
        cases.append(Case("x*s+t", label(s), mul, three, s))
    cases.append(one("exp", "Exp", (512, 768), (512, 768)))
    cases.append(one("relu", "Relu", (4096, 1024), (4096, 1024)))
    return cases


def reductions() -> list[Case]:
    node = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    cases = []
    for s, axes in (
        ((512, 768), (1,)), ((512, 768), (0,)), ((16384, 77), (1,)), ((16384, 77), (0,)), ((4096, 1024), (0,)),
        ((8, 128, 512), (1,)), ((64, 1000, 33), (1,)), ((8, 64, 28, 28), (2, 3)), ((8, 64, 28, 28), (1,)), ((8, 64, 28, 28), (0, 2, 3)),
    ):  # fmt: skip
        result = tuple(n for k, n in enumerate(s) if k not in axes)
        cases.append(Case("sum", f"{label(s)} over {axes}", node, {"x": normal(*s)}, result, {"axes": ints(*axes)}))
    node = [helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=0)]
    for s, axis in (((512, 768), 1), ((512, 768), 0)):
        cases.append(
            Case("max", f"{label(s)} over {axis}", node, {"x": normal(*s)}, (s[1 - axis],), {"axes": ints(axis)})
        )
    return cases


TRANSPOSES: tuple[tuple[Dims, Dims], ...] = (
    ((512, 768), (1, 0)), ((1024, 1024), (1, 0)), ((2000, 3008), (1, 0)), ((2001, 3007), (1, 0)), ((1001, 777), (1, 0)),
    ((8, 128, 256), (0, 2, 1)), ((64, 96, 80), (2, 1, 0)), ((64, 96, 80), (2, 0, 1)), ((64, 96, 80), (1, 0, 2)),
    ((1, 128, 12, 64), (0, 2, 1, 3)), ((8, 512, 12, 64), (0, 2, 1, 3)), ((8, 12, 512, 64), (0, 2, 1, 3)),
    ((8, 64, 56, 56), (0, 2, 3, 1)), ((8, 56, 56, 64), (0, 3, 1, 2)), ((8, 12, 128, 64), (0, 1, 3, 2)),
    ((32, 24, 40, 48), (3, 2, 1, 0)), ((8, 3, 224, 224), (0, 2, 3, 1)), ((8, 224, 224, 3), (0, 3, 1, 2)),
    ((20000, 5), (1, 0)), ((5, 20000), (1, 0)), ((64, 300, 10), (0, 2, 1)), ((8, 1, 512, 512), (0, 2, 3, 1)),
)  # fmt: skip


def transposes() -> list[Case]:
    cases = []
    for s, perm in TRANSPOSES:
        note = " by " + "".join(map(str, perm))
        cases.append(one("transpose", "Transpose", s, tuple(s[p] for p in perm), note, perm=perm))
    return cases


def gathers() -> list[Case]:
    cases = []
    for shape, count, axis in (((30522, 768), 512, 0), ((30522, 64), 4096, 0), ((512, 768), 200, 1)):
        index = np.random.default_rng(0).integers(0, shape[axis], count)
        result = shape[:axis] + (count,) + shape[axis + 1 :]
        node = [helper.make_node("Gather", ["t", "i"], ["y"], axis=axis)]
        name = f"{count} of {label(shape)}, axis {axis}"
        case = Case("gather", name, node, {"i": index}, result, {"t": normal(*shape)}, 0, shape)
        cases.append(case)
    return cases


def joins() -> list[Case]:
    cases = []
    for a, b, axis in (
        ((4096, 512), (4096, 256), 1), ((4096, 32), (4096, 32), 1), ((512, 768), (256, 768), 0), ((8, 12, 500, 64), (8, 12, 1, 64), 2),
    ):  # fmt: skip
        result = a[:axis] + (a[axis] + b[axis],) + a[axis + 1 :]
        node = [helper.make_node("Concat", ["x", "z"], ["y"], axis=axis)]
        cases.append(
            Case("concat", f"{label(a)} and {label(b)}, axis {axis}", node, {"x": normal(*a), "z": normal(*b)}, result)
        )
    for s, pads in (
        ((8, 64, 56, 56), (0, 0, 1, 1, 0, 0, 1, 1)),
        ((512, 768), (0, 8, 0, 24)),
        ((512, 768), (3, 0, 5, 0)),
    ):
        result = tuple(n + pads[k] + pads[k + len(s)] for k, n in enumerate(s))
        node = [helper.make_node("Pad", ["x", "pads"], ["y"])]
        cases.append(Case("pad", f"{label(s)} by {pads}", node, {"x": normal(*s)}, result, {"pads": ints(*pads)}))
    return cases


def copies() -> list[Case]:
    cases = []
    for s, starts, ends in (
        ((512, 768), (1, 0), (512, 768)), ((4096, 1024), (1, 0), (4096, 1024)), ((512, 769), (0, 1), (512, 769)),
        ((8, 64, 56, 56), (0, 0, 2, 2), (8, 64, 54, 54)), ((128, 12, 192), (0, 0, 64), (128, 12, 128)),
    ):  # fmt: skip
        result = tuple(e - b for b, e in zip(starts, ends, strict=True))
        constants = {"b": ints(*starts), "e": ints(*ends)}
        node = [helper.make_node("Slice", ["x", "b", "e"], ["y"])]
        cases.append(Case("slice", f"{label(s)} to {label(result)}", node, {"x": normal(*s)}, result, constants))
    for s, to in (((64, 1, 768), (64, 12, 768)), ((512, 1), (512, 768))):
        node = [helper.make_node("Expand", ["x", "to"], ["y"])]
        cases.append(Case("expand", f"{label(s)} to {label(to)}", node, {"x": normal(*s)}, to, {"to": ints(*to)}))
    return cases


def convolutions() -> list[Case]:
    cases = []
    for x, w, groups, stride in (
        ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1), ((1, 128, 28, 28), (128, 128, 3, 3), 1, 1), ((1, 256, 14, 14), (256, 256, 3, 3), 1, 1),
        ((1, 512, 7, 7), (512, 512, 3, 3), 1, 1), ((1, 64, 56, 56), (128, 64, 3, 3), 1, 2), ((1, 3, 224, 224), (64, 3, 7, 7), 1, 2),
        ((1, 128, 28, 28), (128, 128, 1, 1), 1, 1), ((1, 576, 14, 14), (96, 576, 1, 1), 1, 1),
        ((1, 32, 112, 112), (32, 1, 3, 3), 32, 1), ((1, 96, 112, 112), (96, 1, 3, 3), 96, 2), ((1, 128, 56, 56), (128, 1, 3, 3), 128, 1),
        ((1, 384, 14, 14), (384, 1, 3, 3), 384, 1), ((1, 960, 7, 7), (960, 1, 3, 3), 960, 1),
    ):  # fmt: skip
        pad, kind = w[2] // 2, "depthwise" if groups > 1 else "convolution"
        high, wide = ((n + 2 * pad - w[2]) // stride + 1 for n in x[2:])
        node = [helper.make_node("Conv", ["x", "w"], ["y"], group=groups, pads=[pad] * 4, strides=[stride] * 2)]
        result = (x[0], w[0], high, wide)
        name = f"{w[2]}x{w[3]}, {x[1]} to {w[0]} of {x[2]}x{x[3]}" + f" by {stride}" * (stride > 1)
        weights = {"w": normal(*w) * (w[1] * w[2] * w[3]) ** -0.5}
        cases.append(
            Case(
                kind, name, node, {"x": normal(*x)}, result, weights, 2 * math.prod(result) * math.prod(w[1:]), (x[1],)
            )
        )
    for s in ((1, 64, 112, 112), (1, 256, 28, 28)):
        half = tuple((n + 1) // 2 for n in s[2:])
        cases.append(
            one("max pool", "MaxPool", s, s[:2] + half, " by 2", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        )
    return cases


def transposed_convolutions() -> list[Case]:
    cases = []
    for x, w, groups, stride in (
        ((1, 64, 16, 16), (64, 32, 4, 4), 1, 2), ((1, 64, 32, 32), (64, 32, 2, 2), 1, 2), ((1, 128, 32, 32), (128, 64, 4, 4), 1, 2),
        ((1, 64, 16, 16), (64, 32, 3, 3), 1, 2), ((1, 128, 32, 32), (128, 64, 3, 3), 1, 2), ((1, 64, 32, 32), (64, 1, 4, 4), 64, 2),
        ((1, 256, 8, 8), (256, 128, 5, 5), 1, 2), ((1, 64, 28, 28), (64, 64, 3, 3), 1, 1), ((1, 21, 16, 16), (21, 1, 16, 16), 21, 8),
    ):  # fmt: skip
        pad = (w[2] - stride + 1) // 2
        more = stride + 2 * pad - w[2]
        high, wide = (n * stride for n in x[2:])
        node = [
            helper.make_node(
                "ConvTranspose",
                ["x", "w"],
                ["y"],
                group=groups,
                pads=[pad] * 4,
                strides=[stride] * 2,
                output_padding=[more] * 2,
            )
        ]
        result = (x[0], w[1] * groups, high, wide)
        kind = "depthwise " * (groups > 1)
        name = f"{kind}{w[2]}x{w[3]}, {x[1]} to {result[1]} of {x[2]}x{x[3]} by {stride}"
        weights = {"w": normal(*w) * (w[0] // groups * w[2] * w[3]) ** -0.5}
        cases.append(
            Case(
                "transposed convolution",
                name,
                node,
                {"x": normal(*x)},
                result,
                weights,
                2 * math.prod(x) * math.prod(w[1:]),
                (x[1],),
            )
        )
    return cases


def cases() -> list[Case]:
    makers = (
        products, attentions, rows, chains, reductions, transposes, gathers, joins, copies, convolutions, transposed_convolutions
    )  # fmt: skip
    return [case for make in makers for case in make()]
