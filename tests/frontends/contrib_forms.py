"""Every form of com.microsoft's operators that optimised models contain: does onnxruntime's CPU provider compute it, do we, and why not?

Those of attentions; `contrib_small_forms.py` has the others, and `test_contrib_table.py` measures each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.frontends.contrib import RNG, real
from tests.frontends.test_contrib_attention import fused, heads, lengths

Feeds = dict[str, np.ndarray | None]
YES, NO, WRONG = "yes", "no", "differs"
SCORES = "y keys values scores"


class Form(NamedTuple):
    """One row: what each gives, `yes` or `no`; onnxruntime's result `differs` where it is not what the model means."""

    op: str
    text: str
    feeds: Feeds
    outputs: str = "y"
    attributes: dict[str, Any] = {}  # noqa: RUF012, never changed
    theirs: str = YES
    ours: str = YES
    why: str = ""


def ints(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(np.int32)


def halved(feeds: Feeds) -> Feeds:
    return {n: a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for n, a in feeds.items()}


def tokens(b: int, s: int, past: int, room: int | None = None, packed: bool = False, **more: Any) -> Feeds:
    """Inputs of GroupQueryAttention: 4 heads of queries and 2 of keys, of 16 elements, rotations for 32 positions."""
    room = past if room is None else room
    new = more.get("new", s)
    cached = room > 0 or more.get("empty", False)
    return {
        "q": real(b, s, 128 if packed else 64),
        "k": None if packed else real(b, new, 32),
        "v": None if packed else real(b, new, 32),
        "past_k": real(b, 2, room, 16) if cached else None,
        "past_v": real(b, 2, room, 16) if cached else None,
        "last": np.array(more.get("last", [past + new - 1] * b), np.int32),
        "total": np.array([past + new], np.int32),
        "cos": real(32, 8),
        "sin": real(32, 8),
        **{n: more.get(n) for n in ("place", "bias", "sink", "k_scale", "v_scale", "q_norm", "k_norm")},
    }


def coded(bits: int, channels: bool, feeds: Feeds) -> Feeds:
    """With a cache of integers of 8 bits, or of 4, and one scale or one for each element of a head."""
    shape = feeds["past_k"].shape  # type: ignore[union-attr]
    made = dict(feeds)
    for name in ("past_k", "past_v"):
        made[name] = (
            RNG.integers(-128, 128, shape).astype(np.int8)
            if bits == 8
            else RNG.integers(0, 256, (*shape[:3], 8)).astype(np.uint8)
        )
    for name in ("k_scale", "v_scale"):
        made[name] = (RNG.random((1, 2, 1, 16) if channels else 1) * 0.2 + 0.02).astype(np.float32)
    return made


def grouped() -> Iterator[Form]:
    def form(text: str, feeds: Feeds, outputs: str = "y keys values", why: str = "", **more: Any) -> Form:
        theirs, ours = more.pop("theirs", YES), more.pop("ours", YES)
        return Form(
            "GroupQueryAttention", text, feeds, outputs, {"num_heads": 4, "kv_num_heads": 2, **more}, theirs, ours, why
        )

    yield form("a prompt", tokens(2, 3, 0))
    yield form("of f16", halved(tokens(2, 3, 0)))
    yield form("a prompt of batches of different lengths", tokens(2, 4, 0, last=[3, 1]))
    yield form("packed queries, keys and values", tokens(2, 3, 0, packed=True), do_rotary=1)
    yield form("past of the length that is filled", tokens(2, 1, 5, last=[5, 3]))
    yield form("past in a buffer with room (`past_present_share_buffer`)", tokens(2, 1, 5, 9, last=[5, 3]))
    yield form("several new tokens behind a past, one batch", tokens(1, 3, 5), do_rotary=1)
    yield form("several new tokens behind a past, several batches", tokens(2, 3, 5), theirs=NO)
    yield form(
        "past whose present nobody asks for",
        tokens(2, 1, 5),
        "y",
        theirs=WRONG,
        why="onnxruntime reads memory that nothing was written to",
    )
    yield form("no new keys: the cache has them all", tokens(2, 1, 5, new=0, last=[4, 2]), do_rotary=1)
    yield form("`do_rotary`, interleaved", tokens(1, 3, 5), do_rotary=1, rotary_interleaved=1)
    yield form("`position_ids`, which go on from the first", tokens(1, 3, 0, place=np.array([[2, 3, 4]])), do_rotary=1)
    yield form(
        "`position_ids` that jump",
        tokens(1, 3, 0, place=np.array([[2, 9, 4]])),
        do_rotary=1,
        theirs=WRONG,
        why="onnxruntime reads the first one of a prompt only",
    )
    yield form("`attention_bias`", tokens(2, 3, 0, bias=real(1, 4, 3, 3)))
    yield form("`head_sink`", tokens(2, 3, 0, sink=real(4)))
    yield form("`smooth_softmax`", tokens(2, 3, 0), smooth_softmax=1)
    yield form("`softcap`, `scale`", tokens(2, 3, 0), softcap=1.5, scale=0.3)
    yield form("`local_window_size`", tokens(1, 3, 5), local_window_size=2)
    yield form(
        "`local_window_size` 0",
        tokens(1, 3, 5),
        local_window_size=0,
        ours=NO,
        why="nothing is seen then; onnxruntime gives 0",
    )
    for kind, text in ((1, "before softmax"), (2, "after it")):
        yield form(
            f"`qk_output` {kind}, scores {text}",
            tokens(1, 3, 5, sink=real(4)),
            SCORES,
            softcap=2.0,
            local_window_size=3,
            qk_output=kind,
        )
    yield form(
        "`qk_output` 0 and a result for scores",
        tokens(1, 3, 0),
        SCORES,
        qk_output=0,
        theirs=WRONG,
        ours=NO,
        why="nobody says which scores; onnxruntime writes none",
    )
    yield form("`causal` 0", tokens(2, 1, 5, last=[5, 3]), causal=0)
    yield form("`causal` 0 with a window", tokens(1, 3, 0), causal=0, local_window_size=2, theirs=NO, ours=NO)
    window = {"sliding_window_cache": 1, "local_window_size": 3}
    yield form("`sliding_window_cache`", tokens(1, 1, 7, 5), do_rotary=1, **window)
    yield form("… that fills, of several tokens", tokens(1, 6, 5, 5, bias=real(1, 4, 6, 11)), softcap=2.0, **window)
    yield form("… of batches of different lengths", tokens(2, 1, 7, 5, last=[7, 4], sink=real(4)), **window)
    yield form("… and scores", tokens(1, 1, 7, 5), SCORES, qk_output=1, theirs=NO, ours=NO, **window)
    yield form("… without a past, or without room for the window", tokens(1, 1, 0), theirs=NO, ours=NO, **window)
    for bits in (8, 4):
        for channels in (False, True):
            kind = "PER_CHANNEL" if channels else "PER_TENSOR"
            codes = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
            yield form(f"cache of {bits} bits, {kind}", coded(bits, channels, tokens(1, 3, 5)), do_rotary=1, **codes)
            yield form(
                f"cache of {bits} bits, {kind}, its prompt", coded(bits, channels, tokens(2, 3, 0, empty=True)), **codes
            )
    eight = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    yield form("cache of 8 bits and of a window", coded(8, False, tokens(1, 1, 7, 5)), do_rotary=1, **eight, **window)
    yield form("cache of 8 bits, of f16 else", _coded_halves(), **eight)
    yield form(
        "quantised keys, and values that are not",
        coded(8, False, tokens(1, 1, 5)),
        **{**eight, "v_quant_type": "NONE"},
        theirs=NO,
        ours=NO,
    )
    norms = tokens(2, 3, 0, q_norm=real(16), k_norm=real(16))
    yield form(
        "`q_norm_weight`, `k_norm_weight`", norms, theirs=NO, ours=NO, why="only other providers of onnxruntime have it"
    )


def _coded_halves() -> Feeds:
    whole = coded(8, False, tokens(2, 1, 5, last=[5, 3]))
    return {**halved(whole), "k_scale": whole["k_scale"], "v_scale": whole["v_scale"]}


def many_headed() -> Iterator[Form]:
    def form(text: str, feeds: Feeds, outputs: str = "y", why: str = "", **more: Any) -> Form:
        theirs, ours = more.pop("theirs", YES), more.pop("ours", YES)
        return Form("MultiHeadAttention", text, feeds, outputs, {"num_heads": 2, **more}, theirs, ours, why)

    def cached(b: int, s: int = 1, **more: Any) -> Feeds:
        beams = more.pop("beams", None)
        return {**heads(b, s, s, 8, filled=lengths(5), **more), "beams": beams}

    yield form("queries, keys and values of their own", heads(2, 3, 5, bias=True), scale=0.3)
    yield form("of f16", halved(heads(2, 3, 5)))
    yield form("keys and values by head", heads(2, 3, 5, by_head=True, bias=True))
    yield form("values of another size than keys", heads(2, 3, 5, values=6))
    yield form("… with a past", heads(2, 3, 3, 4, values=6), "y keys values", theirs=NO)
    yield form("`unidirectional`", heads(2, 3, 5), unidirectional=1)
    yield form("past and present", heads(2, 3, 5, 4), "y keys values")
    yield form(
        "past whose present nobody asks for", heads(2, 3, 5, 4), theirs=WRONG, why="onnxruntime leaves the past out"
    )
    yield form("`past_sequence_length`: a buffer with room", cached(2), "y keys values")
    yield form("scores (`qk`)", heads(2, 3, 5, 4, mask=ints(2, 2, 9)), SCORES)
    for shape in ((2,), (8,), (2, 5), (2, 3, 5)):
        yield form(f"`key_padding_mask` of {len(shape)} axes, {shape[0]} first", heads(2, 3, 5, mask=ints(2, *shape)))
    yield form("`attention_bias`", heads(2, 3, 5, extra=real(1, 2, 3, 5)))
    yield form("`cache_indirection`", cached(4, beams=ints(2, 2, 2, 8), bias=True), "y keys values")
    yield form("… with a mask of two axes, scores", cached(6, beams=ints(3, 2, 3, 8), mask=ints(2, 6, 6)), SCORES)
    yield form(
        "… with a bias by batch",
        cached(4, beams=ints(2, 2, 2, 8), extra=real(4, 1, 1, 6)),
        "y keys values",
        theirs=WRONG,
        why="onnxruntime takes the bias of another batch",
    )
    yield form(
        "… of several new tokens",
        cached(4, 2, beams=ints(2, 2, 2, 8)),
        "y keys values",
        theirs=WRONG,
        why="onnxruntime leaves the beams out",
    )
    yield form("packed: all three", {"q": real(2, 3, 2, 3, 4)}, theirs=NO, ours=NO)
    yield form("packed: keys and values", {"q": real(2, 3, 8), "k": real(2, 5, 2, 2, 4)}, theirs=NO, ours=NO)


def decoding() -> Iterator[Form]:
    def form(text: str, room: int, b: int = 4, t: int = 1, **more: Any) -> Form:
        theirs, ours, outputs = more.pop("theirs", YES), more.pop("ours", YES), more.pop("outputs", "y keys values")
        feeds: Feeds = {"q": real(b, 1, 8), "k": real(b, t, 8), "v": real(b, t, 8)}
        if t > 1:
            feeds |= {"k": real(b, 2, t, 4), "v": real(b, 2, t, 4)}
        feeds |= {n: more.pop(n, None) for n in ("mask", "extra")}
        feeds |= {n: real(b, 2, room, 4) if room else None for n in ("past_k", "past_v")}
        feeds |= {n: more.pop(n, None) for n in ("filled", "width", "beams", "bias")}
        return Form("DecoderMaskedMultiHeadAttention", text, feeds, outputs, {"num_heads": 2, **more}, theirs, ours)

    shared = {"past_present_share_buffer": 1, "filled": lengths(5)}
    yield form("the first token", 0, outputs="y")
    yield form("of another sequence, by head", 0, t=5, mask=ints(2, 4, 5), outputs="y")
    yield form("a shared buffer", 8, mask=ints(2, 4, 6), bias=real(24), **shared)
    yield form(
        "… of beams, scores",
        8,
        width=lengths(2),
        beams=ints(2, 2, 2, 8),
        extra=real(1, 2, 1, 6),
        output_qk=1,
        outputs=SCORES,
        **shared,
    )
    yield form("a past that is no shared buffer", 5, filled=lengths(5), theirs=NO, ours=NO)


def fused_attention() -> Iterator[Form]:
    def form(text: str, feeds: Feeds, outputs: str = "y", why: str = "", **more: Any) -> Form:
        theirs, ours = more.pop("theirs", YES), more.pop("ours", YES)
        return Form("Attention", text, feeds, outputs, {"num_heads": 2, **more}, theirs, ours, why)

    def with_bias(feeds: Feeds, bias: np.ndarray) -> Feeds:
        return {**feeds, "extra": bias}

    yield form("weights for all three at once", fused(2, 3), scale=0.3)
    yield form("of f16", halved(fused(2, 3)))
    for shape in ((2,), (4,), (8,), (2, 3), (2, 1), (2, 3, 3)):
        yield form(f"`mask_index` of {shape}", fused(2, 3, ints(2, *shape)), mask_filter_value=-3.0)
    yield form("`mask_index` of four axes", fused(2, 3, ints(2, 2, 1, 5, 5)), theirs=NO, ours=NO)
    yield form("`unidirectional`, past and present", fused(2, 3, past=4), "y present", unidirectional=1)
    yield form("past whose present nobody asks for", fused(2, 3, past=4), theirs=NO)
    yield form("`attention_bias`", with_bias(fused(2, 3), real(1, 2, 3, 3)))
    yield form("`attention_bias` and a past", with_bias(fused(2, 3, past=4), real(1, 2, 3, 7)), "y present", theirs=NO)
    yield form(
        "values of another size (`qkv_hidden_sizes`)", fused(2, 3, sizes=(8, 8, 12)), qkv_hidden_sizes=[8, 8, 12]
    )
    yield form(
        "… and their present",
        fused(2, 3, sizes=(8, 8, 12)),
        "y present",
        qkv_hidden_sizes=[8, 8, 12],
        ours=NO,
        why="onnxruntime packs keys into rows of the values' size, which they do not fill; the rest is not written",
    )
    yield form("`do_rotary`", fused(2, 3), do_rotary=1, theirs=NO, ours=NO)
    buffered = {**fused(2, 3, past=4), "extra": None, "filled": lengths(2)}
    yield form("`past_present_share_buffer`", buffered, "y present", past_present_share_buffer=1, theirs=NO, ours=NO)
