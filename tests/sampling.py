"""Cases of a test of which `make test` takes one in so many, and `make test-long` all: `@pytest.mark.sampled(3)`.

For tests whose many cases are alike and cost seconds. Cases are counted over all parameters of a test, in the order in which they are
collected: with parameters whose numbers of values have no common factor with that of the mark, each value is in a case that is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def sampled(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Divides tests into those that are kept, in their order, and those that are left out: of a marked function the first, and each so many
    after it."""
    seen: Counter[Any] = Counter()
    kept: list[Any] = []
    left: list[Any] = []
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None:
            kept.append(item)
            continue
        (one_in,) = mark.args
        (left if seen[item.function] % one_in else kept).append(item)
        seen[item.function] += 1
    return kept, left
