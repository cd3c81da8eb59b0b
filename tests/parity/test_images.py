"""Windows, images and sparse tensors of which dims are unknown, and with sizes and scales as operands: parity, one row per item."""

from __future__ import annotations

import numpy as np
import pytest
from parity_case import LOOPS, Case, agrees

import anyshape
from anyshape import ops
from anyshape.graph.value import Value
from anyshape.passes import dyn_to_static, optimise

Array = np.ndarray


def summed(x: Array, w: Array) -> Array:
    """A 2-D convolution without pads, tap by tap."""
    h, v = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    taps = np.ndindex(*w.shape[2:])
    return sum(np.einsum("bchw,oc->bohw", x[:, :, i : i + h, j : j + v], w[:, :, i, j]) for i, j in taps)


def spread(x: Array, w: Array) -> Array:
    """Computes the transpose of a convolution of stride 2."""
    y = np.zeros((x.shape[0], w.shape[1], *[2 * (n - 1) + k for n, k in zip(x.shape[2:], w.shape[2:])]), x.dtype)
    for q in np.ndindex(*w.shape[2:]):
        at = tuple(slice(k, k + 2 * n - 1, 2) for k, n in zip(q, x.shape[2:]))
        y[(slice(None), slice(None), *at)] += np.einsum("bc...,co->bo...", x, w[(slice(None), slice(None), *q)])
    return y


def blocks(x: Array) -> Array:
    return x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2)


def larger(x: Array, factors: tuple[int, ...]) -> Array:
    """Every element several times over."""
    for axis, n in enumerate(factors):
        x = np.repeat(x, n, axis)
    return x


def upsampling(x: Value, scale_h: Value, scale_w: Value) -> Value:
    """Relay's `upsampling`: every element so many times over, the scales being operands."""
    scales = ops.concat([ops.expand_dims(s, (0,)) for s in (scale_h, scale_w)], axis=0)
    size = ops.scaled_size(x, scales, axes=(2, 3))
    return ops.resize(x, scales=scales, axes=(2, 3), sizes=size, coordinates="asymmetric", nearest_mode="floor")


def upsampling3d(x: Value, *factors: Value) -> Value:
    scales = ops.concat([ops.expand_dims(s, (0,)) for s in factors], axis=0)
    size = ops.scaled_size(x, scales, axes=(2, 3, 4))
    return ops.resize(x, scales=scales, axes=(2, 3, 4), sizes=size, coordinates="asymmetric", nearest_mode="floor")


def resize2d(x: Value, size: Value) -> Value:
    """Relay's `image.resize2d` of channels first: linear, at half pixels."""
    return ops.resize(x, axes=(2, 3), sizes=size, mode="linear")


def halves(x: Array) -> Array:
    """Linear at half pixels to half the size along the last two axes: means of squares of four."""
    return blocks(x).mean((3, 5))


def points(n: int) -> Array:
    return ((2 * np.arange(n) + 1) / n - 1).astype(np.float32)


FOUR = "f32[?, 3, ?, ?]"
CASES: dict[str, Case] = {
    "conv2d": Case(["f32[?, 3, 6, 7]", "f32[4, 3, 3, 2]"], ops.conv, [(2, 3, 6, 7), (4, 3, 3, 2)], summed),
    "conv2d of any size": Case([FOUR, "f32[4, 3, 3, 2]"], ops.conv, [(2, 3, 9, 5), (4, 3, 3, 2)], summed),
    "conv1d_transpose": Case(
        ["f32[?, 3, 5]", "f32[3, 2, 3]"],
        lambda x, w: ops.conv_transpose(x, w, strides=(2,)),
        [(2, 3, 5), (3, 2, 3)],
        spread,
    ),
    "conv2d_transpose": Case(
        ["f32[?, 3, 5, 4]", "f32[3, 2, 3, 3]"],
        lambda x, w: ops.conv_transpose(x, w, strides=(2, 2)),
        [(2, 3, 5, 4), (3, 2, 3, 3)],
        spread,
    ),
    "max_pool2d": Case(
        [FOUR],
        lambda x: ops.max_pool(x, kernel=(2, 2), strides=(2, 2))[0],
        [(2, 3, 6, 8)],
        lambda x: blocks(x).max((3, 5)),
    ),
    "average_pool2d": Case(
        [FOUR],
        lambda x: ops.average_pool(x, kernel=(2, 2), strides=(2, 2)),
        [(2, 3, 6, 8)],
        lambda x: blocks(x).mean((3, 5)),
    ),
    "dilate": Case(
        ["f32[?, ?]"],
        lambda x: ops.dilate(x, strides=(2, 1)),
        [(2, 3)],
        lambda x: np.stack([x[0], np.zeros(3, np.float32), x[1]]),
    ),
    "crop_and_resize": Case(
        [FOUR, "f32[?, 4]", "i32[?]"],
        lambda x, boxes, image: ops.crop_and_resize(x, boxes, image, size=(3, 3)),
        [(2, 3, 5, 5), [[0, 0, 1, 1], [0.5, 0, 1, 0.5]], [0, 1]],
        lambda x, *_: np.stack([x[0, :, ::2, ::2], x[1, :, 2:, :3]]),
    ),
    "resize": Case([FOUR, "i64[2]"], resize2d, [(2, 3, 6, 8), [3, 4]], lambda x, _: halves(x)),
    "grid_sample": Case(
        [FOUR, "f32[?, ?, ?, 2]"],
        lambda x, grid: ops.grid_sample(x, grid, align_corners=True),
        [(2, 3, 4, 5), np.stack(np.meshgrid(np.linspace(1, -1, 5), np.linspace(-1, 1, 4)), -1)[None].repeat(2, 0)],
        lambda x, _: x[..., ::-1],
    ),
    "affine_grid": Case(
        ["f32[?, 2, 3]", "i64[4]"],
        lambda t, size: ops.affine_grid(t, size),
        [[[[0, 1, 0], [1, 0, 0.5]]], [1, 1, 2, 3]],
        lambda *_: np.stack(np.meshgrid(points(2), points(3) + 0.5, indexing="ij"), -1)[None],
    ),
    "upsampling": Case(
        ["f32[?, 3, ?, ?]", "f32[]", "f32[]"], upsampling, [(1, 3, 4, 5), 2, 3], lambda x, *_: larger(x, (1, 1, 2, 3))
    ),
    "upsampling3d": Case(
        ["f32[?, 1, ?, ?, ?]", "f32[]", "f32[]", "f32[]"],
        upsampling3d,
        [(1, 1, 2, 3, 2), 2, 1, 2],
        lambda x, *_: larger(x, (1, 1, 2, 1, 2)),
    ),
    "sparse_to_dense": Case(
        ["i64[?, 3]", "f32[?]", "f32[]", "i64[3]"],
        lambda i, v, value, shape: ops.sparse_to_dense(i, v, value, shape=shape),
        [[[0, 0, 0], [1, 2, 3]], [1, 2], 4, [2, 3, 4]],
        lambda *_: np.array([1] + [4] * 22 + [2]).reshape(2, 3, 4),
    ),
    "sparse_fill_empty_rows": Case(
        ["i64[?, 2]", "f32[?]", "f32[]", "i64[2]"],
        lambda i, v, value, shape: ops.sparse_fill_empty_rows(i, v, value, shape=shape),
        [[[0, 3], [3, 1]], [1, 2], 9, [4, 5]],
        lambda *_: [
            np.array([[0, 3], [1, 0], [2, 0], [3, 1]]),
            np.array([1, 9, 9, 2]),
            np.array([False, True, True, False]),
        ],
    ),
    "gather": Case(
        ["f32[?, ?]", "i64[?, ?]"],
        lambda x, i: ops.gather_elements(x, i, axis=1),
        [(3, 4), [[3, 0], [1, 1], [2, 2]]],
        lambda x, i: np.take_along_axis(x, i, 1),
    ),
    "searchsorted": Case(
        ["f32[?]", "f32[?, ?]"],
        lambda x, v: ops.searchsorted(ops.sort(x), v),
        [(11,), (8, 9)],
        lambda x, v: np.searchsorted(np.sort(x), v),
    ),
    "layout there and back": Case(
        ["f32[?, 3, 7, ?]"],
        lambda x: ops.transpose(ops.transpose(x, axes=(0, 2, 3, 1)), axes=(0, 3, 1, 2)),
        [(2, 3, 7, 5)],
        lambda x: x,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_any(name: str) -> None:
    CASES[name].check()


def test_a_layout_and_its_inverse_keep_known_dims() -> None:
    (x,) = (case := CASES["layout there and back"].function()).params
    assert case.results[0].type == x.type


def test_a_known_dim_stays_known_beside_an_unknown_scale() -> None:
    x, scale = anyshape.input("x", "f32[2, 3, 8, 4]"), anyshape.input("scale", "f32[1]")
    y = ops.resize(x, scales=scale, axes=(3,), sizes=ops.scaled_size(x, scale, axes=(3,)))
    assert y.type.shape is not None and y.type.shape[:3] == (2, 3, 8) and not isinstance(y.type.shape[3], int)


def test_whole_scales_of_unknown_dims_are_multiples() -> None:
    x = anyshape.input("x", "f32[n, 3, h, w]")
    size = ops.scaled_size(x, np.array([2.0, 1.5], np.float32), axes=(2, 3))
    y = ops.resize(x, axes=(2, 3), sizes=size)
    assert y.type.shape is not None and str(y.type.shape[2]) == "2*h"


@pytest.mark.parametrize("name", ["resize", "upsampling", "upsampling3d"])
def test_becomes_static(name: str) -> None:
    case = CASES[name]
    x = anyshape.input("x", f"f32[{', '.join(map(str, case.arrays[0]))}]")
    operands = case.arguments()[1:]
    f = dyn_to_static(optimise(anyshape.function([x], case.build(x, *map(ops.identity, operands)))))
    assert {n.op.variant for n in f.nodes} <= {"static", ""}
    assert f.results[0].type.is_static
    arguments = case.arguments()
    for loop in LOOPS:
        agrees(anyshape.compile(f, loop=loop)(arguments[0]), case.reference(*arguments))
