"""Tunes the garbage collector of processes in which much lives to the end: specs, modules, collected tests.

In: nothing. Out: nothing; the collector leaves out objects that exist already, and runs less often.
"""

from __future__ import annotations

import gc

THRESHOLDS = (20_000, 50, 100)
"""Thresholds of the three generations: a law allocates and drops whole programs. With Python's defaults, and nothing left out, laws take a
fifth more time."""

WHILE_COLLECTING = (1_000_000, 50, 100)
"""Thresholds while tests are collected, nearly all of whose objects live to the end: with Python's defaults it takes a sixth more time"""


def collect_seldom() -> None:
    """Sets thresholds for work whose objects stay."""
    gc.set_threshold(*WHILE_COLLECTING)


def leave_out_what_stays() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
