"""The garbage collector where much lives as long as the process does: specs, modules, what was collected as tests.

In: nothing. Out: nothing; the collector looks at what is made from here on alone, and not after every few thousand objects.
"""

from __future__ import annotations

import gc

THRESHOLDS = (20_000, 50, 100)
"""Objects before the youngest are looked at, and how many of such looks before those that outlived one, or two: a law makes and drops whole
programs. With Python's own numbers, and nothing left out, laws take a fifth more time."""


def leave_out_what_stays() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
