"""GatherBlockQuantized of integers of 4 bits and of bytes, along every pair of axes, beside onnxruntime."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape.errors import AnyshapeError

I4, U4, U8, F16, F32 = (
    TensorProto.INT4,
    TensorProto.UINT4,
    TensorProto.UINT8,
    TensorProto.FLOAT16,
    TensorProto.FLOAT,
)
ENDS = {I4: (-8, 8), U4: (0, 16), U8: (0, 256)}
BLOCK = 16


def gathering(
    dtype: int, shape: list[int], scale: list[int], zero: list[int] | None, of: int = F32, **attributes: int
) -> onnx.ModelProto:
    """A model whose only input are indices of two axes; data, scales and zero points are constants."""
    rng = np.random.default_rng(5)
    constants = [
        helper.make_tensor("data", dtype, shape, rng.integers(*ENDS[dtype], shape).ravel().tolist()),
        helper.make_tensor("scale", of, scale, rng.normal(size=scale).astype(np.float16).ravel().tolist()),
    ]
    if zero is not None:
        constants.append(helper.make_tensor("zero", dtype, zero, rng.integers(*ENDS[dtype], zero).ravel().tolist()))
    names = ["data", "at", "scale", *(["zero"] if zero is not None else [])]
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y"], domain="com.microsoft", block_size=BLOCK, **attributes
    )
    at = helper.make_tensor_value_info("at", TensorProto.INT64, [None, None])
    graph = helper.make_graph([node], "g", [at], [onnx.ValueInfoProto(name="y")], constants)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def agree(model: onnx.ModelProto, size: int, tolerance: float = 1e-5) -> None:
    """Compares one compiled model with onnxruntime at two shapes of indices, negative ones among them."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = anyshape.compile(model)
    for shape in ((2, 3), (1, 5)):
        at = np.random.default_rng(7).integers(-size, size, shape)
        want, got = session.run(None, {"at": at})[0], ours.run({"at": at})[0]
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, tolerance, tolerance)


def blocks(shape: list[int], axis: int) -> list[int]:
    return [-(-n // BLOCK) if k == axis % len(shape) else n for k, n in enumerate(shape)]


AXES = [(g, q, z) for g, q, z in product((0, 1, -1), (0, -2, 2), (False, True))]


@pytest.mark.parametrize(("along", "across", "zero"), AXES)
def test_integers_of_4_bits_along_any_axes(along, across, zero):
    shape = [5, 18, 3]
    scale = blocks(shape, across)
    dtype = I4 if zero else U4
    model = gathering(dtype, shape, scale, scale if zero else None, gather_axis=along, quantize_axis=across)
    agree(model, shape[along])


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_bytes_that_hold_several_codes(bits, zero):
    """Blocks are counted in codes; the zero points of a row begin with a byte of their own; without them the middle is taken."""
    each = 8 // bits
    scale = blocks([5, 6, 40], 2)
    packed = [5, 6, -(-scale[2] // each)] if zero else None
    for of, tolerance in ((F32, 1e-5), (F16, 2e-3)):
        agree(
            gathering(U8, [5, 6, 40 // each], scale, packed, of, gather_axis=-3, quantize_axis=2, bits=bits),
            5,
            tolerance,
        )


def test_both_codes_of_a_byte_by_hand():
    """The codes of 0x93 with 4 bits are 3 and 9, low ones first; 8 is taken off, and the scale is 2."""
    model = gathering(U8, [1, 8], [1, 1], None, quantize_axis=1)
    del model.graph.initializer[:]
    model.graph.initializer.append(helper.make_tensor("data", U8, [1, 8], [0x93] * 8))
    model.graph.initializer.append(helper.make_tensor("scale", F32, [1, 1], [2.0]))
    assert anyshape.compile(model).run({"at": np.array([[0]])})[0].tolist() == [[[-10.0, 2.0] * 8]]


@pytest.mark.parametrize(
    ("dtype", "attributes", "why"),
    [
        (U8, {"bits": 1}, "2, 4 or 8 bits"),
        (U8, {"gather_axis": 1, "quantize_axis": 2}, "another axis than the first"),
        (U8, {"quantize_axis": 0}, "another axis than the last"),
        (I4, {"bits": 8}, "with other bits than their dtype has"),
        (I4, {"gather_axis": 3}, "does not have"),
        (I4, {"quantize_axis": -4}, "does not have"),
    ],
)
def test_what_is_refused(dtype, attributes, why):
    with pytest.raises(AnyshapeError, match=why):
        anyshape.compile(gathering(dtype, [5, 6, 40], [5, 6, 5 if dtype == U8 else 3], None, **attributes))
