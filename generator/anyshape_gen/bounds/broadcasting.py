"""Broadcasts vectors of any length.

In: vectors. Out: their broadcast, with facts about each of its positions; and the facts that `broadcasts(p, to)` states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from anyshape import dims
from anyshape.dims import Size
from anyshape_gen.bounds.context import Context
from anyshape_gen.bounds.terms import Run, Truth, integer_of


def broadcast(context: Context, runs: Sequence[Run]) -> Run:
    """Broadcasts runs, aligned at the end: every dim is 1 or that of the result, which is 1 where all are 1."""
    length = dims.maximum(*(r.length for r in runs))
    result = context.run("b", length, low=0 if all(r.nonnegative for r in runs) else None)
    for r in runs:
        context.everywhere(r.length, partial(_fits, r, result, length - r.length))

    def made_of_ones(p: Size) -> Truth:
        ones = [dims.or_(dims.lt(p, length - r.length), dims.eq(r.at(p - length + r.length), 1)) for r in runs]
        return dims.or_(*(dims.not_(c) for c in ones), dims.eq(result.at(p), 1))

    context.everywhere(length, made_of_ones)
    return result


def _fits(run: Run, to: Run, behind: Size, q: Size) -> Truth:
    return one_or(run.at(q), to.at(q + behind))


def one_or(a: Any, b: Any) -> Truth:
    a, b = (integer_of(v, "an item of a vector that is broadcast") for v in (a, b))
    return dims.or_(dims.eq(a, 1), dims.eq(a, b))


def learn_broadcasts(context: Context, run: Run, to: Run, hypotheses: Iterable[Truth]) -> None:
    """Adds the facts that `broadcasts(run, to)` implies."""
    held = tuple(hypotheses)
    context.fact(dims.le(run.length, to.length), held)
    context.everywhere(run.length, partial(_fits, run, to, to.length - run.length), held)
