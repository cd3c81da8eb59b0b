"""ONNX operators on f16 whose sums, or numbers of elements, no f16 holds: the values that they have in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import anyshape


def run(op: str, arrays: list[Any], **attributes: Any) -> Any:
    names = [f"x{k}" for k in range(len(arrays))]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT16, a.shape) for n, a in zip(names, arrays, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (got,) = anyshape.compile(model.SerializeToString()).run(dict(zip(names, arrays, strict=True)))
    assert got.dtype == np.float16
    return got.astype(np.float64)


@pytest.mark.parametrize("n", [800, 70_000, 135_200])
def test_means(n: int) -> None:
    x = np.resize(np.array([984, 985], np.float16), (1, 1, n))
    assert run("ReduceMean", [x], keepdims=0) == run("GlobalAveragePool", [x]).item() == 984.5


def test_softmax_of_many_that_are_equal() -> None:
    found = run("Softmax", [np.zeros((1, 135_200), np.float16)])
    np.testing.assert_allclose(found, 1 / 135_200, rtol=2e-2)
    assert (run("LogSoftmax", [np.zeros((1, 135_200), np.float16)]) == float(np.float16(-np.log(135_200)))).all()


def test_several_tensors() -> None:
    large = [np.full(2, v, np.float16) for v in (60_000, 49_984, -40_000)]
    assert run("Sum", large).tolist() == [np.inf] * 2
    assert run("Mean", large).tolist() == [float(np.float16(69_984 / 3))] * 2
    assert run("Sum", [*large, large[2]]).tolist() == [29_984] * 2
    assert run("Sum", large[:1]).tolist() == [60_000] * 2
