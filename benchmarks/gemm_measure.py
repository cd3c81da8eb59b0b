"""How the matrix-product benchmarks measure: aligned arrays, the machine's peak, interleaved batches.

In: calls without arguments. Out: the best time of each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from anyshape.lower.limits import measure_peak
from benchmarks.lines import aligned

__all__ = ["Array", "aligned", "best_times", "measure_peak", "timed"]

Array = npt.NDArray[np.float32]


def timed(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def best_times(
    calls: list[Callable[[], object]], flops: float, peak: float, budget: float, least: int = 1
) -> list[float]:
    """The seconds of each call in its best batch: of half a millisecond at `peak` GFLOP/s, and of `least` calls."""
    repeats = max(least, int(5e-4 / (flops / peak / 1e9 + 2e-6)))
    best = [math.inf] * len(calls)
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for at, call in enumerate(calls):
            best[at] = min(best[at], timed(call, repeats))
    return best
