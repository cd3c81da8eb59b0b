"""Products of bytes by the contraction template, against NumPy: every layout of both operands, every level of instructions, both orders of
signs, whatever is turned over, lengths that are no whole words; at the end of memory, with poisoned scratch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anyshape.lower import gemm
from anyshape.lower.gemm import Codes, Side
from anyshape.lower.llvm.types import I32
from anyshape.lower.target import host_target
from tests.lower.contraction_kernels import contraction, run_parts
from tests.lower.forbidden import before_forbidden_memory

LEVELS = ["amx", "avx512", "avxvnni", "avx2", "sse"]
Array = np.ndarray[Any, Any]
ORDERS = {
    "u8 s8": Codes(Side(True), Side(False)),
    "s8 u8": Codes(Side(False), Side(True)),
    "u8 u8": Codes(Side(False, flips=True), Side(True)),
    "s8 s8": Codes(Side(True, flips=True), Side(False)),
    "u8 u8, b turned": Codes(Side(True), Side(False, flips=True)),
    "s8 s8, b turned": Codes(Side(False), Side(True, flips=True)),
}


def contract(a: Array, b: Array, level: str, order: str, b_kind: str, nparts: int = 1) -> Array:
    target = host_target().limited(level)
    tiles = gemm.tiles_for(target, I32)
    batches, m, k = a.shape
    n, words = b.shape[-1], gemm.panel_steps(ORDERS[order], target, k)
    (a1, am, ak), (bb1, bk, bn) = a.strides, b.strides
    if b_kind == "prepacked":
        b = before_forbidden_memory(ORDERS[order].prepacked(b, tiles, target))
        bb1 = gemm.prepacked_elements(words, n, tiles)
    c = before_forbidden_memory(np.full((batches, m, n), 77, np.int32))
    scalars = (m, n, k, am, ak, bk, bn, batches, a1, bb1, m * n)
    by_tiles = gemm.by_matrix_tiles(ORDERS[order], target)
    bytes_ = gemm.scratch_bytes(tiles, m, n, -(-k // gemm.per_word(target)), packs_b=True, by_tiles=by_tiles)
    kernel = contraction(level, I32, prepacked=b_kind == "prepacked", words=ORDERS[order])
    run_parts(kernel, scalars, (a, b, c), bytes_, nparts)
    return c


def random_of(side: Side, *shape: int) -> Array:
    """Bytes as they are in memory, the ends among them."""
    dtype = np.int8 if side.unsigned == side.flips else np.uint8
    ends = np.iinfo(dtype)
    rng = np.random.default_rng(sum(shape))
    values = rng.integers(ends.min, ends.max + 1, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.2, rng.choice(np.array([ends.min, ends.max], dtype), shape), values)


def multiplied(x: Array, side: Side) -> Array:
    """The integers that are multiplied: with a flipped sign bit, 128 more or less."""
    wide = x.astype(np.int32)
    return wide if not side.flips else wide + 128 if side.unsigned else wide - 128


def laid(x: Array, way: int) -> Array:
    """Lays elements out contiguous along the last axis, along the one before it, or along none."""
    if way == 0:
        return before_forbidden_memory(x)
    if way == 1:
        return before_forbidden_memory(np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2)
    return before_forbidden_memory(np.repeat(x, 3, axis=2)[..., : max(3 * x.shape[2] - 2, 0)])[..., ::3]


SIZES = [
    (1, 40, 9),
    (2, 70, 33),
    (4, 129, 8),
    (5, 64, 20),
    (14, 33, 17),
    (23, 31, 64),
    (60, 100, 67),
    (3, 1, 7),
    (1, 300, 128),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_and_order_of_signs(level: str, order: str) -> None:
    codes = ORDERS[order]
    for index, (m, n, k) in enumerate(SIZES * 2):
        a, b = random_of(codes.a, 2, m, k), random_of(codes.b, 2, k, n)
        kind = "prepacked" if index % 4 == 3 else "strided"
        right = b if kind == "prepacked" else laid(b, index % 4)
        got = contract(laid(a, index % 3), right, level, order, kind)
        np.testing.assert_array_equal(got, multiplied(a, codes.a) @ multiplied(b, codes.b))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 15, 16, 63, 64, 65, 130])
@pytest.mark.parametrize("level", LEVELS)
def test_every_length_by_every_layout(level: str, k: int) -> None:
    codes = ORDERS["u8 s8"]
    for way_a in range(3):
        for way_b in range(4):
            m, n = (1, 5, 16, 17)[way_b], (33, 16, 7)[way_a]
            a, b = random_of(codes.a, 1, m, k), random_of(codes.b, 1, k, n)
            kind = "prepacked" if way_b == 3 else "strided"
            got = contract(laid(a, way_a), b if way_b == 3 else laid(b, way_b), level, "u8 s8", kind)
            np.testing.assert_array_equal(got, multiplied(a, codes.a) @ multiplied(b, codes.b))


@pytest.mark.parametrize("level", LEVELS[:2])
@pytest.mark.parametrize("nparts", [2, 3, 5])
def test_parts_share_rows_or_columns(nparts: int, level: str) -> None:
    codes = ORDERS["u8 u8"]
    for m, n, k in ((1, 900, 20), (129, 40, 33), (33, 8, 40), (0, 5, 3), (3, 0, 4)):
        a, b = random_of(codes.a, 1, m, k), random_of(codes.b, 1, k, n)
        for kind in ("prepacked", "strided"):
            got = contract(laid(a, 0), b if kind == "prepacked" else laid(b, 0), level, "u8 u8", kind, nparts)
            np.testing.assert_array_equal(got, multiplied(a, codes.a) @ multiplied(b, codes.b))


def test_sums_wrap_around() -> None:
    k = 70_000
    a, b = np.full((1, 1, k), 255, np.uint8), np.full((1, k, 20), -128, np.int8)
    got = contract(laid(a, 0), laid(b, 0), "avx512", "u8 s8", "strided")
    np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


def test_one_operand_has_a_sign() -> None:
    with pytest.raises(TypeError, match="one operand"):
        Codes(Side(True), Side(True))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("order", ["u8 s8", "s8 u8"])
def test_large_constants_take_a_byte_for_each_element(level: str, order: str) -> None:
    """Kernels widen what words of two elements of 16 bits are made of, where the second cache does not hold these."""
    codes, large = ORDERS[order], host_target().limited(level)
    per, b = gemm.per_word(large), random_of(codes.b, 1, 64, 32)
    for target, size in ((replace(large, l2_bytes=4095), per), (replace(large, l2_bytes=4096), 4)):
        tiles = gemm.tiles_for(target, I32)
        panels = codes.prepacked(b, tiles, target)
        assert panels.itemsize == size
        assert panels.size == gemm.prepacked_elements(gemm.panel_steps(codes, target, 64), 32, tiles)
