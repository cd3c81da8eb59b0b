"""Every form of com.microsoft's attentions that onnxruntime computes on a CPU, beside it: masks, pasts, caches, keys by head."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import anyshape
from anyshape.errors import AnyshapeError, UnsupportedError
from tests.frontends.contrib import check, model_of, real, seeded, whole

__all__ = ["seeded"]

LEAST = float(np.finfo(np.float32).min)
Feeds = dict[str, np.ndarray | None]


def lengths(*of: int) -> np.ndarray:
    return np.array(of, np.int32)


def bits(*shape: int) -> np.ndarray:
    """A mask of 0 and 1, and numbers that count as those."""
    return whole(4, *shape, dtype=np.int32) - 1


def fused(b: int, s: int, mask: np.ndarray | None = None, past: int = 0, sizes: tuple[int, ...] = (8, 8, 8)) -> Feeds:
    """Inputs of Attention with 2 heads."""
    return {
        "x": real(b, s, 8),
        "w": real(8, sum(sizes)),
        "b": real(sum(sizes)),
        "mask": mask,
        "past": real(2, b, 2, past, sizes[0] // 2) if past else None,
    }


def attention(cases: list[Feeds], outputs: str = "y", **attributes: Any) -> None:
    check("Attention", cases, outputs, num_heads=2, **attributes)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_a_past(causal):
    attention([fused(2, 3, past=4), fused(1, 1, past=6), fused(3, 5, past=1)], "y present", unidirectional=causal)
    attention([fused(2, 3, bits(2, 7), 4), fused(1, 1, bits(1, 3), 2)], "y present", unidirectional=causal)
    attention([fused(2, 3, bits(2, 3, 7), 4), fused(1, 2, bits(1, 2, 4), 2)], "y present", unidirectional=causal)
    attention([fused(2, 3), fused(1, 4)], "y present", unidirectional=causal)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_lengths(causal):
    """Lengths are as many as batches, or have as many starts behind, or what other providers want besides; one model has them all."""
    forms = [
        fused(2, 3, lengths(2, 0)),
        fused(2, 3, lengths(2, 3, 1, 0)),
        fused(2, 4, lengths(2, 1, 1, 3)),
        fused(2, 3, lengths(2, 3, 0, 3, 6, 0, 3, 6)),
        fused(1, 5, lengths(7)),
    ]
    attention(forms, unidirectional=causal)
    attention(forms, unidirectional=causal, mask_filter_value=-1.0)
    attention([fused(2, 3, lengths(6, 7, 1, 2), 4), fused(1, 2, lengths(2), 3)], "y present", unidirectional=causal)


def test_attention_where_everything_is_hidden():
    """What is hidden twice is hidden as what is hidden once: the mean of all values."""
    cases = [fused(2, 3, lengths(0, 1)), fused(1, 4, lengths(1, 3))]
    attention(cases, unidirectional=1, mask_filter_value=LEAST)
    attention(
        [fused(2, 3, np.zeros((2, 3), np.int32)), fused(1, 3, bits(1, 3))], unidirectional=1, mask_filter_value=LEAST
    )


def test_attention_with_masks_that_say_nothing():
    attention([fused(2, 3, bits(2, 1)), fused(3, 4, bits(1, 1)), fused(2, 3, bits(2, 3)), fused(2, 1, bits(2, 1))])


def test_attention_of_other_sizes():
    attention([fused(2, 3, sizes=(8, 8, 12)), fused(1, 4, sizes=(8, 8, 12))], qkv_hidden_sizes=[8, 8, 12])
    attention([fused(2, 3, past=2, sizes=(4, 4, 4))], "y present", qkv_hidden_sizes=[4, 4, 4], scale=0.4)
    feeds = fused(1, 3, lengths(2))
    attention([{**feeds, "more": real(1, 2, 3, 3)}], past_present_share_buffer=1, rotary_embedding_dim=4)


def test_attention_that_is_refused():
    for why, feeds, outputs, attributes in (
        ("with rotation", fused(2, 3), "y", {"do_rotary": 1}),
        ("past_present_share_buffer", fused(2, 3, past=4), "y present", {"past_present_share_buffer": 1}),
        ("of different sizes", fused(2, 3, sizes=(8, 8, 12)), "y present", {"qkv_hidden_sizes": [8, 8, 12]}),
    ):
        with pytest.raises(UnsupportedError, match=why):
            anyshape.compile(model_of("Attention", feeds, outputs, "com.microsoft", num_heads=2, **attributes))
    wrong = anyshape.compile(model_of("Attention", fused(2, 3, lengths(1, 1)), "y", "com.microsoft", num_heads=2))
    feeds = fused(2, 3, lengths(1, 1, 1))
    with pytest.raises(AnyshapeError, match="3 lengths of 2 batches"):
        wrong.run({n: a for n, a in feeds.items() if a is not None})


def heads(
    b: int, s: int, t: int, past: int = 0, values: int = 4, by_head: bool = False, bias: bool = False, **more: Any
) -> Feeds:
    """Inputs of MultiHeadAttention with 2 heads of 4 elements."""
    return {
        "q": real(b, s, 8),
        "k": real(b, 2, t, 4) if by_head else real(b, t, 8),
        "v": real(b, 2, t, values) if by_head else real(b, t, 2 * values),
        "bias": real(16 + 2 * values) if bias else None,
        "mask": more.get("mask"),
        "extra": more.get("extra"),
        "past_k": real(b, 2, past, 4) if past else None,
        "past_v": real(b, 2, past, values) if past else None,
        "filled": more.get("filled"),
    }


def multi(cases: list[Feeds], outputs: str = "y", **attributes: Any) -> None:
    check("MultiHeadAttention", cases, outputs, num_heads=2, **attributes)


def test_causal_attention_of_more_keys_than_queries_or_fewer():
    multi([heads(2, 3, 5), heads(1, 6, 2), heads(2, 1, 4), heads(2, 4, 4)], unidirectional=1)
    multi([heads(2, 3, 5, 4), heads(1, 4, 2, 1), heads(1, 1, 1, 3)], "y keys values", unidirectional=1)


@pytest.mark.parametrize("causal", [0, 1])
def test_keys_by_head(causal):
    multi([heads(2, 3, 5, by_head=True), heads(1, 6, 2, by_head=True)], unidirectional=causal)
    multi(
        [heads(2, 3, 5, by_head=True, bias=True), heads(1, 6, 2, by_head=True, bias=True)],
        "y keys values",
        unidirectional=causal,
    )
    multi(
        [heads(2, 3, 5, by_head=True, mask=bits(2, 5)), heads(1, 2, 4, by_head=True, mask=bits(1, 4))],
        unidirectional=causal,
    )


@pytest.mark.parametrize("causal", [0, 1])
def test_masks_by_length_and_by_query(causal):
    packed = lengths(2, 3, 0, 3, 6, 0, 5, 10)
    multi(
        [heads(2, 3, 5, mask=lengths(2, 0)), heads(2, 3, 5, mask=packed), heads(1, 1, 4, mask=lengths(9))],
        unidirectional=causal,
    )
    multi([heads(2, 3, 5, mask=bits(2, 3, 5)), heads(1, 6, 2, mask=bits(1, 6, 2))], unidirectional=causal)
    multi(
        [heads(2, 3, 3, 4, mask=bits(2, 3, 7)), heads(1, 1, 1, 2, mask=bits(1, 1, 3))],
        "y keys values",
        unidirectional=causal,
    )
    multi(
        [heads(2, 3, 3, 4, mask=lengths(6, 1)), heads(1, 1, 1, 2, mask=lengths(2))],
        "y keys values",
        unidirectional=causal,
    )
    multi([heads(2, 3, 5, mask=lengths(2, 4), extra=real(1, 1, 3, 5))], mask_filter_value=-1.0, unidirectional=causal)


def test_values_of_another_size():
    multi([heads(2, 3, 5, values=6, bias=True), heads(1, 6, 2, values=6, bias=True)])


def test_caches_of_a_filled_length():
    cases = [heads(2, 1, 1, 6, filled=lengths(n)) for n in (3, 5, 1)]
    multi(cases, "y keys values")
    multi([heads(2, 1, 1, 6, filled=lengths(3), mask=bits(2, 4), bias=True)], "y keys values")
    multi([heads(2, 3, 5, filled=lengths(3)), heads(1, 2, 2, filled=lengths(3))])


@pytest.mark.parametrize("causal", [0, 1])
def test_scores(causal):
    multi([heads(2, 3, 5), heads(1, 6, 2)], "y - - scores", unidirectional=causal)
    multi(
        [heads(2, 3, 5, 4, mask=bits(2, 9)), heads(1, 1, 1, 2, mask=bits(1, 3))],
        "y keys values scores",
        unidirectional=causal,
    )
    multi([heads(2, 3, 5, extra=real(2, 2, 3, 5))], "y keys values scores", scale=0.3, unidirectional=causal)


def test_multi_head_attention_that_is_refused():
    packed: Feeds = {"q": real(2, 3, 2, 3, 4), "k": None, "v": None}
    both: Feeds = {"q": real(2, 3, 8), "k": real(2, 5, 2, 2, 4), "v": None}
    flat: Feeds = {"q": real(2, 3, 24), "k": None, "v": None}
    for feeds in (packed, both, {**flat, "bias": real(24)}):
        with pytest.raises(UnsupportedError, match="packed queries, keys and values"):
            anyshape.compile(model_of("MultiHeadAttention", feeds, "y", "com.microsoft", num_heads=2))


@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("causal", [0, 1])
def test_a_mask_of_four_axes_is_the_part_of_it_that_is_asked_for(past, causal):
    """onnxruntime has it on other providers alone; what it means there, of three axes, the CPU provider has."""
    for b, s in ((2, 3), (1, 2)):
        square = bits(b, 1, 9, 9)
        feeds = fused(b, s, square, past)
        proto = model_of("Attention", feeds, "y present", "com.microsoft", num_heads=2, unidirectional=causal)
        got = anyshape.compile(proto).run({n: a for n, a in feeds.items() if a is not None})
        part = {**feeds, "mask": square[:, 0, past : past + s, : past + s]}
        plain = model_of("Attention", part, "y present", "com.microsoft", num_heads=2, unidirectional=causal)
        session = onnxruntime.InferenceSession(plain.SerializeToString(), providers=["CPUExecutionProvider"])
        want = session.run(None, {n: a for n, a in part.items() if a is not None})
        for a, w in zip(got, want, strict=True):
            np.testing.assert_allclose(a, w, 2e-5, 2e-5)


def halves(feeds: Feeds) -> Feeds:
    return {n: a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for n, a in feeds.items()}


@pytest.mark.parametrize("filter_", [-10000.0, LEAST, -65504.0, -np.inf])
@pytest.mark.parametrize("causal", [0, 1])
def test_halves_whose_keys_are_all_hidden(causal, filter_):
    """What hides a key is a number of f32, as onnxruntime has it: as an f16 the least one would be -inf, and a row of those is NaN."""
    for mask in (np.zeros((2, 3), np.int32), np.array([3, 0], np.int32), np.ones((2, 3, 3), np.int32)):
        if mask.ndim == 3:
            mask[0, 0] = 0
        more: dict[str, Any] = {"unidirectional": causal, "mask_filter_value": filter_, "tolerance": 2e-2}
        attention([halves(fused(2, 3, mask))], **more)
        multi([halves(heads(2, 3, 3, mask=mask))], **more)


@pytest.mark.parametrize("half_", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_scores_of_minus_infinity(causal, half_):
    """A query that sees nothing but keys with a bias of -inf is NaN where onnxruntime has NaN, and nowhere else."""
    extra = real(2, 2, 3, 3)
    extra[:, :, :, 0] = -np.inf
    extra[0, 1, 2] = -np.inf
    for feeds in ({**fused(2, 3), "extra": extra}, heads(2, 3, 3, extra=extra)):
        op = "Attention" if "w" in feeds else "MultiHeadAttention"
        typed = halves(feeds) if half_ else feeds
        check(op, [typed], tolerance=2e-2 if half_ else 2e-5, num_heads=2, unidirectional=causal)
