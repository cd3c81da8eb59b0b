"""Decoding with a language model: a prompt, then word after word, whose keys and values join a cache; with drafts of several words, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from language_model import Cache, Size  # type: ignore[import-not-found]  # a file beside this one
from numpy.typing import NDArray
from timed_words import Words, timed_words  # type: ignore[import-not-found]

import anyshape

Arrays = dict[str, NDArray[Any]]


Run = Callable[[Arrays, Arrays], list[NDArray[Any]]]
"""Maps inputs, and arrays for results, to the results in the order of the model's outputs."""


class Decoding(Protocol):
    """What says the likeliest words after a prompt."""

    def words(self, prompt: NDArray[np.int64], count: int) -> Words:
        """The words, [batch, count]; seconds of the prompt, and of each word after the first."""


class Decoder:
    """A model and its cache, which has room for so many words from the beginning; with `room=0` it is another one after each step. A ring
    keeps no more words than it has room for, and takes new ones in blocks that fit beside its window."""

    def __init__(self, run: Run, size: Size, room: int = 0, cache: Cache | None = None) -> None:
        self._run, self._size, self._room, self._length = run, size, room, 0
        self._cache = cache or Cache()
        self._most_new = self._cache.most_new(room)
        self._caches: Arrays = {}

    def begin(self, batch: int = 1) -> None:
        """Empties the cache."""
        self._caches, self._length = {}, 0  # of which the memory is free before another one is taken
        self._caches = self._cache.arrays(self._size, batch, self._room)

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(c.nbytes for c in self._caches.values())

    def scores(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores f32[batch, new, words] of new ids [batch, new], which join the cache. Raises ValueError where they have no room."""
        most = self._most_new
        if most is not None and ids.shape[1] > most:
            blocks = np.split(ids, range(most, ids.shape[1], most), axis=1)
            return np.concatenate([self.scores(block) for block in blocks], axis=1)
        if not self._cache.grows and most is None and self._length + ids.shape[1] > self._room:
            raise ValueError(
                f"{self._length + ids.shape[1]} words in a cache of {self._cache.dtype} with room for {self._room}"
            )
        self._length += ids.shape[1]
        last = np.full(len(ids), self._length - 1, np.int32)
        past = {f"past_{n}": cache for n, cache in self._caches.items()}
        same = {f"present_{n}": cache for n, cache in self._caches.items()} if self._fits else {}
        total = np.array(self._length, np.int32)
        scores, *caches = self._run({"ids": ids, "last": last, "total": total, **past}, same)
        self._caches = dict(zip(self._caches, caches, strict=True))
        return scores

    @property
    def _fits(self) -> bool:
        """Whether the cache is the same memory after a step."""
        return self._length <= self._room or not self._cache.grows

    def words(self, prompt: NDArray[np.int64], count: int) -> Words:
        """The likeliest words after a prompt [batch, n], [batch, count]; seconds of the prompt, and of each word after the first."""
        self.begin(len(prompt))
        words: Words = timed_words(lambda ids: self.scores(ids)[:, -1:].argmax(-1), prompt, count)
        return words

    def drafted(self, prompt: NDArray[np.int64], count: int, longest: int) -> tuple[NDArray[np.int64], int]:
        """The likeliest words after a prompt [1, n], [1, count], by fewer calls, whose number comes with them. A draft of up to `longest`
        words is scored together with the last word; those on which the model agrees are kept, and the next one is the model's own, so that
        the words are those of `words` (Y. Leviathan et al., Fast inference from transformers via speculative decoding, 2023, with the
        likeliest word in place of a draw). The cache forgets the rest by its length alone."""
        self.begin()
        text, calls = prompt[0].tolist(), 1
        longest = longest if self._most_new is None else min(longest, self._most_new - 1)
        said = [int(self.scores(prompt)[0, -1].argmax())]
        while len(said) < count:
            draft = continuation([*text, *said], min(longest, count - len(said) - 1))
            likeliest = self.scores(np.array([[said[-1], *draft]]))[0].argmax(-1).tolist()
            agreed = next((k for k, word in enumerate(draft) if word != likeliest[k]), len(draft))
            said += likeliest[: agreed + 1]
            self._forget(len(draft) - agreed)
            calls += 1
        return np.array([said]), calls

    def _forget(self, count: int) -> None:
        """Takes the last words out of the cache. What a ring had in their slots before, no later word sees: its room is for a window and
        all words that were new with them."""
        self._length -= count
        if count and not self._room:
            self._caches = {n: c[:, :, : self._length] for n, c in self._caches.items()}


def continuation(text: list[int], most: int) -> list[int]:
    """The words that followed the last two of a text where these stood before, at most so many: a draft that takes no second model (A.
    Saxena, Prompt lookup decoding, 2023)."""
    last = text[-2:]
    for at in range(len(text) - 3, -1, -1):
        if text[at : at + 2] == last:
            return text[at + 2 : at + 2 + most]
    return []


def loaded(path: Path, threads: int) -> tuple[anyshape.Executable, float, float]:
    """The model from its compiled file, and the seconds that compiling (once) and loading take."""
    saved = path.with_suffix(".anyshape")
    start = time.perf_counter()
    anyshape.compile(path, threads=threads).save(saved)
    compiled = time.perf_counter() - start
    start = time.perf_counter()
    model = anyshape.load(saved, threads=threads)
    return model, compiled, time.perf_counter() - start
