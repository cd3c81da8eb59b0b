"""Operators as their first version in ONNX declared them, where later ones moved inputs and attributes: no suite has these."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import anyshape
from anyshape.errors import AnyshapeError
from tests.frontends.models import model, node, tensor

F32 = np.float32
STRING, INT64 = 8, 7


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=F32).reshape(shape) - 3


@pytest.mark.parametrize(("axis", "tiles"), [(0, 2), (1, 3), (-1, 2), (1, 0)])
def test_tile_along_an_axis(axis, tiles):
    constants = {"tiles": np.array(tiles, F32), "axis": np.array([axis], F32)}
    x = ramp(2, 3)
    expected = np.concatenate([x] * tiles, axis) if tiles else x[:, :0]
    at_once = model([node("Tile", "x tiles axis", "y")], [tensor("x", ["n", "m"])], "y", constants, opset=1)
    assert anyshape.compile(at_once).report.still_dynamic == []
    at_run = model(
        [node("Tile", "x tiles axis", "y")],
        [tensor("x", ["n", "m"]), tensor("tiles", []), tensor("axis", [1])],
        "y",
        opset=1,
    )
    assert np.array_equal(anyshape.compile(at_once)(x), expected)
    assert np.array_equal(anyshape.compile(at_run)(x, *constants.values()), expected)


def test_tile_along_an_axis_that_is_not_there():
    constants = {"tiles": np.array(2, F32), "axis": np.array(2, F32)}
    with pytest.raises(AnyshapeError, match="index 2"):
        anyshape.compile(model([node("Tile", "x tiles axis", "y")], [tensor("x", [2, 3])], "y", constants, opset=1))(
            ramp(2, 3)
        )


def test_upsample_by_attributes():
    by = {"height_scale": 2.0, "width_scale": 1.5}
    f = anyshape.compile(model([node("Upsample", "x", "y", **by)], [tensor("x", ["n", 1, "h", "w"])], "y", opset=1))
    x = ramp(1, 1, 2, 4)
    assert np.array_equal(f(x), x[:, :, [0, 0, 1, 1]][:, :, :, [0, 0, 1, 2, 2, 3]])


@pytest.mark.parametrize("p", [1.0, 2.0, 0.5, 3.5])
def test_pools_by_a_norm_that_is_no_integer(p):
    x = ramp(1, 2, 4)
    f = anyshape.compile(model([node("GlobalLpPool", "x", "y", p=p)], [tensor("x", ["n", "c", "w"])], "y", opset=1))
    assert np.allclose(f(x), (np.abs(x) ** p).sum(-1, keepdims=True) ** (1 / p), rtol=1e-5)
    pool = node("LpPool", "x", "y", p=p, kernel_shape=[2], strides=[2])
    f = anyshape.compile(model([pool], [tensor("x", ["n", "c", "w"])], "y", opset=1))
    assert np.allclose(f(x), (np.abs(x.reshape(1, 2, 2, 2)) ** p).sum(-1) ** (1 / p), rtol=1e-5)


def encoder(kind: int, **attributes) -> object:
    proto = model(
        [node("LabelEncoder", "x", "y", domain="ai.onnx.ml", **attributes)],
        [tensor("x", ["n"], kind)],
        "y",
        domains=["ai.onnx.ml"],
    )
    return anyshape.compile(proto)


def test_labels_of_strings_and_strings_of_labels():
    names = np.array(["b", "none", "a", "ccc"])
    assert encoder(STRING, classes_strings=["a", "b", "ccc"])(names).tolist() == [1, -1, 0, 2]
    assert encoder(STRING, classes_strings=["a", "b"], default_int64=9)(names).tolist() == [1, 9, 0, 9]
    at = np.array([2, 0, 3, -1])
    assert encoder(INT64, classes_strings=["a", "b", "ccc"])(at).tolist() == ["ccc", "a", "_Unused", "_Unused"]
    assert encoder(INT64, classes_strings=["a"], default_string="?")(at).tolist() == ["?", "a", "?", "?"]
    assert encoder(INT64)(at).tolist() == ["_Unused"] * 4


@pytest.mark.parametrize(("shape", "groups"), [((2, 6, 4), 3), ((1, 6, 2, 3), 1), ((3, 6), 6)])
def test_groups_that_are_normalised_with_a_scale_for_each(shape, groups):
    """What opset 18 says, before opset 21 gave each channel a scale of its own; a scale by channel is refused there."""
    x = np.random.default_rng(1).normal(size=shape).astype(F32)
    scale, bias = np.arange(groups, dtype=F32) + 1, np.arange(groups, dtype=F32) * 10
    grouped = node("GroupNormalization", "x scale bias", "y", num_groups=groups, epsilon=1e-3)
    dims = [f"d{k}" for k in range(len(shape))]
    proto = model([grouped], [tensor("x", dims), tensor("scale", ["g"]), tensor("bias", ["g"])], "y", opset=18)
    f = anyshape.compile(proto)
    parts = x.reshape(shape[0], groups, -1)
    normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-3)
    expected = (normal * scale[:, None] + bias[:, None]).reshape(shape)
    np.testing.assert_allclose(f(x, scale, bias), expected, 1e-5, 1e-5)
    np.testing.assert_allclose(
        ReferenceEvaluator(proto).run(None, {"x": x, "scale": scale, "bias": bias})[0], expected, 1e-4, 1e-4
    )
    if groups < 6:
        with pytest.raises(AnyshapeError, match="GroupNormalization"):
            f(x, np.ones(6, F32), np.ones(6, F32))


@pytest.mark.parametrize("groups", [0, -1, 4])
def test_groups_that_channels_have_not(groups):
    grouped = node("GroupNormalization", "x scale bias", "y", num_groups=groups)
    with pytest.raises(AnyshapeError, match="group"):
        anyshape.compile(
            model([grouped], [tensor("x", [1, 6, 2]), tensor("scale", [1]), tensor("bias", [1])], "y", opset=18)
        )(ramp(1, 6, 2), ramp(1), ramp(1))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0)])
def test_rows_of_a_matrix_of_nothing(op, shape):
    """A dim of 0 is a dim of 0, and copies none."""
    x = np.zeros(shape, F32)
    assert anyshape.compile(model([node(op, "x", "y")], [tensor("x", ["a", "b", "c"])], "y", opset=1))(x).shape == shape
