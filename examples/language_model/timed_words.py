"""The likeliest words after a prompt, with the seconds that each takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = tuple[NDArray[np.int64], float, list[float]]
"""Words [batch, count]; seconds of the prompt, and of each word after the first."""


def timed_words(
    likeliest: Callable[[NDArray[np.int64]], NDArray[np.int64] | int], prompt: NDArray[np.int64], count: int
) -> Words:
    """Says `count` words. `likeliest`: the word that follows new ids [batch, new] and all before them, as a number or [batch, 1]."""
    ids, said, seconds = prompt, [], []
    for _ in range(count):
        start = time.perf_counter()
        word = likeliest(ids)
        seconds.append(time.perf_counter() - start)
        ids = np.reshape(np.asarray(word, np.int64), (len(prompt), 1))
        said.append(ids)
    return np.concatenate(said, axis=1), seconds[0], seconds[1:]
