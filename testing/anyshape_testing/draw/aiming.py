"""Searches for calls that an assert of a spec refuses, starting from valid calls.

In: the property of an op. Out: for every assert of its rule, calls that it refuses. A call is changed in one place at a time (a dim is
added, removed or changed, a parameter moved) until each assert refuses some; the spec's own examples of errors are changed likewise, and
are used unchanged where nothing else is found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, reject, settings
from hypothesis.errors import Unsatisfiable
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError, ShapeError, TypeRelationError
from anyshape.graph.opdef import ParamDef
from anyshape.properties import Property, Refusal
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.operands import typed
from anyshape_testing.compare.wording import broken, is_of
from anyshape_testing.draw.corpus import Enough, calls
from anyshape_testing.draw.random_call import random_call
from anyshape_testing.process import time_budget

Array = NDArray[Any]
STARTS = (12, 60)
"""The most valid calls that the search begins with: at first, and where an assert refused none."""


@dataclass
class Aim:
    """An assert, and calls that it refuses."""

    refusal: Refusal
    drawn: list[Call] = field(default_factory=list)
    """Calls that are one change away from a valid one."""
    near: list[Call] = field(default_factory=list)
    """Calls that are at most two changes away from an example of an error."""
    mixed: list[Call] = field(default_factory=list)
    """Calls that other asserts refuse too: which of them a run reports first is not defined."""

    def chosen(self, most: int) -> list[Call]:
        """Selects drawn calls, then near ones; where no call breaks this assert alone, those that break others with it."""
        return [*self.drawn[: max(1, most - 1)], *self.near][:most] or self.mixed[:most]


def aims(p: Property, most: int) -> list[Aim]:
    """Searches, for every assert of the rule, up to `most` calls that it refuses."""
    targets = [Aim(r) for r in p.asserts]
    for starts in STARTS:
        for c in _valid_calls(p, starts):
            _try(targets, changes(c), "drawn", most)
            if time_budget.is_over() or all(len(a.drawn) >= most for a in targets):
                break
        if time_budget.is_over() or all(a.drawn for a in targets):
            break
    wrong = [call_of(p.op, e) for e in p.examples if e.error is not None]
    for c in wrong:
        _try(targets, changes(c), "near", most)
    _try(targets, iter(wrong), "near", most + 1)
    return targets


def _try(targets: list[Aim], calls: Iterator[Call], where: str, most: int) -> None:
    for c in calls:
        said = refused(c)
        wanting = (
            [] if said is None else [a for a in targets if len(getattr(a, where)) < most and is_of(a.refusal, said)]
        )
        if wanting:
            alone = len(broken(c.op, c.values(typed), c.params)[0]) <= 1
            for a in wanting:
                calls_so_far: list[Call] = getattr(a, where) if alone else a.mixed
                if len(calls_so_far) < most:
                    calls_so_far.append(c)
                    break
        if all(len(getattr(a, where)) >= most for a in targets):
            break


def refused(c: Call) -> str | None:
    """Returns the message with which the rule refuses the call on numbers; None where it does not."""
    try:
        static_node(c)
    except ShapeError as e:
        return str(e)
    except (AnyshapeError, MemoryError):
        return None
    return None


def _valid_calls(p: Property, most: int) -> list[Call]:
    valid: list[Call] = []

    def draw_in_time(p: Property, draw: Any) -> Call:
        c = random_call(p, draw)  # drawn to the end, since the test library compares what is drawn with earlier draws
        if valid and time_budget.is_over():
            raise Enough
        return c

    @settings(
        max_examples=most, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(calls(p, draw_in_time))
    def run(c: Call) -> None:
        if sum(a.size for a in c.flat_inputs()) > 500:
            reject()
        try:
            static_node(c)
        except TypeRelationError:
            reject()
        valid.append(c)

    with suppress(Unsatisfiable, Enough):
        run()
    return valid


# --- one change -----------------------------------------------------------------------------------------------------


def changes(c: Call) -> Iterator[Call]:
    """Yields the call with one dim or parameter changed, with all dims of one size changed, or without an operand."""
    for q in c.op.params:
        for value in _param(q, c.params.get(q.name)):
            yield replace(c, params={**c.params, q.name: value}, recipe=None)
    for name, v in c.inputs.items():
        for other in _input(v):
            yield replace(c, inputs={**c.inputs, name: other}, recipe=None)
    yield from (replace(c, inputs={**c.inputs, i.name: None}, recipe=None) for i in c.op.inputs if i.optional)
    arrays = {name: v for name, v in c.inputs.items() if isinstance(v, np.ndarray)}
    for n in dict.fromkeys(n for a in arrays.values() for n in a.shape if n):
        without = {name: _resized(a, tuple(0 if m == n else m for m in a.shape)) for name, a in arrays.items()}
        yield replace(c, inputs={**c.inputs, **without}, recipe=None)


def _param(q: ParamDef, v: Any) -> Iterator[Any]:
    if q.kind == "bool":
        yield not v
    elif q.members:
        yield from (m for m in q.members if m != v)
    elif q.kind in ("int", "axis", "number"):
        start = 0 if v is None else v
        yield from (x for x in dict.fromkeys((0, -1, start - 1, start + 1, -start, 100, 2, 3)) if x != v)
    elif q.kind == "float":
        start = 0.0 if v is None else float(v)
        yield from (x for x in (0.0, -1.0, -start, start + 1.0, 2.0) if x != v)
    elif q.kind == "strs":
        words = tuple(v) if v is not None else ()
        yield from ((*words[:k], *new, *words[k + 1 :]) for k in range(len(words)) for new in ((), ("?",)))
        yield (*words, "?")
    elif q.kind == "floats":
        items = tuple(v) if v is not None else ()
        yield from ((*items, 1.0), items[:-1]) if items else ((1.0,), (1.0, 1.0))
    elif q.is_vector:
        yield from _vector(tuple(v)) if v is not None else ((x,) * n for n in (1, 2, 4) for x in (0, -1))


def _vector(v: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for k, x in enumerate(v):
        for y in dict.fromkeys((0, -1, x - 1, x + 1, -x, -2, 100)):
            if y != x:
                yield (*v[:k], y, *v[k + 1 :])
        yield (*v[:k], *v[k + 1 :])
        yield (*v[:k], x, *v[k:])
    yield from ((*v, x) for x in (0, 1, -1))
    if len(v) > 1:
        yield tuple(-1 for _ in v)
        yield v[::-1]


def _input(v: Any) -> Iterator[Any]:
    if v is None:
        return
    if isinstance(v, list):
        for k, a in enumerate(v):
            yield from ([*v[:k], b, *v[k + 1 :]] for b in _shapes(a))
        yield [*v, v[-1]]
        return
    yield from _shapes(v)


def _shapes(a: Array) -> Iterator[Array]:
    """Yields the array under shapes that differ from its own in one place."""
    s = a.shape
    for k, n in enumerate(s):
        for m in dict.fromkeys((0, 1, 2, n - 1, n + 1)):
            if m != n and m >= 0:
                yield _resized(a, (*s[:k], m, *s[k + 1 :]))
        yield _resized(a, (*s[:k], *s[k + 1 :]))
    for k in range(len(s) + 1):
        yield from (_resized(a, (*s[:k], m, *s[k:])) for m in (1, 2))


def _resized(a: Array, shape: tuple[int, ...]) -> Array:
    if not a.size or not math.prod(shape):
        return np.zeros(shape, a.dtype)
    return np.resize(a, shape)
