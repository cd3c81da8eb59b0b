"""The forms of `contrib_forms` of operators other than attentions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.frontends.contrib import RNG, real
from tests.frontends.contrib_forms import NO, WRONG, YES, Feeds, Form, halved, ints

N, K, BLOCK = 6, 40, 16


def wide(feeds: Feeds) -> Feeds:
    return {n: a.astype(np.float64) if a is not None and a.dtype == np.float32 else a for n, a in feeds.items()}


def activations() -> Iterator[Form]:
    for op, feeds in (
        ("Gelu", {"x": real(2, 3)}),
        ("QuickGelu", {"x": real(2, 3)}),
        ("FastGelu", {"x": real(2, 3), "b": real(3)}),
        ("BiasGelu", {"x": real(2, 3), "b": real(3)}),
    ):
        known: Feeds = dict(feeds)
        more = {"alpha": 1.3} if op == "QuickGelu" else {}
        yield Form(op, "of f32", known, attributes=more)
        yield Form(op, "of f16", halved(known), attributes=more)
        yield Form(op, "of f64", wide(known), attributes=more, theirs=NO if op in ("Gelu", "BiasGelu") else YES)
    yield Form("BiasGelu", "a bias of more than one axis", {"x": real(2, 3), "b": real(2, 3)}, theirs=NO)


def products() -> Iterator[Form]:
    yield Form(
        "FusedMatMul",
        "`alpha`, `transA`, `transB`",
        {"a": real(2, 4, 3), "b": real(2, 5, 4)},
        attributes={"alpha": 0.5, "transA": 1, "transB": 1},
    )
    yield Form("FusedMatMul", "of f64", wide({"a": real(2, 3, 4), "b": real(4, 5)}))
    yield Form("FusedMatMul", "of f16", halved({"a": real(2, 3, 4), "b": real(4, 5)}))
    yield Form(
        "FusedMatMul",
        "`transBatchA`, `transBatchB`",
        {"a": real(3, 2, 4), "b": real(4, 2, 5)},
        attributes={"transBatchA": 1, "transBatchB": 1},
    )
    yield Form(
        "FusedMatMul",
        "`transBatchA` of two axes",
        {"a": real(3, 4), "b": real(4, 5)},
        attributes={"transBatchA": 1},
        theirs=NO,
        ours=NO,
    )
    yield Form(
        "FusedMatMul",
        "a transposed matrix before a vector",
        {"a": real(4, 3), "b": real(4)},
        attributes={"transA": 1},
        theirs=WRONG,
        why="onnxruntime does not transpose it",
    )


def norms() -> Iterator[Form]:
    for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        three: Feeds = {"x": real(2, 3, 8), "skip": real(2, 3, 8), "g": real(8)}
        if op == "SkipLayerNormalization":
            three["beta"] = real(8)
        yield Form(op, "a bias, and the sum", {**three, "bias": real(8)}, "y - - s")
        yield Form(op, "mean and inverse deviation", three, "y mean inverse")
        yield Form(op, "of f16", halved(three))
        yield Form(op, "a skip that broadcasts", {**three, "skip": real(1, 3, 8)})
    yield Form(
        "SkipLayerNormalization",
        "of four axes",
        {"x": real(2, 2, 3, 8), "skip": real(2, 2, 3, 8), "g": real(8)},
        theirs=NO,
    )

    def embedded(**more: np.ndarray | None) -> Feeds:
        feeds: Feeds = {
            "ids": ints(9, 2, 4),
            "segments": None,
            "words": real(9, 8),
            "places": real(6, 8),
            "kinds": None,
            "gamma": real(8),
            "shift": real(8),
            "mask": None,
            "at": None,
        }
        return {**feeds, **more}

    op = "EmbedLayerNormalization"
    yield Form(op, "words and places", embedded(), "y marks")
    yield Form(
        op,
        "segments, a mask, and the sum",
        embedded(segments=ints(2, 2, 4), kinds=real(2, 8), mask=ints(2, 2, 4)),
        "y marks sum",
    )
    yield Form(op, "of f16", halved(embedded()), "y marks")
    yield Form(op, "`position_ids`", embedded(at=ints(6, 2, 4)), "y marks", {"mask_index_type": 1})


def rotations() -> Iterator[Form]:
    def feeds(x: np.ndarray, pairs: int, at: np.ndarray | None = None) -> Feeds:
        return {
            "x": x,
            "at": np.arange(6).reshape(2, 3) if at is None else at,
            "cos": real(9, pairs),
            "sin": real(9, pairs),
        }

    op = "RotaryEmbedding"
    yield Form(op, "of three axes", feeds(real(2, 3, 16), 4))
    yield Form(op, "of four axes, interleaved", feeds(real(2, 4, 3, 8), 4), attributes={"interleaved": 1})
    yield Form(op, "from one position on", feeds(real(2, 3, 16), 4, np.array([2])))
    yield Form(op, "of f16", halved(feeds(real(2, 3, 16), 4)))
    yield Form(
        op,
        "`rotary_embedding_dim`, `num_heads`",
        feeds(real(2, 3, 16), 2),
        attributes={"num_heads": 2, "rotary_embedding_dim": 4},
    )
    yield Form(
        op,
        "`rotary_embedding_dim` without `num_heads`",
        feeds(real(2, 3, 16), 4),
        attributes={"rotary_embedding_dim": 8},
        theirs=NO,
    )


def codes() -> Iterator[Form]:
    blocks = -(-K // BLOCK)

    def form(text: str, bits: int, why: str = "", **more: Any) -> Form:
        theirs, ours = more.pop("theirs", YES), more.pop("ours", YES)
        feeds: Feeds = {
            "a": real(3, K),
            "b": RNG.integers(0, 256, (N, blocks, BLOCK * bits // 8)).astype(np.uint8),
            "scale": real(N * blocks) / 8,
            **{n: more.pop(n, None) for n in ("zero", "order", "biased")},
        }
        if more.pop("half", False):
            feeds = halved(feeds)
        return Form(
            "MatMulNBits",
            text,
            feeds,
            "y",
            {"K": K, "N": N, "bits": bits, "block_size": BLOCK, **more},
            theirs,
            ours,
            why,
        )

    def packed(bits: int) -> np.ndarray:
        return RNG.integers(0, 256, N * -(-blocks * bits // 8)).astype(np.uint8)

    order = ints(blocks, K)
    for bits in (2, 4, 8):
        yield form(f"{bits} bits", bits, biased=real(N))
        yield form(f"{bits} bits, packed zero points", bits, zero=packed(bits))
        yield form(
            f"{bits} bits, zero points of floats",
            bits,
            zero=real(N, blocks) * 2 + 8,
            theirs=YES if bits < 8 else NO,
            ours=YES if bits < 8 else NO,
        )
    yield form("of f16", 4, half=True)
    for level in (1, 4):
        yield form(f"`accuracy_level` {level}", 4, accuracy_level=level)
    yield form("3 bits", 3, theirs=NO, ours=NO)
    yield form("`g_idx`", 4, order=order)
    yield form("`g_idx` and zero points of floats", 4, zero=real(N, blocks) * 2 + 8, order=order)
    yield form(
        "`g_idx` and packed zero points",
        4,
        zero=packed(4),
        order=order,
        theirs=WRONG,
        why="onnxruntime takes 8 for all of them",
    )
    yield form("`g_idx` of 2 bits", 2, order=order, theirs=WRONG, why="onnxruntime takes them for 4")
    yield form("`g_idx` of 8 bits", 8, order=order, theirs=NO, ours=NO)
    yield form(
        "`weight_prepacked`",
        4,
        weight_prepacked=1,
        ours=NO,
        why="the weights are laid out for another device; onnxruntime's CPU provider reads them as if they were not",
    )
