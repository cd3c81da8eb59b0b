"""A refusal counts as told where its words are those of something that is really broken, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from anyshape.errors import ShapeError
from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.operands import typed
from anyshape_testing.calls.packages import register
from anyshape_testing.compare.wording import broken, is_implied, is_of, is_one, is_one_early, plain
from anyshape_testing.draw.aiming import aims
from anyshape_testing.laws.refusals import all_broken
from anyshape_testing.programs.refusals import Refused

PROPERTIES = register("anyshape_ops")
X = typed(np.zeros((2, 3), np.float32), "x")


def broken_of(op: str, inputs: list[object], **params: object) -> list[str]:
    return broken(variants(op)[0], inputs, params)[0]


def test_all_that_a_call_breaks_is_found() -> None:
    said = broken_of("reshape", [X], newshape=(-2, -1, -1))
    assert [plain(s) for s in said] == [
        "reshape: entries of newshape must be at least -1, got [-2, -1, -1]",
        "reshape: sizes are at least -1, got [-2, -1, -1]",
        "reshape: only one size may be -1, got [-2, -1, -1]",
        "reshape: cannot view 6 elements as [-2, -3, -3]",
    ]
    a, b = (typed(np.zeros(s, np.float32), "v") for s in ((2, 3), (3, 2)))
    assert broken_of("concat", [[a, b, typed(np.zeros((4, 4), np.float32), "w")]], axis=0) == [
        "concat: i of xs[1], item 0: expected 3, got 2",
        "concat: i of xs[2], item 0: expected 3, got 4",
        "concat: i of xs[2], item 0: expected 2, got 4",
    ]
    keys = [typed(np.zeros(n, np.int64), "k") for n in (1, 0)]
    words = ["look_up: n of values: expected 1, got 0", "look_up: a list of no keys"]
    assert broken_of("look_up", [keys[0], *keys, typed(np.zeros((), np.int64), "o")]) == words


def test_of_a_rule_that_does_not_come_to_its_end_more_may_be_said() -> None:
    empty = typed(np.zeros(0, np.float32), "x")
    _, whole = broken(variants("reshape_by_codes")[0], [empty], {"newshape": (-1, 0, -1)})
    assert not whole


def test_nothing_is_found_where_nothing_is_broken() -> None:
    assert broken_of("reshape", [X], newshape=(3, -1)) == []
    assert broken_of("reshape", [X], newshape="text") == []


def test_the_first_that_is_found_is_what_the_call_says() -> None:
    for op in ("reshape", "split", "slice", "concat", "tile", "gather_elements"):
        for a in aims(PROPERTIES[op], 1):
            for c in a.chosen(1):
                with pytest.raises(ShapeError) as caught:
                    static_node(c)
                assert all_broken(c)[0] == str(caught.value)
                assert any(is_of(a.refusal, s) for s in all_broken(c))


def test_words_of_an_assert_that_holds_are_not_taken() -> None:
    """The call breaks one of the op's asserts; the words of each other one are those of a wrong refusal."""
    c = Call(PROPERTIES["reshape"], {"x": np.zeros((2, 3), np.float32)}, {"newshape": (4, 2)})
    with pytest.raises(ShapeError) as caught:
        static_node(c)
    said = [str(caught.value), *all_broken(c)]
    refused = Refused(said)
    assert refused.has("dyn.reshape: cannot view 6 elements as [4, 2]", {})
    assert not refused.has("dyn.reshape: entries of newshape must be at least -1, got [4, 2]", {})
    assert not refused.has("dyn.reshape: a 0 copies a dim of x, which has only 2", {})
    assert not any(is_one("dyn.reshape: a 0 copies a dim of x, which has only 2", s) for s in said)


@pytest.mark.parametrize(
    ("message", "said", "exactly", "early"),
    [
        ("dyn.pad: too much", "static.pad: too much", True, True),
        ("pad: too much: 3 of 2", "pad: too much", True, True),
        ("dyn.reshape: cannot view n*m elements as [k]", "reshape: cannot view 272 elements as [5]", False, True),
        ("reshape: cannot view 12 elements", "reshape: cannot view 13 elements", False, False),
        ("add: [n, 2] against it", "add: [7, 2] against it", False, True),
        ("concat: o of xs1: expected 3, got 2", "concat: o of xs1: expected 2, got 3", False, True),
        ("concat: o of xs2: expected 3, got 2", "concat: o of xs1: expected 2, got n", False, True),
        ("concat: i of xs2: expected 3, got 2", "concat: o of xs1: expected 3, got 2", False, False),
        ("stack: o of xs2: expected 3, got 2", "concat: o of xs1: expected 3, got 2", False, False),
        ("gather: index is out of range for 3 items", "index 7 is out of range for 3 items", False, True),
        ("split: too much", "pad: too much", False, False),
    ],
)
def test_what_one_refusal_is(message: str, said: str, exactly: bool, early: bool) -> None:
    assert (is_one(message, said), is_one_early(message, said)) == (exactly, early)


@pytest.mark.parametrize(
    ("message", "sizes", "implied"),
    [
        ("links: e of target: expected unique.shape[0], got 1 (p == q does not hold: p = 0, q = 1)", {"p": 0, "q": 1}, True),
        ("links: e of target: expected unique.shape[0], got 1 (p == q does not hold: p = 0, q = 1)", {"p": 1, "q": 1}, False),
        ("links: e of target: expected unique.shape[0], got 1 (p == q does not hold: p = 0, q = 1)", {"q": 1}, False),
        ("links: e of target: expected unique.shape[0], got 1", {"p": 0, "q": 1}, False),
        ("links: too many targets (p == q does not hold: p = 0, q = 1)", {"p": 0, "q": 1}, False),
        ("roots: e of target: expected unique.shape[0], got 1 (p == q does not hold: p = 0, q = 1)", {"p": 0, "q": 1}, False),
    ],
)  # fmt: skip
def test_an_equality_that_follows_from_those_of_a_call(message: str, sizes: dict[str, int], implied: bool) -> None:
    assert is_implied(message, "links: m of leaf: expected 1, got 0", sizes) == implied
