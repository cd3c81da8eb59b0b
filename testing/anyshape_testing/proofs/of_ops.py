"""Claims of the ops of a folder of specs, and what a second solver says of them.

In: specs. Out: per op the number of claims by answer, and the text of each that is not true. Claims are collected by proving the op anew,
since records hold verdicts only. Facts that contradict each other would prove anything: that they do not is judged, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from anyshape.dims import exact_text
from anyshape_gen.bounds.check_op import verdicts
from anyshape_gen.bounds.terms import Claim, Truth
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_testing.proofs.judge import LIMIT, Answer, Judgement, judge


@dataclass(frozen=True)
class OpJudgement:
    """The answers to the claims of one op. `notes`: each claim that is false or unknown, each set of facts that contradict each other."""

    op: str
    answers: Counter[Answer] = field(default_factory=Counter)
    contradictory: int = 0
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.answers[Answer.FALSE] and not self.contradictory


def claims_of(analysis: OpAnalysis) -> list[Claim]:
    """Proves the indices of an op; what was proved, each claim once."""
    claims: list[Claim] = []
    verdicts(analysis, claims)
    return list(dict.fromkeys(claims))


def judge_op(analysis: OpAnalysis, limit: int = LIMIT) -> OpJudgement:
    return judge_claims(analysis.spec.name, claims_of(analysis), limit)


def judge_claims(op: str, claims: Sequence[Claim], limit: int = LIMIT) -> OpJudgement:
    answers, contradictory, notes = Counter[Answer](), 0, list[str]()
    for facts, group in groupby(claims, lambda c: c.facts):
        if facts and judge(Claim((), facts), limit).answer is Answer.TRUE:
            contradictory += 1
            notes.append(f"{op}: the facts contradict each other: {_facts(facts)}")
        for claim in group:
            judgement = judge(claim, limit)
            answers[judgement.answer] += 1
            if judgement.answer is not Answer.TRUE:
                notes.append(f"{op}: {text_of(claim)}: {_answer(judgement)}")
    return OpJudgement(op, answers, contradictory, tuple(notes))


def text_of(claim: Claim) -> str:
    parts = [f"{exact_text(p.p)} {'==' if p.zero else '>='} 0" for p in claim.literals]
    return f"{' or '.join(parts)} where {_facts(claim.facts)}"


def _facts(facts: Sequence[Truth]) -> str:
    return " and ".join(exact_text(f) for f in facts) or "nothing is known"


def _answer(j: Judgement) -> str:
    values = ", ".join(f"{exact_text(s)} = {n}" for s, n in j.values.items())
    return f"{j.answer}{f', for {values}' if values else ''}"


def totals(judgements: Sequence[OpJudgement]) -> Iterator[str]:
    """Lines for people: what is not true by name, and the numbers."""
    answers = Counter[Answer]()
    for j in judgements:
        answers += j.answers
        yield from j.notes
    counts = ", ".join(f"{answers[a]:,} {a}" for a in Answer)
    contradictory = sum(j.contradictory for j in judgements)
    yield f"{len(judgements)} ops, {answers.total():,} claims: {counts}; {contradictory} sets of facts that contradict each other"
