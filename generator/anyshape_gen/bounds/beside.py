"""Proofs of several ops beside each other: each takes its op alone.

In: ops with the keys of their verdicts, and how many processes there may be. Out: the verdicts, in that order.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence

from anyshape_gen.analysis_model import OpAnalysis
from anyshape_gen.bounds.store import Safety, safety

Ops = Sequence[tuple[OpAnalysis, str]]

FEW = 8
"""Up to so many are proved here: another process takes as long to begin as some of them take."""
_ops: Ops = ()
"""What a forked process was given: it has the ops from its parent, and is told numbers."""


def safeties(ops: Ops, processes: int) -> list[Safety]:
    if (
        len(ops) <= FEW or processes < 2 or sys.platform != "linux"
    ):  # elsewhere a fork may not go on as its parent would
        return [safety(a, key) for a, key in ops]
    context = multiprocessing.get_context("fork")
    with context.Pool(min(processes, len(ops)), _begin, (ops,)) as pool:
        return pool.map(_proved, range(len(ops)), chunksize=1)


def _begin(ops: Ops) -> None:
    global _ops
    _ops = ops


def _proved(number: int) -> Safety:
    return safety(*_ops[number])
