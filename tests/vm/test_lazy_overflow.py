"""Numbers that models really have: slices "to the end", whose ends are the greatest 64-bit number and come as data."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import anyshape

BIG = (1 << 63) - 1


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


@pytest.mark.parametrize("loop", ["native", "python"])
@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, BIG, 1), (1, BIG, 1), (2, -BIG - 1, -1), (-1, -BIG - 1, -1), (-BIG - 1, BIG, 2)]
)
def test_a_slice_to_the_end(loop: str, start: int, end: int, step: int) -> None:
    operands = [helper.make_tensor_value_info(n, TensorProto.INT64, [1]) for n in ("start", "end", "axis", "step")]
    data = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    names = ["x", *(o.name for o in operands)]
    graph = helper.make_graph([helper.make_node("Slice", names, ["y"])], "g", [data, *operands], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = anyshape.compile(model, loop=loop)(x, *(np.array([v]) for v in (start, end, 1, step)))
    picked = x[:, start if start > -BIG else None : end if end > -BIG else None : step]
    np.testing.assert_array_equal(got, picked)
