"""Operators of com.microsoft beside onnxruntime's own, at several shapes of one compiled model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.errors import UnsupportedError
from tests.frontends.contrib import RNG, check, half, model_of, real, seeded, whole

__all__ = ["seeded"]


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(transposed):
    def case(b, m, k, n):
        return {
            "a": real(b, *((k, m) if transposed[0] else (m, k))),
            "b": real(b, *((n, k) if transposed[1] else (k, n))),
        }

    check("FusedMatMul", [case(2, 3, 4, 5), case(1, 7, 2, 1)], transA=transposed[0], transB=transposed[1], alpha=0.5)


def test_activations():
    check("Gelu", [{"x": real(2, 3)}, {"x": real(5, 7)}])
    check("QuickGelu", [{"x": real(2, 3)}, {"x": real(5, 7)}])
    check("QuickGelu", [{"x": real(2, 3)}], alpha=1.0)
    check("FastGelu", [{"x": real(2, 3, 4)}])
    check("FastGelu", [{"x": real(2, 3, 4), "b": real(4)}, {"x": real(1, 5, 6), "b": real(6)}])
    check("BiasGelu", [{"x": real(2, 3, 4), "b": real(4)}, {"x": real(1, 5, 6), "b": real(6)}])


def test_normalisations():
    def case(b, s, d, bias=True):
        return {
            "x": real(b, s, d),
            "skip": real(b, s, d),
            "g": real(d),
            "beta": real(d),
            "bias": real(d) if bias else None,
        }

    check("SkipLayerNormalization", [case(2, 3, 8), case(1, 5, 16)], "y - - s", epsilon=1e-5)
    check("SkipLayerNormalization", [case(2, 3, 8, False), case(1, 5, 16, False)])

    def simple(b, s, d, bias=True):
        return {"x": real(b, s, d), "skip": real(b, s, d), "g": real(d), "bias": real(d) if bias else None}

    check("SkipSimplifiedLayerNormalization", [simple(2, 3, 8), simple(1, 5, 16)], "y - - s", epsilon=1e-5)
    check("SkipSimplifiedLayerNormalization", [simple(2, 3, 8, False)])
    check(
        "SimplifiedLayerNormalization",
        [{"x": real(2, 3, 8), "g": real(8)}, {"x": real(1, 2, 4), "g": real(4)}],
        domain="",
        axis=-1,
        epsilon=1e-5,
    )


@pytest.mark.parametrize("segments", [True, False])
def test_embed_layer_normalization(segments):
    def case(b, s, d=8):
        return {
            "ids": whole(11, b, s, dtype=np.int32), "seg": whole(2, b, s, dtype=np.int32) if segments else None, "words": real(11, d),
            "places": real(9, d), "kinds": real(2, d) if segments else None, "gamma": real(d), "shift": real(d),
            "mask": (np.arange(s) < np.arange(1, b + 1)[:, None]).astype(np.int32),
        }  # fmt: skip

    check("EmbedLayerNormalization", [case(2, 4), case(3, 7), case(1, 1)], "y m", epsilon=1e-12)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
def test_rotary_embedding(interleaved, rank):
    def case(b, s, offset):
        x = real(b, s, 2 * 8) if rank == 3 else real(b, 2, s, 8)
        angle = real(20, 4)
        at = np.array([offset], np.int64) if offset is not None else whole(20, b, s)
        return {"x": x, "at": at, "cos": np.cos(angle), "sin": np.sin(angle)}

    more = {"num_heads": 2} if rank == 3 else {}
    check("RotaryEmbedding", [case(2, 3, 1), case(1, 7, 0)], interleaved=interleaved, **more)
    check("RotaryEmbedding", [case(2, 3, None), case(1, 7, None)], interleaved=interleaved, **more)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention(past, masked):
    def case(b, s, t, heads=2, h=4, before=3):
        d, p = heads * h, before if past else 0
        mask = (np.arange(t + p) < np.array([t + p - 1] * b)[:, None]).astype(np.int32)
        return {
            "q": real(b, s, d), "k": real(b, t, d), "v": real(b, t, d), "bias": real(3 * d), "mask": mask if masked else None,
            "extra": real(b, heads, s, t + p), "pk": real(b, heads, p, h) if past else None, "pv": real(b, heads, p, h) if past else None,
        }  # fmt: skip

    cases = [case(2, 3, 3), case(1, 5, 5)] if past else [case(2, 3, 5), case(1, 6, 2)]
    check("MultiHeadAttention", cases, "y new_k new_v" if past else "y", num_heads=2)


def test_multi_head_attention_of_few_halves():
    """Products of few rows read both operands as they lie, where nothing has to be widened."""

    def case(s, t):
        return {"q": half(2, s, 8), "k": half(2, t, 8), "v": half(2, t, 8)}

    check("MultiHeadAttention", [case(3, 5), case(1, 7), case(4, 4)], tolerance=4e-3, num_heads=2)


def test_inputs_without_a_name_are_refused():
    proto = model_of("QuickGelu", {"x": real(2, 3), "more": real(2, 3)}, "y", "com.microsoft")
    with pytest.raises(UnsupportedError, match=r"QuickGelu .*input 1 is not supported"):
        anyshape.compile(proto)


def test_causal_multi_head_attention():
    def case(b, s):
        return {"q": real(b, s, 8), "k": real(b, s, 8), "v": real(b, s, 8)}

    check("MultiHeadAttention", [case(2, 3), case(1, 6)], num_heads=2, unidirectional=1, scale=0.3)


@pytest.mark.parametrize("mask", [None, 2, 3])
def test_attention(mask):
    def case(b, s, d=8):
        shape = (b, s) if mask == 2 else (b, s, s)
        held = (RNG.random(shape) < 0.7).astype(np.int32) if mask else None
        if held is not None:
            held[..., 0] = 1
        return {"x": real(b, s, d), "w": real(d, 3 * d), "b": real(3 * d), "mask": held}

    check("Attention", [case(2, 3), case(1, 6)], num_heads=2)


@pytest.mark.parametrize("zero", [False, True])
def test_matmul_nbits(zero):
    k, n, block = 40, 6, 16
    blocks = -(-k // block)
    codes, scales = whole(256, n, blocks, block // 2, dtype=np.uint8), real(n * blocks)
    zeros = whole(256, n * -(-blocks // 2), dtype=np.uint8) if zero else None

    def case(*rows):
        return {"a": real(*rows, k), "b": codes, "s": scales, "z": zeros}

    check("MatMulNBits", [case(2, 3), case(1, 7)], tolerance=2e-4, K=k, N=n, bits=4, block_size=block)


def test_what_is_not_supported_is_refused_by_name():
    feeds: dict[str, np.ndarray | None] = {"x": real(2, 3)}
    with pytest.raises(UnsupportedError, match=r"Gelu \(com.microsoft, opset 1\): attribute shape is not supported"):
        anyshape.compile(model_of("Gelu", feeds, "y", "com.microsoft", shape=1))
    with pytest.raises(UnsupportedError, match=r"GroupQueryAttention .*num_heads is missing"):
        anyshape.compile(model_of("GroupQueryAttention", feeds, "y", "com.microsoft"))
    with pytest.raises(UnsupportedError, match=r"QMoE .*no mapping"):
        anyshape.compile(model_of("QMoE", feeds, "y", "com.microsoft"))


def tokens(
    b: int, s: int, past: int, room: int = 0, packed: bool = False, last: list[int] | None = None
) -> dict[str, np.ndarray | None]:
    """Inputs of GroupQueryAttention with 4 heads of queries and 2 of keys, of 16 elements. A cache has zeros where no token was yet, which
    stay; onnxruntime writes zeros there if results have memory of their own."""
    total, earlier = past + s, past > 0

    def cache() -> np.ndarray:
        entries = real(b, 2, room or past, 16)
        entries[:, :, total:] = 0
        return entries

    return {
        "q": real(b, s, 8 * 16 if packed else 4 * 16),
        "k": None if packed else real(b, s, 2 * 16),
        "v": None if packed else real(b, s, 2 * 16),
        "past_k": cache() if earlier else None,
        "past_v": cache() if earlier else None,
        "last": np.array(last or [total - 1] * b, np.int32),
        "total": np.array(total, np.int32),
    }


def with_angles(case: dict[str, np.ndarray | None]) -> dict[str, np.ndarray | None]:
    return {**case, "cos": real(32, 8), "sin": real(32, 8)}


def grouped(cases: list[dict[str, np.ndarray | None]], **attributes: Any) -> None:
    check("GroupQueryAttention", cases, "y keys values", num_heads=4, kv_num_heads=2, **attributes)


def test_grouped_query_attention_of_prompts():
    grouped([tokens(2, 5, 0), tokens(1, 3, 0)])
    grouped([with_angles(tokens(2, 5, 0))], do_rotary=1, rotary_interleaved=1)
    grouped([with_angles(tokens(2, 4, 0, packed=True)), with_angles(tokens(1, 7, 0, packed=True))], do_rotary=1)
    places = np.tile(np.arange(4), (2, 1))
    grouped([{**with_angles(tokens(2, 4, 0)), "places": places}], do_rotary=1)


def test_grouped_query_attention_with_a_cache():
    grouped([tokens(2, 1, 6), tokens(1, 1, 3), tokens(3, 1, 6, room=10, last=[6, 3, 5])])
    grouped([with_angles(tokens(2, 1, 6, room=10, last=[6, 4])), with_angles(tokens(2, 1, 7))], do_rotary=1)
    grouped([with_angles(tokens(1, 3, 4, room=8)), with_angles(tokens(1, 1, 7, room=8))], do_rotary=1)


def test_grouped_query_attention_with_other_scores():
    grouped([tokens(2, 6, 0)], local_window_size=3)
    grouped([tokens(2, 1, 7, last=[7, 4])], local_window_size=3)
    grouped([tokens(2, 6, 0)], softcap=2.0, scale=0.7)
    grouped([tokens(2, 6, 0)], smooth_softmax=1)
    more: dict[str, np.ndarray | None] = dict.fromkeys(("cos", "sin", "places"))
    grouped([{**tokens(1, 3, 4), **more, "bias": real(1, 4, 3, 7)}])
    grouped([{**tokens(2, 4, 0), **more, "bias": None, "sink": real(4)}])
