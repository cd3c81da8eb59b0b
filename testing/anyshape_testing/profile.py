"""How many random calls a law is tested with, and in which order they are drawn: always the same."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

USUAL = 100
WIDE = os.environ.get("ANYSHAPE_LONG", "0") not in ("", "0")
"""Whether laws draw every dtype that an op allows as often as not, and the ends of integers; else the five dtypes that models use most, and
of each other one a single call, in laws 1 and 2."""
CHUNK = int(os.environ.get("ANYSHAPE_CHUNK") or 0)
"""Which draws: those of a chunk are always the same, and others than those of another chunk."""


def usual() -> int:
    """Calls a law: ANYSHAPE_EXAMPLES, where that is set."""
    return int(os.environ.get("ANYSHAPE_EXAMPLES", USUAL))


def load_profile(examples: int, shrink: bool = True) -> None:
    """From here on a law is tested with so many random calls. Tests of the tests need no smallest call of those that fail.

    Which calls these are depends on nothing else: the library would draw numbers that stand in the code of modules, too, those that happen
    to be imported."""
    setattr(HypothesisProvider, "_local_constants", Constants())  # noqa: B010
    settings.register_profile(
        "laws",
        deadline=None,
        max_examples=examples,
        derandomize=True,
        report_multiple_bugs=False,
        database=None,
        # Which lines only failing calls run is not looked for: a failure says the smallest call.
        phases=[phase for phase in Phase if phase is not Phase.explain] if shrink else [Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    settings.load_profile("laws")
