"""Precision within a bound: which nodes stay exact so that results are near enough to those of the exact model.

In: a bound with example inputs, and what compiles a model with some nodes exact. Out: the names of these nodes, and the errors that are
left. All nodes are narrowed where that is near enough. Otherwise each is narrowed alone, and they are taken in the order of these errors,
as many as together stay within the bound: that takes a compile for each node, and some more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from anyshape.comparison import apart
from anyshape.precision import Within
from anyshape.vm.report.summary import Report


class Runnable(Protocol):
    """A compiled model."""

    @property
    def report(self) -> Report: ...

    def run(self, inputs: Mapping[str, Any]) -> Sequence[Any]: ...


Compile = Callable[[Collection[str] | None], Runnable]
"""Compiles a model with these nodes exact and the others narrowed; None for all of it exact."""


def kept_exact(bound: Within, compiled: Compile) -> tuple[tuple[str, ...], list[float]]:
    """The nodes that stay exact, and the largest relative error of each example. Raises what running the model on the inputs raises."""
    exact = _results(compiled(None), bound.inputs)

    def errors(kept: Collection[str]) -> list[float]:
        return _errors(compiled(kept), bound.inputs, exact)

    narrow = compiled(())
    nodes, whole = tuple(narrow.report.narrowed), _errors(narrow, bound.inputs, exact)
    if max(whole) <= bound.max_relative_error:
        return (), whole
    alone = (
        {n: max(errors([m for m in nodes if m != n])) for n in nodes} if len(nodes) > 1 else dict.fromkeys(nodes, 0.0)
    )
    order = sorted(nodes, key=alone.__getitem__)
    low, high, left = 0, len(nodes), [0.0] * len(bound.inputs)
    while high - low > 1:
        middle = (low + high) // 2
        now = errors(order[middle:])
        if max(now) <= bound.max_relative_error:
            low, left = middle, now
        else:
            high = middle
    return tuple(order[low:]), left


def _errors(model: Runnable, inputs: Iterable[Mapping[str, Any]], exact: Iterable[Sequence[Any]]) -> list[float]:
    """The largest relative error of the results of each call."""
    pairs = zip(_results(model, inputs), exact, strict=True)
    return [max((apart(w, g) for w, g in zip(want, got, strict=True)), default=0.0) for got, want in pairs]


def _results(model: Runnable, inputs: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """The arrays that each call gives, those of lists one by one."""
    return [
        [a.copy() for r in model.run(feed) for a in (map(np.asarray, r) if isinstance(r, list) else [r])]
        for feed in inputs
    ]
