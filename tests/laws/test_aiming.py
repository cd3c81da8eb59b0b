"""The search for calls that an assert refuses finds them, and says so where there are none."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import pytest

from anyshape.properties import Refusal
from anyshape_testing.calls.packages import register
from anyshape_testing.draw.aiming import aims, refused
from anyshape_testing.laws import refusals
from anyshape_testing.laws.refusals import refused_by

PROPERTIES = register("anyshape_ops")


def test_a_call_is_found_for_each_assert_from_valid_calls_alone() -> None:
    p = replace(PROPERTIES["split"], examples=())
    aimed = aims(p, 2)
    assert len(aimed) == 3
    for a in aimed:
        assert a.chosen(2) and all(refused(c) is not None for c in a.chosen(2)), a.refusal.message


def test_a_call_that_breaks_an_assert_alone_comes_first() -> None:
    """A negative size breaks two asserts of a split at once: sizes no longer sum to the dim. A wrong sum breaks one."""
    _, negative, total = aims(replace(PROPERTIES["split"], examples=()), 2)
    assert "negative" in negative.refusal.message and negative.mixed and not negative.drawn
    assert "sum" in total.refusal.message and total.drawn and total.chosen(2)[0] is total.drawn[0]


def test_an_example_of_an_error_serves_where_no_draw_does() -> None:
    aimed = aims(replace(PROPERTIES["gather_elements"]), 1)
    assert all(a.near for a in aimed)


def test_nothing_is_found_for_an_assert_that_always_holds() -> None:
    never = Refusal("this is never said", "specs/nowhere.yaml:1")
    (aim,) = aims(replace(PROPERTIES["reshape"], asserts=(never,)), 1)
    assert not aim.chosen(2)


def test_words_of_another_assert_do_not_count() -> None:
    first, second = PROPERTIES["split"].asserts[:2]
    (aim,) = aims(replace(PROPERTIES["split"], asserts=(first,)), 1)
    with pytest.raises(AssertionError, match="does not say so of numbers"):
        refused_by(aim.chosen(1)[0], second)


def test_what_a_failing_assert_prints_fails_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(call: Any, refusal: Any) -> None:
        raise AssertionError("wrong on purpose")

    monkeypatch.setattr(refusals, "refused_by", wrong)
    with pytest.raises(AssertionError, match="wrong on purpose") as failed:
        refusals.test_asserts("reshape", lambda key, value: None)
    said, _, script = str(failed.value).partition("again:\n")
    assert "law 6 of reshape, specs/movement.yaml:" in said and "shapes {'x': (" in said and "seed" in said
    with pytest.raises(AssertionError, match="wrong on purpose"):
        exec(textwrap.dedent(script), {})
    monkeypatch.undo()
    exec(textwrap.dedent(script), {})
