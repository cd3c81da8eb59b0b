"""MatMulNBits and GroupQueryAttention in the forms that onnxruntime computes on a CPU, beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.errors import UnsupportedError
from tests.frontends.contrib import check, model_of, real, seeded, whole
from tests.frontends.test_contrib import tokens, with_angles

__all__ = ["seeded"]

N, K, BLOCK = 6, 40, 16
BLOCKS = -(-K // BLOCK)


def coded(
    bits: int, zero: np.ndarray | None = None, more: dict[str, np.ndarray | None] | None = None, dtype: Any = np.float32
):
    """Inputs of MatMulNBits by the rows of its left operand."""
    weights: dict[str, np.ndarray | None] = {
        "b": whole(256, N, BLOCKS, BLOCK * bits // 8, dtype=np.uint8),
        "scale": (real(N * BLOCKS) / 8).astype(dtype),
        "zero": zero,
        **(more or {}),
    }
    return [{"a": real(*rows, K).astype(dtype), **weights} for rows in ((2, 3), (1, 7))]


def product(cases: list[dict[str, np.ndarray | None]], bits: int, tolerance: float = 2e-4) -> None:
    check("MatMulNBits", cases, tolerance=tolerance, K=K, N=N, bits=bits, block_size=BLOCK)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packed_zero_points(bits):
    packed = whole(256, N * -(-BLOCKS * bits // 8), dtype=np.uint8)
    product(coded(bits, packed, {"order": None, "biased": real(N)}), bits)
    product(coded(bits, packed.reshape(N, -1)), bits)
    product(coded(bits), bits)
    product(coded(bits, packed, dtype=np.float16), bits, 2e-2)


@pytest.mark.parametrize(("bits", "block"), [(4, 32), (8, 16), (2, 128)])
def test_columns_in_groups_of_a_line_and_rows_that_are_few_or_many(bits, block):
    n, k = 128, 256
    weights = {
        "b": whole(256, n, k // block, block * bits // 8, dtype=np.uint8),
        "scale": real(n * k // block) / 8,
        "zero": whole(256, n * -(-k // block * bits // 8), dtype=np.uint8),
    }
    cases = [{"a": real(rows, k), **weights} for rows in (1, 2, 3, 20)]
    check("MatMulNBits", cases, tolerance=2e-3, K=k, N=n, bits=bits, block_size=block)


@pytest.mark.parametrize("bits", [2, 4])
def test_zero_points_of_floats(bits):
    zero = real(N, BLOCKS) * 2 + 8
    product(coded(bits, zero, {"order": None, "biased": real(N)}), bits)
    product(coded(bits, zero.ravel()), bits)
    product(coded(bits, zero.astype(np.float16), dtype=np.float16), bits, 4e-2)


def test_columns_in_groups():
    order = whole(BLOCKS, K, dtype=np.int32)
    product(coded(4, None, {"order": order}), 4)
    product(coded(4, real(N, BLOCKS) * 2 + 8, {"order": order, "biased": real(N)}), 4)


@pytest.mark.parametrize(("bits", "zero", "points"), [(4, 0x31, (1, 3)), (2, 0b1101, (1, 3))])
def test_columns_in_groups_with_packed_zero_points(bits, zero, points):
    """Our zero points are those of the model, where onnxruntime takes 8 for every one, and 2 bits for 4."""
    order = whole(2, 32, dtype=np.int32)
    feeds: dict[str, np.ndarray | None] = {
        "a": np.eye(32, dtype=np.float32), "b": np.zeros((1, 2, 2 * bits), np.uint8), "scale": np.array([1, 10], np.float32),
        "zero": np.array([zero], np.uint8), "order": order,
    }  # fmt: skip
    ours = anyshape.compile(model_of("MatMulNBits", feeds, "y", "com.microsoft", K=32, N=1, bits=bits, block_size=16))
    want = np.where(order == 0, -points[0], -10 * points[1])
    np.testing.assert_array_equal(ours.run({n: a for n, a in feeds.items() if a is not None})[0][:, 0], want)


def test_codes_that_are_refused():
    for why, bits, zero in (("of 8 bits", 8, real(N, BLOCKS)), ("neither packed", 4, whole(3, N, BLOCKS))):
        model = model_of(
            "MatMulNBits", coded(bits, zero)[0], "y", "com.microsoft", K=K, N=N, bits=bits, block_size=BLOCK
        )
        with pytest.raises(UnsupportedError, match=why):
            anyshape.compile(model)


def grouped(cases: list[dict[str, np.ndarray | None]], **attributes: Any) -> None:
    check("GroupQueryAttention", cases, "y keys values", num_heads=4, kv_num_heads=2, **attributes)


def test_scores_of_several_kinds_at_once():
    more: dict[str, np.ndarray | None] = dict.fromkeys(("cos", "sin", "places", "bias"))
    sinks = {**more, "sink": real(4)}
    grouped(
        [tokens(2, 6, 0), tokens(1, 3, 0)],
        smooth_softmax=1,
        softcap=1.5,
        local_window_size=2,
        causal=1,
        sliding_window_cache=0,
    )
    grouped([{**tokens(2, 1, 4), **sinks}, {**tokens(1, 1, 7), **sinks}], smooth_softmax=1)
    grouped([{**tokens(2, 4, 0), **sinks}], softcap=1.0, local_window_size=2)
    grouped([tokens(1, 3, 7), tokens(1, 1, 4)], local_window_size=1)
    grouped(
        [with_angles(tokens(2, 1, 5, packed=True)), with_angles(tokens(1, 1, 2, packed=True))],
        do_rotary=1,
        rotary_interleaved=1,
    )


def test_grouped_attention_that_is_refused():
    model = model_of(
        "GroupQueryAttention",
        tokens(2, 1, 3),
        "y keys values",
        "com.microsoft",
        num_heads=4,
        kv_num_heads=2,
        causal=0,
        local_window_size=3,
    )
    with pytest.raises(UnsupportedError, match="a window that is not causal"):
        anyshape.compile(model)
