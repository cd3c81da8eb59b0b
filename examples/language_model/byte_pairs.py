"""Texts as the ids of a model's words, and back: byte pairs (R. Sennrich, B. Haddow and A. Birch, Neural machine translation of rare words
with subword units, 2016), as the tokenizers of GPT-2 and models after it have them.

In: the words and merges of a model's file. Out: ids. Bytes stand in words as letters: those that can be printed as themselves, others as
letters from U+0100 on. A text is cut into words with the blank before them, digits one by one, and what else there is; then the pair of
neighbours whose merge comes first is merged, until there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

_PIECES = re.compile(r"\d|'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?(?:_|[^\w\s])+|\s+(?!\S)|\s+")


def _letters() -> dict[int, str]:
    """The letter of each byte."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprinted = [b for b in range(256) if b not in printed]
    return {b: chr(b) for b in printed} | {b: chr(0x100 + k) for k, b in enumerate(unprinted)}


_LETTERS = _letters()
_BYTES = {letter: b for b, letter in _LETTERS.items()}


class BytePairs:
    """The words of a model. Special ones, which stand for no text, are written as they are called."""

    def __init__(self, words: Sequence[str], merges: Sequence[str], special: Iterable[str] = ()) -> None:
        self._words = list(words)
        self._ids = {word: k for k, word in enumerate(words)}
        self._ranks = {tuple(pair.split(" ")): k for k, pair in enumerate(merges)}
        self._special = sorted(special, key=len, reverse=True)
        self._of_piece = cache(self._merged)

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> BytePairs:
        """The words in a GGUF file. Raises ValueError for words of another kind."""
        kind = metadata.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise ValueError(f"words are byte pairs of the kind gpt2 here, and not {kind}")
        words, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
        control = 3
        return cls(
            words, metadata["tokenizer.ggml.merges"], [w for w, k in zip(words, kinds, strict=True) if k == control]
        )

    def ids(self, text: str) -> list[int]:
        out: list[int] = []
        parts = re.split(f"({'|'.join(map(re.escape, self._special))})", text) if self._special else [text]
        for part in parts:
            if part in self._special:
                out.append(self._ids[part])
            else:
                out += (k for piece in _PIECES.findall(part) for k in self._of_piece(piece))
        return out

    def text(self, ids: Iterable[int]) -> str:
        """What the ids stand for; special words are left out, and bytes that are no whole letter are marks in its place."""
        words = (self._words[k] for k in ids)
        return bytes(_BYTES[c] for w in words if w not in self._special for c in w).decode(errors="replace")

    def _merged(self, piece: str) -> tuple[int, ...]:
        parts = [_LETTERS[b] for b in piece.encode()]
        while True:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in pairwise(parts)]
            least = min(ranks, default=len(self._ranks))
            if least == len(self._ranks):
                return tuple(self._ids[p] for p in parts)
            at = ranks.index(least)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
