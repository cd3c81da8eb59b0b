"""Rarer forms of com.microsoft's operators that onnxruntime computes on a CPU, beside it: second results, transposed batches, rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.errors import AnyshapeError, UnsupportedError
from tests.frontends.contrib import check, half, model_of, real, seeded, whole

__all__ = ["seeded"]

Feeds = dict[str, np.ndarray | None]


def laid(b: int, rows: int, columns: int, transposed: int, batch: int) -> np.ndarray:
    """A stack of matrices, each turned or not, with the batch before them or between their axes."""
    first, last = (columns, rows) if transposed else (rows, columns)
    return real(first, b, last) if batch else real(b, first, last)


@pytest.mark.parametrize("batches", [(1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_products_of_transposed_batches(batches, transposed):
    def case(b, m, k, n):
        return {"a": laid(b, m, k, transposed[0], batches[0]), "b": laid(b, k, n, transposed[1], batches[1])}

    flags = {"transA": transposed[0], "transB": transposed[1], "transBatchA": batches[0], "transBatchB": batches[1]}
    check("FusedMatMul", [case(2, 3, 4, 5), case(1, 7, 2, 1)], alpha=0.5, **flags)


def test_products_of_two_transposed_batches():
    cases: list[Feeds] = [
        {"a": real(3, 2, 7, 4), "b": real(2, 7, 4, 5)},
        {"a": real(2, 1, 2, 3), "b": real(1, 2, 3, 4)},
    ]
    check("FusedMatMul", cases, transBatchA=1)


@pytest.mark.parametrize("flags", [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}])
def test_products_with_vectors(flags):
    """A vector cannot be turned: its flag says nothing."""
    transposed = (4, 5) if not flags.get("transB") else (5, 4)
    check("FusedMatMul", [{"a": real(4), "b": real(*transposed)}], alpha=2.0, **flags)
    check("FusedMatMul", [{"a": real(4), "b": real(2, *transposed)}], **flags)
    check("FusedMatMul", [{"a": real(4), "b": real(4)}], **flags)
    check("TransposeMatMul", [{"a": real(4), "b": real(*transposed)}], **flags)
    if "transA" not in flags:
        check("FusedMatMul", [{"a": real(2, 3, 4), "b": real(4)}], **flags)


def test_a_transposed_matrix_and_a_vector():
    """The transposed matrix is multiplied, where onnxruntime takes the elements in the order in which they lie."""
    a, b = real(4, 3), real(4)
    ours = anyshape.compile(model_of("FusedMatMul", {"a": a, "b": b}, "y", "com.microsoft", transA=1))
    np.testing.assert_allclose(ours.run({"a": a, "b": b})[0], a.T @ b, rtol=1e-5, atol=1e-5)


def test_products_that_are_refused():
    for a, b in ((real(3, 4), real(4, 5)), (real(3, 2, 4), real(4, 5))):
        with pytest.raises(UnsupportedError, match="transposed batches of fewer than three axes"):
            anyshape.compile(model_of("FusedMatMul", {"a": a, "b": b}, "y", "com.microsoft", transBatchA=1))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rotations(interleaved, dtype):
    def case(x, offset, pairs):
        angle = real(20, pairs)
        b, s = (x.shape[0], x.shape[-2 if x.ndim == 4 else 1])
        at = whole(20, b, s) if offset is None else np.array([offset], np.int64)
        return {"x": x.astype(dtype), "at": at, "cos": np.cos(angle).astype(dtype), "sin": np.sin(angle).astype(dtype)}

    more: dict[str, Any] = {"interleaved": interleaved, "tolerance": 2e-5 if dtype == np.float32 else 4e-3}
    for offset in (2, None):
        check("RotaryEmbedding", [case(real(2, 3, 16), offset, 4), case(real(1, 7, 12), offset, 2)], **more)
        check("RotaryEmbedding", [case(real(2, 3, 16), offset, 4)], is_packed_batching=1, scale=2.0, **more)
        check("RotaryEmbedding", [case(real(2, 3, 16), offset, 2)], num_heads=2, rotary_embedding_dim=4, **more)
        check("RotaryEmbedding", [case(real(2, 5, 3, 8), offset, 2)], num_heads=5, rotary_embedding_dim=4, **more)
        check("RotaryEmbedding", [case(real(2, 5, 3, 8), offset, 4), case(real(1, 2, 4, 6), offset, 3)], **more)


def test_a_rotation_from_one_position_on():
    angle = real(20, 4)
    check("RotaryEmbedding", [{"x": real(2, 3, 16), "at": np.array(3), "cos": np.cos(angle), "sin": np.sin(angle)}])


def test_rotations_that_are_refused():
    feeds: Feeds = {"x": real(2, 3, 18), "at": np.array([0]), "cos": real(20, 4), "sin": real(20, 4)}
    with pytest.raises(AnyshapeError, match="RotaryEmbedding"):
        anyshape.compile(model_of("RotaryEmbedding", feeds, "y", "com.microsoft")).run(dict(feeds))
    with pytest.raises(UnsupportedError, match="a negative rotary_embedding_dim"):
        anyshape.compile(model_of("RotaryEmbedding", feeds, "y", "com.microsoft", rotary_embedding_dim=-4))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_sums_that_are_normalised(op, dtype):
    def case(*shape, skip=None, bias=True, beta=True):
        d = shape[-1]
        feeds: Feeds = {"x": real(*shape), "skip": real(*(skip or shape)), "g": real(d)}
        if op == "SkipLayerNormalization":
            feeds["beta"] = real(d) if beta else None
        feeds["bias"] = real(d) if bias else None
        return {n: a if a is None else a.astype(dtype) for n, a in feeds.items()}

    close = 2e-5 if dtype == np.float32 else 4e-3
    check(op, [case(2, 3, 8), case(1, 5, 16)], "y - - s", close)
    check(op, [case(2, 3, 8, bias=False), case(1, 5, 16, bias=False)], "y - - s", close)
    check(op, [case(2, 3, 8, skip=(3, 8)), case(4, 5, 8, skip=(5, 8))], "y - - s", close)
    check(op, [case(2, 3, 8, skip=(1, 3, 8), beta=False)], "y - - s", close)
    check(op, [case(3, 8), case(5, 4)], "y - - s", close)
    if dtype == np.float32:
        check(op, [case(2, 3, 8), case(1, 5, 16)], "y mean inverse s", epsilon=0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_means_and_deviations(axis, dtype):
    def case(*shape):
        part = shape[axis:] if axis >= 0 else shape[-1:]
        return {"x": real(*shape).astype(dtype), "g": real(*part).astype(dtype), "b": real(*part).astype(dtype)}

    close = 4e-3 if dtype == np.float16 else 2e-5
    cases = [case(2, 3, 8), case(4, 2, 5)]
    check("LayerNormalization", cases, "y mean inverse", close, domain="", axis=axis)
    scaled: list[Feeds] = [{"x": c["x"], "g": c["g"]} for c in cases]
    check("SimplifiedLayerNormalization", scaled, "y inverse", close, domain="", axis=axis)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_embeddings_count_marks_of_one(kind):
    def case(b, s, at=None, marks=True, d=8):
        return {
            "ids": whole(11, b, s, dtype=np.int32), "segments": None, "words": real(11, d), "places": real(9, d), "kinds": None,
            "gamma": real(d), "shift": real(d), "mask": whole(4, b, s, dtype=np.int32) - 1 if marks else None, "at": at,
        }  # fmt: skip

    check("EmbedLayerNormalization", [case(2, 4), case(3, 7)], "y marks", mask_index_type=kind)
    check("EmbedLayerNormalization", [case(2, 4, marks=False)], "y marks sum", mask_index_type=kind, epsilon=0.1)
    check(
        "EmbedLayerNormalization",
        [case(2, 4, whole(9, b, 4, dtype=np.int32)) for b in (2, 1)],
        "y marks",
        mask_index_type=kind,
    )


def test_halves():
    """What the activations say of halves."""
    check("FastGelu", [{"x": half(2, 3, 4), "b": half(4)}], tolerance=4e-3)
    check("QuickGelu", [{"x": half(2, 3, 4)}], tolerance=4e-3, alpha=-1.0)
    check("Gelu", [{"x": half(2, 3, 4)}], tolerance=4e-3)
    check("QuickGelu", [{"x": real(2, 3, 4)}], alpha=0.0)
