"""Runs the body of a law on calls, counts the accepted ones, and keeps those that failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption

import anyshape
from anyshape.errors import AnyshapeError
from anyshape.properties import Property
from anyshape_testing.calls.call import Call
from anyshape_testing.draw.corpus import Enough, Make, search
from anyshape_testing.draw.validity import allowed, valid_node
from anyshape_testing.execution.interpreter import run_equations
from anyshape_testing.process import time_budget

Body = Callable[[Call], object]
"""The body of a law. It returns False where the call has nothing to compare: a view has no kernel to divide."""


class Tried:
    """Runs a law's body and counts: calls that were drawn, different ones that were accepted; keeps those that failed."""

    def __init__(self, body: Body, required: int = 1) -> None:
        self.body, self.required = body, required
        self.drawn = self.accepted = 0
        self.failing: list[Call] = []
        self._tried: set[Hashable] = set()

    @property
    def is_weak(self) -> bool:
        return self.accepted < self.required

    def _has_no_time(self) -> bool:
        return time_budget.is_spent() if self.is_weak else time_budget.is_over()

    def __call__(self, c: Call) -> None:
        """Runs the body on a call that the test library has drawn. Raises Enough where there is no more time."""
        if not (self.accepted and self._has_no_time()):
            self._try(c)
        elif not self.failing:  # otherwise a smaller failing call is being searched, and the known one is reported
            raise Enough

    def until_it_is_enough(self, c: Call) -> None:
        """Runs the body on a call as long as the law is weak, then raises Enough."""
        if not self.is_weak:
            raise Enough
        self(c)

    def _try(self, c: Call, draws: int = 1) -> None:
        """Runs the body on a call that was not tried yet; after a failure, while a smaller call is searched, on every call."""
        self.drawn += draws
        if c.identity in self._tried and not self.failing:
            raise UnsatisfiedAssumption("the same call as before")
        self._tried.add(c.identity)
        try:
            telling = self.body(c) is not False
        except UnsatisfiedAssumption:
            raise
        except Exception:
            self.failing.append(c)
            raise
        self.accepted += telling

    def calls(self, candidates: Iterable[tuple[Call, int]], most: float) -> None:
        """Runs the body on calls, each with the number of draws that it took, until `most` were not rejected."""
        tried = 0
        for c, draws in candidates:
            if tried == most or ((tried or self.accepted) and self._has_no_time()):
                break
            with suppress(UnsatisfiedAssumption):
                self._try(c, draws)
                tried += 1

    def while_weak(self, candidates: Iterable[tuple[Call, int]], of_zeros: bool) -> Iterator[tuple[Call, int]]:
        """Yields calls that were not tried yet, as long as the law is weak; those whose results are zeros only if `of_zeros`."""
        for c, draws in candidates:
            if not self.is_weak:
                break
            if c.identity not in self._tried and (of_zeros or not has_zeros_alone(c)):
                yield c, draws

    def smallest(self, p: Property, make: Make, examples: int, refused: bool, failure: Exception) -> Exception:
        """Returns the error of the body for the smallest call that fails in the same way, or `failure` where none is found. Calls are drawn
        as for the law: only those that the op accepts, unless `refused`."""
        first, origin = self.failing[-1], origin_of(failure)

        def again(c: Call) -> None:
            try:
                self(c if refused else allowed(c))
            except UnsatisfiedAssumption:
                raise
            except Exception as e:
                if origin_of(e) == origin:
                    raise
                self.failing.pop()
                raise UnsatisfiedAssumption("the law fails for another reason") from None

        try:
            search(p, make, examples, again)
        except Exception as e:
            if self.failing[-1] is not first and not isinstance(e, ExceptionGroup):  # a group: it fails at times
                return e
        self.failing.append(first)
        return failure


def has_zeros_alone(c: Call) -> bool:
    """Whether all results of a call are zeros, or have no elements, so that a comparison that allows for rounding says nothing of them."""
    try:
        node = valid_node(c)
        return node.op.kernel is not None and not any(np.any(r) for r in run_equations(c, node))
    except (AnyshapeError, UnsatisfiedAssumption):
        return False


def origin_of(e: Exception) -> tuple[type[Exception], str, int]:
    """Identifies a kind of failure by its type and the line of this package that raised it, or called what raised it."""
    lines = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(e.__traceback__) if PACKAGE in f.filename]
    return (type(e), *(lines[-1] if lines else ("", 0)))


PACKAGE = str(Path(anyshape.__file__).parent)
