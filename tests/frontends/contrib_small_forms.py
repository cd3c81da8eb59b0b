"""The forms of `contrib_forms` of operators other than attentions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

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


BLOCKS = -(-K // BLOCK)


def coded(bits: int, **more: np.ndarray) -> Feeds:
    """Inputs of MatMulNBits; `more` of them that may be absent."""
    return {
        "a": real(3, K),
        "b": RNG.integers(0, 256, (N, BLOCKS, BLOCK * bits // 8)).astype(np.uint8),
        "scale": real(N * BLOCKS) / 8,
        **{n: more.get(n) for n in ("zero", "order", "biased")},
    }


def packed(bits: int) -> np.ndarray:
    return RNG.integers(0, 256, N * -(-BLOCKS * bits // 8)).astype(np.uint8)


def of_floats() -> np.ndarray:
    return real(N, BLOCKS) * 2 + 8


def order() -> np.ndarray:
    return ints(BLOCKS, K)


class Code(NamedTuple):
    """A form of MatMulNBits of so many bits, whose numbers are not drawn yet."""

    text: str
    bits: int
    feeds: Callable[[int], Feeds] = coded
    attributes: dict[str, int] = {}  # noqa: RUF012, never changed
    theirs: str = YES
    ours: str = YES
    why: str = ""


CODES = (
    Code("2 bits", 2, lambda bits: coded(bits, biased=real(N))),
    Code("2 bits, packed zero points", 2, lambda bits: coded(bits, zero=packed(bits))),
    Code("2 bits, zero points of floats", 2, lambda bits: coded(bits, zero=of_floats())),
    Code("4 bits", 4, lambda bits: coded(bits, biased=real(N))),
    Code("4 bits, packed zero points", 4, lambda bits: coded(bits, zero=packed(bits))),
    Code("4 bits, zero points of floats", 4, lambda bits: coded(bits, zero=of_floats())),
    Code("8 bits", 8, lambda bits: coded(bits, biased=real(N))),
    Code("8 bits, packed zero points", 8, lambda bits: coded(bits, zero=packed(bits))),
    Code("8 bits, zero points of floats", 8, lambda bits: coded(bits, zero=of_floats()), theirs=NO, ours=NO),
    Code("of f16", 4, lambda bits: halved(coded(bits))),
    Code("`accuracy_level` 1", 4, attributes={"accuracy_level": 1}),
    Code("`accuracy_level` 4", 4, attributes={"accuracy_level": 4}, theirs=WRONG,
         why="onnxruntime multiplies floats where the weights are no constant"),
    Code("3 bits", 3, theirs=NO, ours=NO),
    Code("`g_idx`", 4, lambda bits: coded(bits, order=order())),
    Code("`g_idx` and zero points of floats", 4, lambda bits: coded(bits, zero=of_floats(), order=order())),
    Code("`g_idx` and packed zero points", 4, lambda bits: coded(bits, zero=packed(bits), order=order()), theirs=WRONG,
         why="onnxruntime takes 8 for all of them"),
    Code("`g_idx` of 2 bits", 2, lambda bits: coded(bits, order=order()), theirs=WRONG, why="onnxruntime takes them for 4"),
    Code("`g_idx` of 8 bits", 8, lambda bits: coded(bits, order=order()), theirs=NO, ours=NO),
    Code("`weight_prepacked`", 4, attributes={"weight_prepacked": 1}, ours=NO,
         why="the weights are laid out for another device; onnxruntime's CPU provider reads them as if they were not"),
)  # fmt: skip


def codes() -> Iterator[Form]:
    for c in CODES:
        attributes = {"K": K, "N": N, "bits": c.bits, "block_size": BLOCK, **c.attributes}
        yield Form("MatMulNBits", c.text, c.feeds(c.bits), "y", attributes, c.theirs, c.ours, c.why)
