"""Sets how many random calls a law is tested with, and makes hypothesis draw them deterministically."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

USUAL = 100
LEAST = 10
"""Different calls that a law has to accept."""
LONG = os.environ.get("ANYSHAPE_LONG", "0") not in ("", "0")
"""Whether nothing is sampled, as in `make test-long`: laws draw from all dtypes of an op in half of the draws, and the ends of
integers; otherwise they draw five common dtypes, and laws 1a and 2 have one call in each other dtype, law 1b in a third of them"""
CHUNK = int(os.environ.get("ANYSHAPE_CHUNK") or 0)
"""Number of a series of draws: equal numbers give equal draws, different ones different draws"""


SUPPRESSED = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
"""What says nothing of draws of calls: how many of these are accepted is counted, and judged, by `running/accounting.py`."""


def usual() -> int:
    """Returns the number of calls for each law: ANYSHAPE_EXAMPLES, where it is set."""
    return int(os.environ.get("ANYSHAPE_EXAMPLES", USUAL))


def load_profile(examples: int, shrink: bool = True) -> None:
    """Sets the number of random calls for a law; `shrink`: whether the smallest failing call is searched, which tests of laws do not need.

    The draws depend on nothing else: by default the library also draws constants that it finds in the code of imported modules."""
    setattr(HypothesisProvider, "_local_constants", Constants())  # noqa: B010, it is no attribute that types know
    settings.register_profile(
        "laws",
        deadline=None,
        max_examples=examples,
        derandomize=True,
        report_multiple_bugs=False,
        database=None,
        # Which lines only failing calls run is not looked for: a failure says the smallest call.
        phases=[phase for phase in Phase if phase is not Phase.explain] if shrink else [Phase.generate],
        suppress_health_check=SUPPRESSED,
    )
    settings.load_profile("laws")
