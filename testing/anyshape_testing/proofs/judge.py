"""Judges one claim by z3: whether one of its literals holds for all integers that satisfy its facts.

In: a claim of the prover, and the most work of a query. Out: a `Judgement`; `UNKNOWN` says nothing about the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import z3

from anyshape.dims import Dim
from anyshape_gen.bounds.terms import Claim
from anyshape_testing.proofs.translation import Translation

LIMIT = 5_000_000
"""What z3 counts of its own work in one query, about a second: answers are the same however busy the machine is"""
SECONDS = 120
"""The longest that a query may take whatever it counts"""


class Answer(StrEnum):
    """What z3 answers to a claim."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Judgement:
    """An answer; of a claim that is false, the integers that refute it."""

    answer: Answer
    values: Mapping[Dim, int] = field(default_factory=dict)


def judge(claim: Claim, limit: int = LIMIT, terms: Translation | None = None) -> Judgement:
    """Searches for integers that satisfy all facts, and no literal of the claim. `terms`: another translation than the usual one."""
    terms, solver = terms or Translation(), z3.Solver()
    solver.set("rlimit", limit)
    solver.set("timeout", 1000 * SECONDS)
    solver.add([terms.truth(c) for c in claim.facts])
    solver.add([z3.Or([terms.literal(part) for part in clause]) for clause in claim.clauses])
    solver.add([z3.Not(terms.literal(part)) for part in claim.literals])
    solver.add(terms.bounds)
    answer = solver.check()
    if answer == z3.unsat:
        return Judgement(Answer.TRUE)
    if answer == z3.unknown:
        return Judgement(Answer.UNKNOWN)
    model = solver.model()
    values = {s: model.eval(unknown, model_completion=True).as_long() for s, unknown in terms.symbols.items()}
    return Judgement(Answer.FALSE, values)
