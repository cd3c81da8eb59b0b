"""Draws random calls of an op, once for all of its laws.

In: a property. Out: calls, in the order in which they were drawn, and which of them the rule refuses. A law runs on these calls itself, and
uses the test library again only where one fails, to find the smallest call that does.
"""

from __future__ import annotations

import builtins
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable, UnsatisfiedAssumption

from anyshape.errors import DtypeError
from anyshape.properties import Property
from anyshape_testing.calls.call import Call, build_call, variants
from anyshape_testing.calls.dtypes import computed
from anyshape_testing.draw.choices import Choosing
from anyshape_testing.draw.random_call import random_call
from anyshape_testing.draw.validity import allowed
from anyshape_testing.draw.wrong_calls import wrong_call
from anyshape_testing.process import time_budget
from anyshape_testing.process.profile import CHUNK, LEAST

Make = Callable[[Property, Any], Call]
FEW = 5
"""Most calls that are a first look, in common dtypes."""
LEAST_ELEMENTS = 2
"""The least elements of a call that is added for its dtype."""
AGAIN = "the same call as before"
BETWEEN = 2
"""Calls between two that were drawn to be wrong, for laws about refused calls"""
KEPT = 2
"""The number of ops of which calls are cached: laws are run op by op."""


@st.composite
def calls(draw: Any, p: Property, make: Make) -> Call:
    """One strategy for the whole call: a draw within it costs a tenth of one with `data()`."""
    return make(p, Choosing(draw))


def search(p: Property, make: Make, examples: int, body: Callable[[Call], object]) -> None:
    """Runs body on random calls, always the same ones for the same chunk and the same outcomes of the body, until it raises Enough. Raises
    its error for the smallest failing call that is found."""

    @settings(max_examples=examples)
    @given(calls(p, make))
    def run(c: Call) -> None:
        body(c)

    with suppress(Enough):
        (seed(CHUNK)(run) if CHUNK else run)()


@dataclass(frozen=True)
class Corpus:
    """Calls in the order of drawing, each with the number of draws that it took. `valid`: those that the rule accepts."""

    property: Property
    drawn: tuple[tuple[Call, int], ...]
    accepted: tuple[tuple[Call, int], ...]
    refused: Counter[str] = field(default_factory=Counter)
    """Rejected draws, by the reason"""
    cut_short: bool = False
    """Whether drawing ended because its time was over"""

    @builtins.property
    def valid(self) -> tuple[Call, ...]:
        return tuple(c for c, _ in self.accepted)

    @builtins.property
    def draws(self) -> int:
        """The number of calls that were drawn to obtain the valid ones."""
        return sum(n for _, n in self.accepted)

    def among(self, refused: bool, share: int) -> Iterator[tuple[Call, int]]:
        """Yields every valid call, or every call and wrong ones between them; with a share of n, first every n-th of them."""
        candidates = self._with_wrong if refused else self.accepted
        for start in range(share):
            yield from candidates[start::share]

    @cached_property
    def _with_wrong(self) -> tuple[tuple[Call, int], ...]:
        """All calls, with one that was drawn to be wrong after every few: most others satisfy the rule by construction."""
        mixed = list(self.drawn)
        if self.property.refuses:
            wrong: list[Call] = []
            with suppress(Unsatisfiable):
                search(self.property, wrong_call, max(LEAST, len(mixed) // BETWEEN), wrong.append)
            for k, c in enumerate(wrong):
                mixed.insert(k * (BETWEEN + 1), (c, 1))
        return tuple(mixed)

    @cached_property
    def further_dtypes(self) -> tuple[Call, ...]:
        """Small calls in dtypes that no valid call has: every dtype is another kernel to compile."""
        return in_other_dtypes(self.property, self.valid)


_corpora: OrderedDict[object, tuple[object, Corpus]] = OrderedDict()


def corpus(p: Property, examples: int, least: int = LEAST) -> Corpus:
    """Returns the calls of an op, drawn until `examples` of them are valid, or until ten times as many were drawn; where the law's time is
    over, until `least` are valid or its grace period is over. Raises Unsatisfiable where none is valid."""
    definitions = (p, *variants(p.op))
    key = (examples, *map(id, definitions))
    if key not in _corpora:
        _corpora[key] = (definitions, _draw(p, examples, least))  # keeps the objects alive whose ids are the key
        while len(_corpora) > KEPT:
            _corpora.popitem(last=False)
    return _corpora[key][1]


def _draw(p: Property, examples: int, least: int) -> Corpus:
    counted, cut_short = _Counted(p), False

    def body(c: Call) -> None:
        nonlocal cut_short
        had = len(counted.accepted)
        if had and (time_budget.is_over() if had >= least else time_budget.is_spent()):
            cut_short = True
            raise Enough
        counted.take(c)

    search(p, counted.make, examples, body)
    return Corpus(p, tuple(counted.drawn), tuple(counted.accepted), counted.refused, cut_short)


class _Counted:
    """Counts draws of one op: how many each call took, and why others were rejected."""

    def __init__(self, p: Property) -> None:
        self.property = p
        self.drawn: list[tuple[Call, int]] = []
        self.accepted: list[tuple[Call, int]] = []
        self.refused: Counter[str] = Counter()
        self._seen: set[Hashable] = set()
        self._since_drawn = self._since_accepted = 0

    def make(self, p: Property, draw: Any) -> Call:
        self._since_drawn += 1
        self._since_accepted += 1
        with self._in_vain():
            return random_call(p, draw)

    def take(self, c: Call) -> None:
        """Adds a call; rejects one that the rule refuses, and one that is known."""
        self.drawn.append((c, self._since_drawn))
        self._since_drawn = 0
        with self._in_vain():
            call = allowed(c)
            if call.identity in self._seen:
                raise UnsatisfiedAssumption(AGAIN)
        self._seen.add(call.identity)
        self.accepted.append((call, self._since_accepted))
        self._since_accepted = 0

    @contextmanager
    def _in_vain(self) -> Iterator[None]:
        try:
            yield
        except UnsatisfiedAssumption as e:
            self.refused[str(e)] += 1
            raise


class Enough(BaseException):
    """Raised where there is no time for more calls. It is no Exception, since the test library would search the smallest call that raises
    one."""


def in_other_dtypes(p: Property, drawn: Sequence[Call]) -> tuple[Call, ...]:
    """Lists the smallest valid call in each dtype that the op allows and none of these calls has."""
    by_size = sorted(drawn, key=lambda c: ((n := _elements(c)) < LEAST_ELEMENTS, n))
    missing = [
        (v, d)
        for v, allowed in variants(p.op)[0].dtypes.items()
        for d in computed(allowed)
        if all(c.recipe is None or c.recipe.dtypes[v] != d for c in drawn)
    ]
    calls = (_under(p, by_size, v, d) for v, d in missing)
    return tuple(c for c in calls if c is not None)


def _elements(c: Call) -> int:
    return sum(a.size for a in c.flat_inputs())


def _under(p: Property, drawn: Sequence[Call], variable: str, dtype: str) -> Call | None:
    """Returns the first of the calls that is valid under another dtype, in that dtype; None where there is none."""
    for c in drawn:
        assert c.recipe is not None
        other = build_call(p, replace(c.recipe, dtypes={**c.recipe.dtypes, variable: dtype}))
        with suppress(UnsatisfiedAssumption, DtypeError):
            return allowed(other)
    return None
