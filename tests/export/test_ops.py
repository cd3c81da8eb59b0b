"""The law of exported ops: a few ops, chosen by a hash of their names, and all of them in long runs."""

from __future__ import annotations

from collections import Counter

import pytest

from anyshape.errors import UnsupportedError
from anyshape_testing.export_law import ONE_OF, RUNS_HERE, first_example, is_sampled, refuses_alike
from anyshape_testing.profile import WIDE
from anyshape_testing.running import register

OPS = register("anyshape_ops")
SAMPLED = [n for n, p in OPS.items() if is_sampled(n) and any(e.error is None for e in p.examples)]
WRONG = [n for n, p in OPS.items() if is_sampled(n) and any(e.error is not None for e in p.examples)]

pytestmark = pytest.mark.skipif(not RUNS_HERE, reason="there is no target for processors like this one")


@pytest.mark.parametrize("op", SAMPLED)
def test_an_exported_op_gives_what_its_reference_gives(op: str) -> None:
    outcome = first_example(op)
    assert not outcome.refused or op in REFUSED, outcome


@pytest.mark.parametrize("op", WRONG)
def test_an_exported_op_refuses_in_the_words_of_python(op: str) -> None:
    refuses_alike(op, next(e for e in OPS[op].examples if e.error is not None))


REFUSED = {"fresh_seed", "det"}
"""Ops that are refused, with what each is told."""


@pytest.mark.parametrize(("op", "said"), [("fresh_seed", "give it a seed")])
def test_a_refusal_says_what_to_do(op: str, said: str) -> None:
    assert said in first_example(op).refused


def test_messages_are_compared_for_some_op() -> None:
    """The law of refusals is not empty: this one is refused when it runs, by an element."""
    e = next(e for e in OPS["gather"].examples if e.error is not None)
    assert "out of range" in refuses_alike("gather", e)


def test_the_sample_is_a_small_part() -> None:
    assert WIDE or len(SAMPLED) < 3 * len(OPS) / ONE_OF
    assert Counter(SAMPLED).most_common(1)[0][1] == 1
    assert issubclass(UnsupportedError, Exception)
