"""Tries one mutant by the tests of its spec: the examples, then laws on calls that are drawn once for each op.

In: an op and the OpDefs of a mutant of it. Out: the example and the law that killed the mutant. Nothing is compiled: kernel and interpreter
are derived from the same equations, so that a change of the spec shows in the interpreter as it does in the kernel. Results of the oracle
are cached by the parameters as the mutant resolves them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable, UnsatisfiedAssumption

from anyshape.errors import ShapeError
from anyshape.graph.opdef import OpDef
from anyshape.graph.value import Node
from anyshape.properties import Property
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.nodes import resolved, static_node
from anyshape_testing.compare.results import has_types_of, same
from anyshape_testing.draw.corpus import calls
from anyshape_testing.draw.random_call import random_call
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.execution.interpreter import run_equations
from anyshape_testing.execution.reference import run_reference
from anyshape_testing.laws.examples import holds_on_numbers
from anyshape_testing.laws.rewriting import fires
from anyshape_testing.mutation.making import in_place
from anyshape_testing.process.time_limit import TooLong, time_limit

DRAWN, MORE = 120, 500
"""Calls drawn for each op, valid or not; and further ones for an op of which mutants survive"""
SECONDS, LONGER = 0.3, 0.7
"""Seconds that the op itself takes for the calls that are kept, the fastest first; and for the further ones for survivors"""
LIMIT = 10.0
"""Seconds after which a running mutant counts as killed"""
EMPTY = 0.004
"""Seconds that are added to calls without elements, which test little, when calls are sorted by time"""
LARGEST = 400
"""The most elements of a call: the interpreter is slow"""


@dataclass
class Drawn:
    """A call, and the oracle's results for each resolution of its parameters."""

    call: Call
    accepted: bool
    tells: bool = False
    """Whether the results have an element, which could be wrong"""
    answers: dict[str, Any] = field(default_factory=dict)

    def holds(self) -> bool:
        """Checks laws 1 and 2 without a compiler. Returns False where the rule refuses the call."""
        try:
            node = static_node(self.call)
        except ShapeError:
            return False
        expected = self._answer(node)
        self.tells = any(w.size for w in expected)
        has_types_of(node, expected)
        same(run_equations(self.call, node), expected, self.call, node, "interpreter against reference")
        return True

    def _answer(self, node: Node) -> list[Any]:
        key = repr(resolved(node))
        if key not in self.answers:
            try:
                self.answers[key] = run_reference(self.call, node)
            except Exception as e:
                self.answers[key] = e
        answer = self.answers[key]
        if isinstance(answer, Exception):
            raise answer
        return list(answer)


def _is_large(c: Call) -> bool:
    """Whether the op accepts the call, but laws leave it out because of the size of its results."""
    try:
        static_node(c)
        valid_node(c)
    except ShapeError:
        return False
    except UnsatisfiedAssumption:
        return True
    return False


@dataclass(frozen=True)
class Killers:
    """The example and the law that kill a mutant, each on its own; None where none does."""

    example: str | None
    law: str | None

    @property
    def first(self) -> str | None:
        return self.example or self.law


def _ended(tests: Callable[[], str | None]) -> str | None:
    """Runs tests of a mutant; one that does not end, or takes all memory, is killed by that."""
    try:
        with time_limit(LIMIT):
            return tests()
    except TooLong as e:
        return str(e)
    except MemoryError:
        return "no memory"


class Tests:
    """The tests of one op: its examples, and calls drawn from its original spec."""

    def __init__(self, p: Property, own: tuple[OpDef, ...]) -> None:
        self.property, self.own = p, own
        with in_place(own):
            self.examples = [(call_of(p.op, e), e) for e in p.examples]
            self.calls = self._draw(DRAWN, SECONDS)
        self.accepted = sum(d.accepted for d in self.calls)

    @cached_property
    def more(self) -> list[Drawn]:
        """Further calls for mutants that survive the others."""
        with in_place(self.own):
            return self._draw(MORE, LONGER)

    def _draw(self, drawn: int, most: float) -> list[Drawn]:
        timed: list[tuple[float, Drawn]] = []

        @settings(
            max_examples=drawn, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(calls(self.property, random_call))
        def run(c: Call) -> None:
            if sum(a.size for a in c.flat_inputs()) > LARGEST:
                return
            if _is_large(c):
                return
            d = Drawn(c, False)
            start = time.process_time()
            try:
                d.accepted = d.holds()
            except (UnsatisfiedAssumption, AssertionError, ShapeError):
                return  # failures of the op itself are reported by its laws; asserts that read elements may refuse these
            timed.append((time.process_time() - start, d))

        with suppress(Unsatisfiable):
            run()
        kept: list[Drawn] = []
        spent = 0.0
        for seconds, d in sorted(timed, key=lambda x: x[0] + (EMPTY if not x[1].tells else 0)):
            spent += seconds
            if spent > most and sum(k.accepted for k in kept) >= 5:
                break
            kept.append(d)
        return kept

    def killers(self, defs: Sequence[OpDef], what: str, thorough: bool = True) -> Killers:
        """Finds the tests that kill a mutant. `what`: the section of the spec that was changed. `thorough`: a mutant that survives gets
        further calls."""
        with in_place(tuple(defs)), np.errstate(all="ignore"):
            if what == "rewrites":
                return Killers(None, _ended(self._rewrites))
            example, law = _ended(self._examples), _ended(self._laws)
            if thorough and example is None and law is None:
                more = self.more
                law = _ended(lambda: self._on(more))
            return Killers(example, law)

    def _examples(self) -> str | None:
        for k, (c, e) in enumerate(self.examples):
            try:
                holds_on_numbers(c, e)
            except TooLong:
                raise
            except Exception:
                self.examples.insert(0, self.examples.pop(k))
                return f"example of {e.source}"
        return None

    def _laws(self) -> str | None:
        return self._on(self.calls) or ("no call is valid" if self.accepted and not self.valid else None)

    def _on(self, drawn: list[Drawn]) -> str | None:
        self.valid = 0
        for k, d in enumerate(drawn):
            try:
                self.valid += d.holds()
            except TooLong:
                raise
            except Exception as e:
                drawn.insert(0, drawn.pop(k))  # a call that kills one mutant often kills the next
                return f"law 1: {type(e).__name__}"
        return None

    def _rewrites(self) -> str | None:
        for k in range(len(variants(self.property.op)[0].rewrites)):
            try:
                if not fires(self.property.op, k)[0]:
                    return "law 5: never fires"
            except TooLong:
                raise
            except Exception as e:
                return f"law 5: {type(e).__name__}"
        return None
