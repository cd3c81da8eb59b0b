"""A second solver agrees with what the prover proved; it refuses wrong claims, lets right ones pass, and says where it does not know."""

# ruff: noqa: E402  modules that need z3 are imported once it is known to be there
from __future__ import annotations

import itertools

import pytest

z3 = pytest.importorskip("z3")

from anyshape import dims
from anyshape.dims import Dim, Size, symbol
from anyshape_gen.analysis import analyse
from anyshape_gen.bounds import prove
from anyshape_gen.bounds.check_op import How, verdicts
from anyshape_gen.bounds.terms import Claim, Literal, Truth
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_testing.proofs.judge import Answer, judge
from anyshape_testing.proofs.of_ops import claims_of, judge_claims, judge_op, totals
from anyshape_testing.proofs.translation import Translation
from tests.specs import all_specs

EVERY = 7
"""One op of so many is judged here; `make test-long` judges all, by `python -m anyshape_testing.proofs`."""


def sample() -> list[OpAnalysis]:
    with_kernels = [a for a in sorted(all_specs().ops, key=lambda a: a.spec.name) if a.kernel is not None]
    return with_kernels[::EVERY]


def test_the_second_solver_agrees_on_a_sample_of_ops() -> None:
    judgements = [judge_op(a) for a in sample()]
    *notes, counts = totals(judgements)
    assert all(j.holds for j in judgements), "\n".join([*notes, counts])
    assert sum(j.answers[Answer.TRUE] for j in judgements) > 400, counts
    assert not any(j.answers[Answer.UNKNOWN] for j in judgements), "\n".join(notes)


def test_the_negation_of_each_claim_of_the_sample_is_refused() -> None:
    """Tries what facts cannot imply beside a claim that they imply: a judge that agrees with everything is noticed on the same claims."""
    tried = 0
    for claim in itertools.chain.from_iterable(map(claims_of, sample())):
        match claim.literals:
            case (Literal(p=p, zero=False),):
                tried += 1
                assert judge(Claim((Literal(-p - 1),), claim.facts)).answer is Answer.FALSE, (p, claim.facts)
    assert tried > 400


n, m, any_n, any_m = symbol("n"), symbol("m"), symbol("x", None), symbol("y", None)
RIGHT: list[tuple[Size, list[Truth]]] = [
    (n, []),
    (n - 1, [dims.ge(n, 1)]),
    (m - any_n - 1, [dims.lt(any_n, m)]),
    (n - dims.floordiv(n, 2) * 2, []),
    (m - 1 - dims.mod(any_n, m), [dims.ge(m, 1)]),
    (n * m, []),
    (dims.minimum(any_n, any_m) - 3, [dims.ge(any_n, 3), dims.ge(any_m, 4)]),
    (dims.select(dims.lt(any_n, 0), -any_n, any_n), []),
    (dims.bcast(n, m) - 2, [dims.ge(n, 2), dims.ge(m, 2)]),
]
WRONG: list[tuple[Size, list[Truth]]] = [
    (n - 1, []),
    (any_n, []),
    (m - any_n - 1, [dims.le(any_n, m)]),
    (2 * dims.floordiv(n, 2) - n, []),
    (dims.mod(any_n, any_m), [dims.ne(any_m, 0)]),
    (n * any_n, [dims.ge(any_n, -1)]),
    (dims.minimum(any_n, any_m) - 3, [dims.ge(any_n, 3)]),
    (dims.select(dims.lt(any_n, 0), any_n, -any_n), []),
    (dims.bcast(n, m) - 2, [dims.ge(n, 2)]),
]


@pytest.mark.parametrize(("p", "facts"), RIGHT)
def test_a_right_claim_passes(p: Size, facts: list[Truth]) -> None:
    assert judge(Claim((Literal(p),), tuple(facts))).answer is Answer.TRUE


@pytest.mark.parametrize(("p", "facts"), WRONG)
def test_a_wrong_claim_is_refused_with_numbers_that_refute_it(p: Size, facts: list[Truth]) -> None:
    judgement = judge(Claim((Literal(p),), tuple(facts)))
    assert judgement.answer is Answer.FALSE
    assert dims.evaluate(p, judgement.values) < 0
    assert all(dims.evaluate(c, judgement.values) for c in facts)


def test_one_of_several_literals_is_enough_and_equality_is_no_inequality() -> None:
    either = (Literal(n - 1, True), Literal(m - 1))
    assert judge(Claim(either, (dims.or_(dims.eq(n, 1), dims.ge(m, 1)),))).answer is Answer.TRUE
    assert judge(Claim(either[:1], (dims.ge(n, 1),))).answer is Answer.FALSE


def test_what_the_solver_does_not_decide_in_time_is_counted_and_named() -> None:
    """Fermat's theorem for cubes takes more than arithmetic."""
    a, b, c = (symbol(name, 1) for name in "abc")
    claims = [
        Claim((Literal(a * a * a + b * b * b - c * c * c - 1), Literal(c * c * c - a * a * a - b * b * b - 1)), ())
    ]
    judgement = judge_claims("cubes", claims, limit=100_000)
    assert judgement.answers == {Answer.UNKNOWN: 1} and judgement.holds
    assert judgement.notes[0].startswith("cubes: ") and judgement.notes[0].endswith(": unknown")


def test_facts_that_contradict_each_other_are_no_proof() -> None:
    facts: tuple[Truth, ...] = (dims.ge(any_n, 1), dims.lt(any_n, m), dims.lt(m, 2))
    judgement = judge_claims("nothing", [Claim((Literal(-n - 1),), facts)])
    assert not judgement.holds and judgement.contradictory == 1
    assert "the facts contradict each other" in judgement.notes[0]


TERMS: list[Size] = [
    dims.floordiv(any_n, any_m),
    dims.mod(any_n, any_m),
    dims.minimum(any_n, any_m, 2),
    dims.maximum(any_n, any_m, -2),
    dims.bcast(any_n, any_m),
    dims.select(dims.and_(dims.eq(any_n, 1), dims.not_(dims.eq(any_m, 2))), any_n * any_m - 3, any_m * any_m),
    dims.select(dims.or_(dims.ge(any_n, 2), dims.eq(any_m, 0)), 7, dims.floordiv(any_m, 2) - any_n),
]


@pytest.mark.parametrize("e", TERMS)
def test_a_translated_term_has_the_values_that_dims_give_it(e: Dim) -> None:
    """Zero and negative divisors among them."""
    terms = Translation()
    translated = terms.size(e)
    for x, y in itertools.product(range(-4, 5), repeat=2):
        values = {any_n: x, any_m: y}
        at = [(unknown, z3.IntVal(values[s])) for s, unknown in terms.symbols.items()]
        assert z3.simplify(z3.substitute(translated, at)).as_long() == dims.evaluate(e, values), (x, y)


BEYOND = """ops:
  an_op:
    summary: An op.
    reference: x
    inputs: {x: "T[n]"}
    outputs: {y: "T[n]"}
    kernel: |
      y[i] = x[i + 1]
"""


def test_a_prover_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    a = analyse({"specs/m.yaml": BEYOND}, complete=False).op("an_op")
    assert [v.how for v in verdicts(a)] == [How.STRUCTURAL, How.UNKNOWN] and judge_op(a).holds
    monkeypatch.setattr(prove, "contradictory", lambda *_, **__: True)
    assert [v.how for v in verdicts(a)] == [How.STRUCTURAL, How.LINEAR]
    judgement = judge_op(a)
    assert not judgement.holds and judgement.answers[Answer.FALSE] == 1, judgement
