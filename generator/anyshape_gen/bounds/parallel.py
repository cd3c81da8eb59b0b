"""Proves several ops in parallel processes.

In: ops with the keys of their verdicts, and the greatest number of processes. Out: the verdicts, in that order.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence

from anyshape_gen.bounds.store import Safety, safety
from anyshape_gen.model.analysis import OpAnalysis

Ops = Sequence[tuple[OpAnalysis, str]]

FEW = 8
"""The number of ops up to which all are proved in this process: to start another takes longer."""
_ops: Ops = ()
"""The ops, which a forked process inherits from its parent; it is sent their numbers."""


def safeties(ops: Ops, processes: int) -> list[Safety]:
    if (
        len(ops) <= FEW or processes < 2 or sys.platform != "linux"
    ):  # on other systems a forked process may not be able to continue
        return [safety(a, key) for a, key in ops]
    context = multiprocessing.get_context("fork")
    with context.Pool(min(processes, len(ops)), _begin, (ops,)) as pool:
        return pool.map(_proved, range(len(ops)), chunksize=1)


def _begin(ops: Ops) -> None:
    global _ops
    _ops = ops


def _proved(number: int) -> Safety:
    return safety(*_ops[number])
