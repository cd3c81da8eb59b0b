"""The law of exported ops: a few ops, chosen by a hash of their names, and all of them in long runs."""

from __future__ import annotations

import pytest

from anyshape_testing.calls.packages import register
from anyshape_testing.laws.exported_ops import ONE_OF, RUNS_HERE, Outcome, first_example, is_sampled, refuses_alike
from anyshape_testing.process.profile import LONG
from tests.export.refused_page import BEGIN, END, PAGE, written

OPS = register("anyshape_ops")
SAMPLED = [n for n, p in OPS.items() if is_sampled(n) and any(e.error is None for e in p.examples)]
WRONG = [n for n, p in OPS.items() if is_sampled(n) and any(e.error is not None for e in p.examples)]

pytestmark = pytest.mark.skipif(not RUNS_HERE, reason="there is no target for processors like this one")


@pytest.mark.parametrize("op", SAMPLED)
def test_an_exported_op_gives_what_its_reference_gives(op: str) -> None:
    outcome = first_example(op)
    assert bool(outcome.refused) == (op in listed_as_refused()), outcome


@pytest.mark.parametrize("op", WRONG)
def test_an_exported_op_refuses_in_the_words_of_python(op: str) -> None:
    refuses_alike(op, next(e for e in OPS[op].examples if e.error is not None))


def listed_as_refused() -> set[str]:
    """The ops that docs/export.md lists."""
    rows = PAGE.read_text().split(BEGIN)[1].split(END)[0].splitlines()
    listed = {op for row in rows if row.startswith("| ") for op in row.split("|")[1].strip().split(", ")}
    return listed - {"refused"}


def test_the_list_of_refused_ops_is_written_from_outcomes() -> None:
    page = f"before\n{BEGIN}old\n{END}\nafter\n"
    rows = [Outcome("a"), Outcome("b", "no | memory"), Outcome("c", "no | memory"), Outcome("d", symbolic=False)]
    text = written(page, rows)
    assert (
        "Of 4 ops, 2 are exported" in text
        and "| b, c | no \\| memory |" in text
        and "alone, since their rank depends on a dim: d." in text
    )
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text


def test_the_page_counts_the_ops_that_there_are() -> None:
    examples = [n for n, p in OPS.items() if any(e.error is None for e in p.examples)]
    assert f"\nOf {len(examples)} ops, {len(examples) - len(listed_as_refused())} are exported" in PAGE.read_text()


@pytest.mark.parametrize(("op", "said"), [("fresh_seed", "give it a seed")])
def test_a_refusal_says_what_to_do(op: str, said: str) -> None:
    assert said in first_example(op).refused


def test_messages_are_compared_for_some_op() -> None:
    """The law of refusals is not empty: this one is built, and refused by its sizes."""
    e = next(e for e in OPS["topk"].examples if e.error is not None)
    assert "k = 3 of 2 elements along axis 0" in refuses_alike("topk", e)


def test_the_sample_is_a_small_part() -> None:
    assert LONG or len(SAMPLED) < 3 * len(OPS) / ONE_OF
