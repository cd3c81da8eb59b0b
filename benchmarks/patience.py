"""How long to measure: as long as was asked for, then on while other guests of the machine blur the figure, at most `PATIENCE` times as
long.

All times count, and nothing is thrown away. Where engines take turns on the same calls, all of them go on or none does; of first calls,
which are compared with later ones of the same engine, each goes on by itself.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

PATIENCE = 4
QUIET = 1.1
"""Median over least of equal calls: above it, an engine may not have seen a moment that others left alone."""
CLOSE = 0.03
"""A median is known that is known up to this part of itself."""


def noise(engines: Iterable[Sequence[float]]) -> float:
    """Median over least of equal calls, the largest of any engine."""
    return max(statistics.median(times) / min(times) for times in engines)


def quiet(engines: Iterable[Sequence[float]]) -> bool:
    """Whether the least of each engine's times can be taken for what the machine allows."""
    return noise(engines) <= QUIET


def known(values: Sequence[float]) -> bool:
    """Whether the median is known closely: whether half of what lies between the values whose places are half a root of their number below
    and above the middle, which is the median's standard error whatever the distribution, is small (the number of values below the true
    median is binomial: David and Nagaraja, *Order Statistics*, 3rd ed., 7.1). Fewer than four values tell nothing."""
    n = len(values)
    if n < 4:
        return False
    ranked, reach = sorted(values), math.sqrt(n) / 2
    low, high = math.floor((n - 1) / 2 - reach), math.ceil((n - 1) / 2 + reach)
    return ranked[min(high, n - 1)] - ranked[max(low, 0)] <= 2 * CLOSE * statistics.median(ranked)
