"""A law whose time is over has had its first call, and says that it was one; where time is limited, no kernel is compiled for a call that
types refuse."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis.errors import FlakyFailure

import anyshape
from anyshape.properties import Property
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.packages import register
from anyshape_testing.draw import corpus
from anyshape_testing.draw.aiming import aims
from anyshape_testing.draw.random_call import random_call
from anyshape_testing.laws.agreement import test_interpreter_is_reference as law_of_interpreter
from anyshape_testing.laws.examples import test_example as law_of_examples
from anyshape_testing.laws.refusals import AIMED
from anyshape_testing.laws.refusals import test_asserts as law_of_asserts
from anyshape_testing.process import time_budget
from anyshape_testing.process.profile import load_profile, usual
from anyshape_testing.quick import Crew, all_hold, checks, shares
from anyshape_testing.running.accounting import WeakLaw
from anyshape_testing.running.random_calls import on_random_calls
from anyshape_testing.running.trying import Tried


@pytest.fixture(autouse=True)
def other_calls() -> Iterator[None]:
    """Draws fewer calls than other tests do, which would find these few."""
    register("anyshape_ops")
    load_profile(9)
    yield
    time_budget.begin()
    load_profile(usual())


def test_calls_end_with_the_time_budget() -> None:
    said: dict[str, int] = {}
    time_budget.begin(0)
    law_of_interpreter("mod", said.__setitem__)
    assert said["accepted"] == 1
    load_profile(8)
    time_budget.begin()
    law_of_interpreter("mod", said.__setitem__)
    assert said["accepted"] >= 8


def test_asserts_end_with_the_time_budget() -> None:
    said: dict[str, int] = {}
    time_budget.begin(0)
    law_of_asserts("conv", said.__setitem__)
    assert 0 < said["drawn"] <= AIMED


def test_drawing_ends_with_the_time_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn to find a smaller call for which there is no time, either."""
    drawn: list[Call] = []

    def counted(p: Property, draw: Any) -> Call:
        drawn.append(random_call(p, draw))
        return drawn[-1]

    for module in ("corpus", "aiming"):
        monkeypatch.setattr(f"anyshape_testing.draw.{module}.random_call", counted)
    p = register("anyshape_ops")["add"]
    time_budget.begin(0)
    assert len(corpus.corpus(p, 50).valid) == 1 and len(drawn) < 10
    drawn.clear()
    aims(p, 1)
    assert 0 < len(drawn) < 10
    time_budget.begin()
    drawn.clear()
    assert len(corpus.corpus(p, 51).valid) == 51 <= len(drawn)


@pytest.mark.parametrize(("op", "seconds"), [("add", 0), ("sub", math.inf)])
def test_a_law_whose_draws_ended_with_its_time_is_short_and_one_that_had_all_is_weak(op: str, seconds: float) -> None:
    """A law can have too little to say of ten calls, with which drawing may end, without being at fault."""
    said: dict[str, Any] = {}
    few = iter(range(1000))
    time_budget.begin(seconds, 60)
    with nullcontext() if seconds == 0 else pytest.raises(WeakLaw):
        on_random_calls(op, "1a of few calls", said.__setitem__, lambda c: next(few) < 3)
    assert 0 < said["accepted"] < said["required"]


def test_a_failure_outlives_the_time_budget() -> None:
    """The test library looks for a smaller call when there is no time left: none is found, and that one failed is told all the same."""

    def fails(c: Call) -> None:
        time_budget.begin(0)
        raise ValueError("fails")

    law = Tried(fails)
    law.accepted = 1
    time_budget.begin(60)
    with pytest.raises((ValueError, FlakyFailure)):
        corpus.search(register("anyshape_ops")["add"], random_call, 20, law)
    assert law.failing


@pytest.mark.parametrize(
    ("op", "error", "seconds", "kernels"),
    [
        ("reshape", "only one size", math.inf, "native"),
        ("reshape", "only one size", 60, "interpret"),
        ("tree_walks", "a child is not one", 60, "native"),  # which is read in a tensor
    ],
)
def test_who_waits_has_no_kernels_made_to_refuse_what_types_refuse(
    op: str, error: str, seconds: float, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def compile(f: Any, **options: Any) -> Any:
        asked.append(options["kernels"])
        return compiled(f, **options)

    compiled = anyshape.compile
    monkeypatch.setattr(anyshape, "compile", compile)
    time_budget.begin(seconds)
    (example, *_) = [e for e in register("anyshape_ops")[op].examples if error in (e.error or "")]
    law_of_examples((op, example))
    assert asked == [kernels]


def test_parts_of_a_round_add_up_to_it() -> None:
    """One process would end in time if every law took all of its time, and several would, too."""
    work = shares(checks("anyshape_ops", "conv"), 1)
    crew = Crew(work, (), 1, 6.0)
    left = 6.0
    for share, laws in enumerate(work):
        for k in range(len(laws)):
            part = crew._budget(share, k, left)
            assert 0 < part <= left
            left -= part
    assert left == pytest.approx(0)


def test_an_op_of_many_programs_is_reported_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    assert all_hold("anyshape_ops", "linear_attention", (1000,), 2, seconds=0.5)
    assert "up to 1000 calls each" in capfd.readouterr().out
    assert time.monotonic() - start < 60  # a thousand calls of each law take minutes
