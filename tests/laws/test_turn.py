"""A law whose turn is over has had its first call, and says that it was one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from anyshape.testing import turn
from anyshape.testing.laws import test_interpreter_is_reference as law_of_interpreter
from anyshape.testing.profile import load_profile, usual
from anyshape.testing.quick import Crew, all_hold, checks, shares
from anyshape.testing.refusals import test_asserts as law_of_asserts
from anyshape.testing.running import register


@pytest.fixture(autouse=True)
def other_calls() -> Iterator[None]:
    """Not as many as other tests have, which would find these few."""
    register("anyshape_ops")
    load_profile(9)
    yield
    turn.begin()
    load_profile(usual())


def test_calls_end_with_the_turn() -> None:
    said: dict[str, int] = {}
    turn.begin(0)
    law_of_interpreter("mod", said.__setitem__)
    assert said["accepted"] == 1
    load_profile(8)
    turn.begin()
    law_of_interpreter("mod", said.__setitem__)
    assert said["accepted"] >= 8


def test_asserts_end_with_the_turn() -> None:
    said: dict[str, int] = {}
    turn.begin(0)
    law_of_asserts("conv", said.__setitem__)
    assert said["drawn"] == 1


def test_parts_of_a_round_add_up_to_it() -> None:
    """Were every law to take its whole turn, one process would end in time, and several would, too."""
    work = shares(checks("anyshape_ops", "conv"), 1)
    crew = Crew(work, (), 1, 6.0)
    left = 6.0
    for share, laws in enumerate(work):
        for k in range(len(laws)):
            part = crew._turn(share, k, left)
            assert 0 < part <= left
            left -= part
    assert left == pytest.approx(0)


def test_an_op_of_many_programs_is_told_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    assert all_hold("anyshape_ops", "linear_attention", (1000,), 2, seconds=0.5)
    assert "up to 1000 calls each" in capfd.readouterr().out
    assert time.monotonic() - start < 60  # a thousand calls of each law take minutes
