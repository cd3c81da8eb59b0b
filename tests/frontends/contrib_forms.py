"""Every form of com.microsoft's operators that optimised models contain: does onnxruntime's CPU provider compute it, do we, and why not?

Those of attentions; `contrib_small_forms.py` has the others, and `test_contrib_table.py` measures each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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
    """Inputs of GroupQueryAttention: 4 heads of queries and 2 of keys, of 16 elements, rotations for 32 positions. What a cache has behind
    all tokens is zeros: there onnxruntime writes zeros, and we leave what was there."""
    room = past if room is None else room
    new = more.get("new", s)
    cached = room > 0 or more.get("empty", False)
    return {
        "q": real(b, s, 128 if packed else 64),
        "k": None if packed else real(b, new, 32),
        "v": None if packed else real(b, new, 32),
        **{n: behind_zeros(real(b, 2, room, 16), past + new) if cached else None for n in ("past_k", "past_v")},
        "last": np.array(more.get("last", [past + new - 1] * b), np.int32),
        "total": np.array([past + new], np.int32),
        "cos": real(32, 8),
        "sin": real(32, 8),
        **{n: more.get(n) for n in ("place", "bias", "sink", "k_scale", "v_scale", "q_norm", "k_norm")},
    }


def behind_zeros(cache: np.ndarray, total: int) -> np.ndarray:
    """Puts zeros into a cache behind so many tokens."""
    cache[:, :, total:] = 0
    return cache


def coded(bits: int, channels: bool, feeds: Feeds) -> Feeds:
    """Makes the cache one of integers of 8 bits, or of 4, with one scale or one for each element of a head."""
    past = feeds["past_k"]
    assert past is not None
    coded_feeds = dict(feeds)
    for name in ("past_k", "past_v"):
        codes = (
            RNG.integers(-128, 128, past.shape).astype(np.int8)
            if bits == 8
            else RNG.integers(0, 256, (*past.shape[:3], 8)).astype(np.uint8)
        )
        total = feeds["total"]
        assert total is not None
        coded_feeds[name] = behind_zeros(codes, int(total.item()))
    for name in ("k_scale", "v_scale"):
        coded_feeds[name] = (RNG.random((1, 2, 1, 16) if channels else 1) * 0.2 + 0.02).astype(np.float32)
    return coded_feeds


def _coded(bits: int, kind: str, b: int, s: int, past: int) -> Feeds:
    return coded(bits, kind == "PER_CHANNEL", tokens(b, s, past, empty=True))


def _coded_halves() -> Feeds:
    whole = coded(8, False, tokens(2, 1, 5, last=[5, 3]))
    return {**halved(whole), "k_scale": whole["k_scale"], "v_scale": whole["v_scale"]}


class Row(NamedTuple):
    """A form whose numbers are not drawn yet."""

    text: str
    feeds: Callable[[], Feeds]
    attributes: dict[str, Any] = {}  # noqa: RUF012, never changed
    outputs: str = "y keys values"
    theirs: str = YES
    ours: str = YES
    why: str = ""

    def of(self, op: str, **more: Any) -> Form:
        """Returns the form for that operator, with these attributes too."""
        return Form(
            op, self.text, self.feeds(), self.outputs, {**more, **self.attributes}, self.theirs, self.ours, self.why
        )


ROTARY, BUFFER = {"do_rotary": 1}, {"sliding_window_cache": 1, "local_window_size": 3}
SEEN = {"softcap": 2.0, "local_window_size": 3}


def kinds(keys: str, values: str, bits: int) -> dict[str, Any]:
    return {"k_quant_type": keys, "v_quant_type": values, "kv_cache_bit_width": bits}


EIGHT = kinds("PER_TENSOR", "PER_TENSOR", 8)

GROUPED = (
    Row("a prompt", lambda: tokens(2, 3, 0)),
    Row("of f16", lambda: halved(tokens(2, 3, 0))),
    Row("a prompt of batches of different lengths", lambda: tokens(2, 4, 0, last=[3, 1])),
    Row("packed queries, keys and values", lambda: tokens(2, 3, 0, packed=True), ROTARY),
    Row("past of the length that is filled", lambda: tokens(2, 1, 5, last=[5, 3])),
    Row("past in a buffer with room (`past_present_share_buffer`)", lambda: tokens(2, 1, 5, 9, last=[5, 3])),
    Row("several new tokens behind a past, one batch", lambda: tokens(1, 3, 5), ROTARY),
    Row("several new tokens behind a past, several batches", lambda: tokens(2, 3, 5), theirs=NO),
    Row("past whose present nobody asks for", lambda: tokens(2, 1, 5), {}, "y", WRONG,
        why="onnxruntime reads memory that nothing was written to"),
    Row("no new keys: the cache has them all", lambda: tokens(2, 1, 5, new=0, last=[4, 2]), ROTARY),
    Row("`do_rotary`, interleaved", lambda: tokens(1, 3, 5), {**ROTARY, "rotary_interleaved": 1}),
    Row("`position_ids`, which go on from the first", lambda: tokens(1, 3, 0, place=np.array([[2, 3, 4]])), ROTARY),
    Row("`position_ids` that jump", lambda: tokens(1, 3, 0, place=np.array([[2, 9, 4]])), ROTARY, theirs=WRONG,
        why="onnxruntime reads the first one of a prompt only"),
    Row("`attention_bias`", lambda: tokens(2, 3, 0, bias=real(1, 4, 3, 3))),
    Row("`head_sink`", lambda: tokens(2, 3, 0, sink=real(4))),
    Row("`smooth_softmax`", lambda: tokens(2, 3, 0), {"smooth_softmax": 1}),
    Row("`softcap`, `scale`", lambda: tokens(2, 3, 0), {"softcap": 1.5, "scale": 0.3}),
    Row("`local_window_size`", lambda: tokens(1, 3, 5), {"local_window_size": 2}),
    Row("`local_window_size` 0", lambda: tokens(1, 3, 5), {"local_window_size": 0}, ours=NO,
        why="nothing is seen then; onnxruntime gives 0"),
    Row("`qk_output` 1, scores before softmax", lambda: tokens(1, 3, 5, sink=real(4)), {**SEEN, "qk_output": 1}, SCORES),
    Row("`qk_output` 2, scores after it", lambda: tokens(1, 3, 5, sink=real(4)), {**SEEN, "qk_output": 2}, SCORES),
    Row("`qk_output` 0 and a result for scores", lambda: tokens(1, 3, 0), {"qk_output": 0}, SCORES, WRONG, NO,
        "nobody says which scores; onnxruntime writes none"),
    Row("`causal` 0", lambda: tokens(2, 1, 5, last=[5, 3]), {"causal": 0}),
    Row("`causal` 0 with a window", lambda: tokens(1, 3, 0), {"causal": 0, "local_window_size": 2}, theirs=NO, ours=NO),
    Row("`sliding_window_cache`", lambda: tokens(1, 1, 7, 5), {**ROTARY, **BUFFER}),
    Row("… that fills, of several tokens", lambda: tokens(1, 6, 5, 5, bias=real(1, 4, 6, 11)), {"softcap": 2.0, **BUFFER}),
    Row("… of batches of different lengths", lambda: tokens(2, 1, 7, 5, last=[7, 4], sink=real(4)), BUFFER),
    Row("… and scores", lambda: tokens(1, 1, 7, 5), {"qk_output": 1, **BUFFER}, SCORES, NO, NO),
    Row("… without a past, or without room for the window", lambda: tokens(1, 1, 0), BUFFER, theirs=NO, ours=NO),
    *(
        row
        for bits in (8, 4)
        for kind in ("PER_TENSOR", "PER_CHANNEL")
        for row in (
            Row(f"cache of {bits} bits, {kind}", partial(_coded, bits, kind, 1, 3, 5), {**ROTARY, **kinds(kind, kind, bits)}),
            Row(f"cache of {bits} bits, {kind}, its prompt", partial(_coded, bits, kind, 2, 3, 0), kinds(kind, kind, bits)),
        )
    ),
    Row("cache of 8 bits and of a window", lambda: coded(8, False, tokens(1, 1, 7, 5)), {**ROTARY, **EIGHT, **BUFFER}),
    Row("cache of 8 bits, of f16 else", _coded_halves, EIGHT),
    Row("quantised keys, and values that are not", lambda: coded(8, False, tokens(1, 1, 5)), kinds("PER_TENSOR", "NONE", 8),
        theirs=NO, ours=NO),
    Row("`q_norm_weight`, `k_norm_weight`", lambda: tokens(2, 3, 0, q_norm=real(16), k_norm=real(16)), theirs=NO, ours=NO,
        why="only other providers of onnxruntime have it"),
)  # fmt: skip


def grouped() -> Iterator[Form]:
    return (row.of("GroupQueryAttention", num_heads=4, kv_num_heads=2) for row in GROUPED)


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
        "… with a mask of one axis",
        cached(4, beams=ints(2, 2, 2, 8), mask=lengths(6, 6, 3, 6)),
        "y keys values",
        theirs=WRONG,
        why="onnxruntime leaves the beams out",
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
    yield form("`mask_index` of four axes", fused(2, 3, ints(2, 2, 1, 5, 5)), theirs=NO)
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
