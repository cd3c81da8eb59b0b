"""Attention to keys and values of earlier words, and how those are kept: in f32, bf16, f16, or 8 bits with a scale for each word and head.

In: queries, keys and values of new words, a cache. Out: what the queries read, and the cache with the new words. A cache in f32 of all
words is left to one operator of com.microsoft. Any other is written in operators of ONNX alone (opset 24): TensorScatter puts the new words
into it, and what is read of it is widened by a Cast, whose result no memory has to hold. Of codes in 8 bits the scales of keys are factors
of the scores, and those of values factors of the shares, so that the products are of the codes themselves.

With a window a word sees so many words, itself among them. A ring has room for these and for as many new ones as come at once, less one: a
word is written at its position modulo the room, and the slot of a word is free again once no later word sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
from builder import Builder, Size  # type: ignore[import-not-found]  # a file beside this one
from numpy.typing import NDArray
from onnx import TensorProto

NUMPY: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "int8": np.int8}
ONNX = {"f32": TensorProto.FLOAT, "bf16": TensorProto.BFLOAT16, "f16": TensorProto.FLOAT16, "int8": TensorProto.INT8}


@dataclass(frozen=True)
class CacheTensor:
    """One tensor of a cache [batch, heads, room, width]; its name is without `past_` or `present_`."""

    name: str
    dtype: str
    heads: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Cache:
    """How keys and values are kept. `window`: how many words one sees, itself among them, all where it is 0; `ring`: whether the cache has
    room for these alone, and not for all."""

    dtype: str = "f32"
    window: int = 0
    ring: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in NUMPY:
            raise ValueError(f"a cache is in one of {', '.join(NUMPY)}, not in {self.dtype}")
        if self.window < 0 or (self.ring and not self.window):
            raise ValueError(f"a window of {self.window} words" + (" in a ring" if self.ring else ""))

    @property
    def grows(self) -> bool:
        """Whether the model makes a larger cache where a word has no room; otherwise that is an error."""
        return self.dtype == "f32" and not self.ring

    def most_new(self, room: int) -> int | None:
        """How many words may be new in one call; None for any number. Raises ValueError for a ring without room for the window."""
        if self.ring and room < self.window:
            raise ValueError(f"a window of {self.window} words in a ring with room for {room}")
        return room - self.window + 1 if self.ring else None

    def tensors(self, size: Size) -> list[CacheTensor]:
        """The tensors of all layers, in the order of the model's inputs and outputs."""
        kinds = [(k, self.dtype, size.head) for k in ("keys", "values")]
        if self.dtype == "int8":
            kinds = [kind for k in ("keys", "values") for kind in ((k, "int8", size.head), (f"{k}_scale", "f32", 1))]
        return [CacheTensor(f"{k}_{n}", d, size.cached_heads, w) for n in range(size.layers) for k, d, w in kinds]

    def arrays(self, size: Size, batch: int, room: int) -> dict[str, NDArray[Any]]:
        """A cache without words."""
        each = self.tensors(size)
        return {t.name: np.zeros((batch, t.heads, room, t.width), NUMPY[t.dtype]) for t in each}


class GroupedAttention:
    """Attention by GroupQueryAttention, which rotates, appends, masks and reads."""

    def __init__(self, b: Builder, cache: Cache, cosines: str, sines: str) -> None:
        self.b, self.window, self.rotation = b, cache.window or -1, (cosines, sines)

    def read(self, q: str, keys: str, values: str, layer: int) -> str:
        names = [f"keys_{layer}", f"values_{layer}"]
        inputs = [q, keys, values, *(f"past_{n}" for n in names), "last", "total", *self.rotation]
        outputs = (f"attended_{layer}", *(f"present_{n}" for n in names))
        heads = {"num_heads": self.b.size.heads, "kv_num_heads": self.b.size.cached_heads, "do_rotary": 1}
        form = {**heads, "local_window_size": self.window}
        return self.b.node("GroupQueryAttention", *inputs, outputs=outputs, domain="com.microsoft", **form)


class WrittenAttention:
    """Attention in operators of ONNX, to a cache that has room for what is new."""

    def __init__(self, b: Builder, cache: Cache, cosines: str, sines: str) -> None:
        self.b, self.cache, self.rotation = b, cache, (cosines, sines)

    def read(self, q: str, keys: str, values: str, layer: int) -> str:
        b, size = self.b, self.b.size
        q, keys = self._rotated(q, size.heads), self._rotated(keys, size.cached_heads)
        asked = b.node("Mul", self._by_head(q, size.heads), b.scalar(size.head**-0.5))
        grouped = b.node("Reshape", asked, b.ints(0, size.cached_heads, -1, size.head))
        known, key_scales = self._kept(keys, f"keys_{layer}", f"keys_scale_{layer}")
        read, value_scales = self._kept(values, f"values_{layer}", f"values_scale_{layer}")
        scores = b.node("MatMul", grouped, b.node("Transpose", known, perm=[0, 1, 3, 2]))
        shares = b.node("Softmax", b.node("Add", self._scaled(scores, key_scales), self._bias), axis=-1)
        attended = b.node("MatMul", self._scaled(shares, value_scales), read)
        back = b.node("Concat", self._batch, b.ints(size.heads), self._count, b.ints(size.head), axis=0)
        heads = b.node("Transpose", b.node("Reshape", attended, back), perm=[0, 2, 1, 3])
        return b.node("Reshape", heads, b.ints(0, 0, size.width))

    def _by_head(self, x: str, heads: int) -> str:
        """x [batch, new, heads * head] as [batch, heads, new, head]."""
        shaped = self.b.node("Reshape", x, self.b.ints(0, 0, heads, self.b.size.head))
        return self.b.node("Transpose", shaped, perm=[0, 2, 1, 3])

    def _rotated(self, x: str, heads: int) -> str:
        return self.b.node("RotaryEmbedding", x, *self.rotation, self._positions, num_heads=heads)

    def _kept(self, new: str, name: str, scale_name: str) -> tuple[str, str | None]:
        """New keys or values [batch, new, heads * head] and those before them, as [batch, heads, seen, head] of f32, and what those are to
        be multiplied with: one for each word, [batch, heads, 1, seen]."""
        b, by_head = self.b, self._by_head(new, self.b.size.cached_heads)
        if self.cache.dtype == "f32":
            return self._put(by_head, name), None
        if self.cache.dtype != "int8":
            return b.node(
                "Cast", self._put(b.node("Cast", by_head, to=ONNX[self.cache.dtype]), name), to=ONNX["f32"]
            ), None
        peak = b.node("ReduceMax", b.node("Abs", by_head), b.ints(-1), keepdims=1)
        scale = b.node("Max", b.node("Div", peak, b.scalar(127)), b.scalar(1e-30))
        codes = b.node("Cast", b.node("Round", b.node("Div", by_head, scale)), to=ONNX["int8"])
        scales = b.node("Transpose", self._put(scale, scale_name), perm=[0, 1, 3, 2])
        return b.node("Cast", self._put(codes, name), to=ONNX["f32"]), scales

    def _put(self, new: str, name: str) -> str:
        """The cache with what is new, as far as anything has been written to it."""
        b, mode = self.b, "circular" if self.cache.ring else "linear"
        cache = b.node(
            "TensorScatter", f"past_{name}", new, self._first, outputs=(f"present_{name}",), axis=-2, mode=mode
        )
        return b.node("Slice", cache, b.ints(0), self._total, b.ints(2))

    def _scaled(self, x: str, scales: str | None) -> str:
        return x if scales is None else self.b.node("Mul", x, scales)

    # What all layers share, written once

    @cached_property
    def _batch(self) -> str:
        return self.b.node("Shape", "ids", start=0, end=1)

    @cached_property
    def _count(self) -> str:
        """How many words are new, as a vector."""
        return self.b.node("Shape", "ids", start=1, end=2)

    @cached_property
    def _room(self) -> str:
        shape = self.b.node("Shape", "past_keys_0", start=2, end=3)
        return self.b.node("Reshape", shape, self.b.ints())

    @cached_property
    def _total(self) -> str:
        whole = self.b.node("Cast", "total", to=TensorProto.INT64)
        return self.b.node("Reshape", whole, self.b.ints(1))

    @cached_property
    def _last(self) -> str:
        return self.b.node("Cast", "last", to=TensorProto.INT64)

    @cached_property
    def _start(self) -> str:
        """The position of each row's first new word."""
        before = self.b.node("Sub", self._count, self.b.ints(1))
        return self.b.node("Sub", self._last, before)

    @cached_property
    def _first(self) -> str:
        """The slot of each row's first new word."""
        return self.b.node("Mod", self._start, self._room) if self.cache.ring else self._start

    @cached_property
    def _positions(self) -> str:
        """The positions of new words, [batch, new]."""
        count = self.b.node("Reshape", self._count, self.b.ints())
        each = self.b.node("Range", self.b.scalar(0, np.int64), count, self.b.scalar(1, np.int64))
        return self.b.node("Add", self.b.node("Unsqueeze", self._start, self.b.ints(1)), each)

    @cached_property
    def _slots(self) -> str:
        """The slots that anything is written to, [seen]."""
        b = self.b
        every = b.node("Range", b.scalar(0, np.int64), self._room, b.scalar(1, np.int64))
        return b.node("Slice", every, b.ints(0), self._total, b.ints(0))

    @cached_property
    def _words(self) -> str:
        """The position of the word in each slot, [seen] or [batch, seen]: below 0 where there is none. In a ring it is the last one that
        the slot is that of, which is no later than the last word."""
        if not self.cache.ring:
            return self._slots
        last = self.b.node("Unsqueeze", self._last, self.b.ints(1))
        return self.b.node("Sub", last, self.b.node("Mod", self.b.node("Sub", last, self._slots), self._room))

    @cached_property
    def _bias(self) -> str:
        """0 where a new word sees a slot and -inf elsewhere, [batch, 1, queries of a group * new, seen]."""
        b, rows = self.b, self.b.node("Unsqueeze", self._positions, self.b.ints(2))
        words = b.node("Unsqueeze", self._words, b.ints(1)) if self.cache.ring else self._words
        seen = b.node("LessOrEqual", words, rows)
        if self.cache.window:
            seen = b.node(
                "And", seen, b.node("Greater", words, b.node("Sub", rows, b.scalar(self.cache.window, np.int64)))
            )
        if self.cache.ring:
            seen = b.node("And", seen, b.node("GreaterOrEqual", words, b.scalar(0, np.int64)))
        bias = b.node("Where", seen, b.scalar(0), b.scalar(-np.inf))
        each = [b.node("Unsqueeze", bias, b.ints(1))] * (b.size.heads // b.size.cached_heads)
        shape = b.node("Concat", b.ints(0, 1, -1), b.node("Shape", self._slots), axis=0)
        return b.node("Reshape", b.node("Concat", *each, axis=1), shape)
