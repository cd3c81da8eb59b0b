"""Models in QDQ form: convolutions and products of dequantised integers are computed in integers, beside onnxruntime without its own
rewrites, within one step of what is quantised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import anyshape
from anyshape import ops
from anyshape.passes import optimise

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
DTYPES = {
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.int16): TensorProto.INT16,
}


ASYMMETRIC = np.uint8(113)


@dataclass
class Form:
    """One operator between DequantizeLinear and QuantizeLinear: `zero` of the data, what the weights are, attributes of the operator."""

    op: str
    data: tuple[int, ...]
    weights: tuple[int, ...]
    attributes: dict[str, Any]
    zero: Any = ASYMMETRIC
    weight_dtype: Any = np.int8
    axis: int | None = 0
    """the axis of the weights' scales; None for one scale"""
    weight_zero: int = 0
    bias: bool = True
    opset: int = 17

    def model(self) -> ModelProto:
        """The model, its data of unknown sizes but where weights say them."""
        count = 1 if self.axis is None else self.weights[self.axis]
        shape = () if self.axis is None else (count,)
        scales = np.resize(np.linspace(0.001, 0.004, count, dtype=np.float32), shape)
        ends = np.iinfo(self.weight_dtype)
        known = {
            "w": RNG.integers(ends.min, ends.max + 1, self.weights).astype(self.weight_dtype), "sx": np.float32(0.02), "zx": self.zero,
            "sw": scales, "zw": np.full(shape, self.weight_zero, self.weight_dtype), "sy": np.float32(0.06), "zy": np.uint8(120),
        }  # fmt: skip
        axis = {} if self.axis is None else {"axis": self.axis}
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xf"]),
            helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wf"], **axis),
        ]
        operands = ["xf", "wf"]
        if self.bias:
            width = self.weights[0] if self.op == "Conv" or self.attributes.get("transB") else self.weights[-1]
            known["b"] = RNG.integers(-9000, 9000, width).astype(np.int32)
            known |= {"sb": np.resize(0.02 * scales, width), "zb": np.zeros(width, np.int32)}
            nodes.append(helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["bf"], axis=0))
            operands.append("bf")
        nodes += [
            helper.make_node(self.op, operands, ["yf"], **self.attributes),
            helper.make_node("QuantizeLinear", ["yf", "sy", "zy"], ["y"]),
        ]
        kept = (1,) if self.op == "Conv" else (len(self.data) - 1,)
        dims = [n if k in kept else f"n{k}" for k, n in enumerate(self.data)]
        x = helper.make_tensor_value_info("x", DTYPES[np.asarray(self.zero).dtype], dims)
        y = helper.make_tensor_value_info("y", TensorProto.UINT8, None)
        used = {name for n in nodes for name in n.input}
        initializers = [numpy_helper.from_array(np.asarray(a), name) for name, a in known.items() if name in used]
        graph = helper.make_graph(nodes, "quantised", [x], [y], initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)

    def inputs(self) -> list[Array]:
        """Data of the form's own shape and of a larger one, the ends among the integers."""
        *first, rows, last = self.data
        grown = (*self.data[:2], *(n + 3 for n in self.data[2:])) if self.op == "Conv" else (*first, rows + 2, last)
        dtype = np.asarray(self.zero).dtype
        ends = np.iinfo(dtype)
        return [RNG.integers(ends.min, ends.max + 1, shape).astype(dtype) for shape in (self.data, grown)]


SQUARE = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
FORMS = {
    "3 x 3, pads of an asymmetric zero point": Form("Conv", (1, 8, 6, 7), (5, 8, 3, 3), SQUARE),
    "1 x 1": Form("Conv", (2, 16, 5, 5), (7, 16, 1, 1), {"kernel_shape": [1, 1]}),
    "a step, unlike pads, no bias": Form(
        "Conv", (1, 3, 9, 8), (4, 3, 3, 2), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]}, bias=False
    ),
    "dilated": Form("Conv", (1, 4, 9, 9), (4, 4, 3, 3), {**SQUARE, "dilations": [2, 2], "auto_pad": "NOTSET"}),
    "depthwise": Form("Conv", (1, 6, 7, 7), (6, 1, 3, 3), {**SQUARE, "group": 6}),
    "groups": Form("Conv", (1, 8, 7, 7), (4, 4, 3, 3), {**SQUARE, "group": 2}),
    "one dimension": Form("Conv", (2, 4, 20), (6, 4, 5), {"kernel_shape": [5], "auto_pad": "SAME_UPPER"}),
    "signed data": Form("Conv", (1, 4, 6, 6), (4, 4, 3, 3), SQUARE, zero=np.int8(-7)),
    "weights without a sign": Form("Conv", (1, 4, 6, 6), (4, 4, 3, 3), SQUARE, weight_dtype=np.uint8, weight_zero=131),
    "one scale of the weights": Form("Conv", (1, 4, 6, 6), (4, 4, 3, 3), SQUARE, axis=None),
    "scales of one element": Form("Conv", (1, 4, 6, 6), (1, 4, 3, 3), SQUARE),
    "a product": Form("MatMul", (5, 24), (24, 10), {}, axis=1, bias=False),
    "a product of batches": Form("MatMul", (2, 3, 24), (24, 10), {}, axis=1, bias=False, weight_dtype=np.uint8, weight_zero=99),
    "scales by the last axis": Form("MatMul", (5, 24), (24, 10), {}, axis=-1, bias=False),
    "batches of both": Form("MatMul", (2, 3, 24), (2, 24, 10), {}, axis=None, bias=False),
    "gemm": Form("Gemm", (5, 24), (24, 10), {}, axis=1),
    "gemm, weights by rows": Form("Gemm", (5, 24), (10, 24), {"transB": 1}, axis=0),
}  # fmt: skip
FLOATS = {
    "scales along a sum": Form("MatMul", (5, 24), (24, 10), {}, axis=0, bias=False),
    "scales of the channels that are summed": Form("Conv", (1, 4, 6, 6), (4, 4, 3, 3), SQUARE, axis=1, bias=False),
    "gemm with a factor": Form("Gemm", (5, 24), (24, 10), {"alpha": 0.5}, axis=1),
    "integers of 16 bits": Form("Conv", (1, 4, 6, 6), (4, 4, 3, 3), SQUARE, zero=np.int16(5), bias=False, opset=21),
    "weights of 16 bits, by rows": Form(
        "Gemm", (5, 24), (10, 24), {"transB": 1}, weight_dtype=np.int16, bias=False, opset=21
    ),
    "so many terms that integers of 32 bits overflow": Form("MatMul", (2, 33026), (33026, 2), {}, axis=1, bias=False),
}


def expected(model: ModelProto, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    result: Array = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]
    return result


def called(model: ModelProto) -> set[str]:
    return {n.op.name for n in optimise(anyshape.frontends.onnx.load(model)).nodes}


def compare(form: Form, **options: Any) -> None:
    model = form.model()
    run = anyshape.compile(model, **options)
    for x in form.inputs():
        got, want = run(x), expected(model, x)
        assert got.shape == want.shape
        assert np.abs(got.astype(int) - want.astype(int)).max(initial=0) <= 1
        assert (got != want).mean() <= 0.01
        assert len(np.unique(want)) > 10, "hardly anything is compared"


@pytest.mark.parametrize("name", FORMS)
def test_they_are_integers_and_as_onnxruntime_has_them(name: str) -> None:
    names = called(FORMS[name].model())
    assert names & {"conv_integer_to_float", "matmul_integer_to_float"}
    assert not names & {"conv", "matmul", "gemm", "dequantize_linear"}
    compare(FORMS[name])


@pytest.mark.parametrize("name", FLOATS)
def test_others_stay_floats(name: str) -> None:
    assert not called(FLOATS[name].model()) & {"conv_integer_to_float", "matmul_integer_to_float"}


@pytest.mark.parametrize("target", ["avx2", "sse"])
@pytest.mark.parametrize(
    "name", ["3 x 3, pads of an asymmetric zero point", "depthwise", "weights without a sign", "a product of batches"]
)
def test_other_processors(name: str, target: Any) -> None:
    compare(FORMS[name], target=target)


def test_what_is_quantised_is_one_kernel() -> None:
    """The sum, its scales, the bias and the quantisation after it."""
    assert anyshape.compile(FORMS["depthwise"].model()).report.kernels == 1


def test_weights_are_matched_where_they_are_folded() -> None:
    """A pattern matches a constant by the call that it was folded from; nothing remembers one that no pattern asks for, unless it
    has grown."""
    w = ops.dequantize_linear(np.ones((2, 2), np.int8), np.float32(0.5), np.int8(0))
    t = ops.transpose(np.ones((2, 3), np.float32))
    results = optimise(anyshape.function([], [w, t])).results
    assert all(v.is_constant for v in results)
    assert results[0].folded is not None and results[0].folded.op.name == "dequantize_linear"
    assert results[1].folded is None


def test_scales_that_only_the_run_knows_stay_floats() -> None:
    """A scale may be infinite or NaN, of which the rewritten call would make something else."""
    x, s = anyshape.input("x", "u8[n, 4]"), anyshape.input("s", "f32[]")
    y = ops.matmul(ops.dequantize_linear(x, s), ops.dequantize_linear(np.ones((4, 3), np.int8), np.float32(0.5)))
    assert "matmul" in {n.op.name for n in optimise(anyshape.function([x, s], y)).nodes}
    y = ops.matmul(
        ops.dequantize_linear(x, np.float32(np.inf)), ops.dequantize_linear(np.ones((4, 3), np.int8), np.float32(0.5))
    )
    assert "matmul" in {n.op.name for n in optimise(anyshape.function([x], y)).nodes}
