"""Decodes requests of unequal lengths together: each joins when a place is free, leaves when it is done, and nothing is padded.

    python examples/language_model/batching.py [--size tiny|100m|1b] [--requests 16] [--slots 4] [--block 64] [--threads N] [--folder DIR]

One step is one call for the next word of every running request: a row for each, with a length of its own (`last`), so that the weights are
read once for all. Prompts are scored by blocks of `--block` words, one block between two steps, so that a long one does not keep the others
waiting. Printed are words a second, beside the same requests one after the other.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from decoder import Arrays, Decoder, Run, loaded  # type: ignore[import-not-found]  # files beside this one
from language_model import SIZES, Cache, Size, build  # type: ignore[import-not-found]
from numpy.typing import NDArray


@dataclass(eq=False)
class Request:
    """A prompt of words, and how many words are asked for; `words`: those that it has got."""

    prompt: NDArray[np.int64]
    count: int
    words: list[int] = field(default_factory=list)
    scored: int = 0
    """Words whose keys and values are in the cache"""

    @property
    def is_done(self) -> bool:
        return len(self.words) >= self.count

    @property
    def is_read(self) -> bool:
        """Whether the whole prompt is scored."""
        return self.scored >= len(self.prompt)


class ContinuousBatch:
    """A model and a cache for `slots` requests at a time, each with room for so many words.

    Running requests have the first slots. Where one leaves, that of the last slot takes its place."""

    def __init__(
        self, run: Run, size: Size, slots: int, room: int, block: int = 64, cache: Cache | None = None
    ) -> None:
        self._run, self._room, self._block = run, room, block
        self._caches: Arrays = (cache or Cache()).arrays(size, slots, room)
        self._slots = slots
        self._running: list[Request] = []
        self._waiting: deque[Request] = deque()
        self.steps = 0
        """Calls so far"""

    def add(self, request: Request) -> None:
        """Lets a request wait for a slot. Raises ValueError for one that needs more room than a slot has."""
        if len(request.prompt) < 1 or request.count < 1 or len(request.prompt) + request.count > self._room:
            raise ValueError(
                f"a prompt of {len(request.prompt)} words and {request.count} more, and a slot has room for {self._room}"
            )
        self._waiting.append(request)

    def step(self) -> bool:
        """Scores a block of one prompt, and the next word of every other request; says whether anything is left to do."""
        while self._waiting and len(self._running) < self._slots:
            self._running.append(self._waiting.popleft())
        for slot, request in enumerate(self._running):
            if not request.is_read:
                self._read_block(slot, request)
                break
        self._next_words()
        for slot in reversed(range(len(self._running))):
            if self._running[slot].is_done:
                self._leave(slot)
        return bool(self._running or self._waiting)

    def _read_block(self, slot: int, request: Request) -> None:
        ids = request.prompt[request.scored : request.scored + self._block]
        request.scored += len(ids)
        scores = self._scores(slot, slot + 1, ids[None], [request.scored])
        if request.is_read:
            request.words.append(int(scores[0, -1].argmax()))

    def _next_words(self) -> None:
        """A step of the requests whose prompts are read: those in front of the first whose prompt is not, and those behind it."""
        start = 0
        for slot, request in enumerate([*self._running, None]):
            if request is None or not request.is_read or request.is_done:
                self._step(start, slot)
                start = slot + 1

    def _step(self, start: int, end: int) -> None:
        requests = self._running[start:end]
        if not requests:
            return
        ids = np.array([[r.words[-1]] for r in requests])
        for r in requests:
            r.scored += 1
        scores = self._scores(start, end, ids, [r.scored for r in requests])
        for r, row in zip(requests, scores, strict=True):
            r.words.append(int(row[-1].argmax()))

    def _scores(self, start: int, end: int, ids: NDArray[np.int64], lengths: Sequence[int]) -> NDArray[np.float32]:
        """The scores of new ids of the requests in some slots, whose lengths are those with the new ones."""
        caches = {n: c[start:end] for n, c in self._caches.items()}
        inputs: Arrays = {
            "ids": ids,
            "last": np.array(lengths, np.int32) - 1,
            "total": np.array(max(lengths), np.int32),
        }
        inputs |= {f"past_{n}": c for n, c in caches.items()}
        self.steps += 1
        scores: NDArray[np.float32] = self._run(inputs, {f"present_{n}": c for n, c in caches.items()})[0]
        return scores

    def _leave(self, slot: int) -> None:
        last = self._running.pop()
        if slot < len(self._running):
            self._running[slot] = last
            for c in self._caches.values():
                c[slot, :, : last.scored] = c[len(self._running), :, : last.scored]


def requests_of(size: Size, count: int, seed: int = 0) -> list[Request]:
    """Requests whose prompts have 3 to 96 words, and which ask for 4 to 64."""
    rng = np.random.default_rng(seed)
    return [Request(rng.integers(0, size.words, rng.integers(3, 97)), int(rng.integers(4, 65))) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="100m")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--slots", type=int, default=4, help="requests that are decoded together (4)")
    parser.add_argument(
        "--block", type=int, default=64, help="words of a prompt that are scored between two steps (64)"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the model is written and stays; made if it is not there")
    options = parser.parse_args()
    if min(options.requests, options.slots, options.block) < 1:
        parser.error("at least one request, one slot, and one word of a block")
    with tempfile.TemporaryDirectory() as temporary:
        size, path = SIZES[options.size], (options.folder or Path(temporary)) / f"{options.size}_int4.onnx"
        build(path, size)
        run = loaded(path, options.threads)[0].run
        together, alone = requests_of(size, options.requests), requests_of(size, options.requests)
        batch = ContinuousBatch(run, size, options.slots, 192, options.block)
        start = time.perf_counter()
        for r in together:
            batch.add(r)
        while batch.step():
            pass
        seconds, count = time.perf_counter() - start, sum(r.count for r in together)
        print(f"together: {count} words in {seconds:.2f} s, {count / seconds:.1f} a second, {batch.steps} calls")
        decoder, start = Decoder(run, size, 192), time.perf_counter()
        for r in alone:
            r.words = decoder.words(r.prompt[None], r.count)[0][0].tolist()
        seconds = time.perf_counter() - start
        print(f"one after the other: {count} words in {seconds:.2f} s, {count / seconds:.1f} a second")
        same = sum(a == b for x, y in zip(together, alone, strict=True) for a, b in zip(x.words, y.words, strict=True))
        print(f"{same} of {count} words are the same")


if __name__ == "__main__":
    main()
