"""Verdicts on the obligations of one op.

In: an analysed op. Out: a `Verdict` for each obligation: how it was proved, that it is checked when the kernel runs, or that
neither is known yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from anyshape.dims import Cond
from anyshape_gen.analysis_model import OpAnalysis
from anyshape_gen.bounds.obligations import Obligation, Obligations
from anyshape_gen.bounds.prove import Proof, Truth, prove


class How(StrEnum):
    """The state of one obligation."""

    STRUCTURAL = "structural"
    LINEAR = "linear"
    CASES = "cases"
    CHECKED = "checked"
    """data: the index is tested when the kernel runs"""
    UNKNOWN = "unknown"
    """neither proved nor refuted: tested when the kernel runs"""


PROOFS = {Proof.STRUCTURAL: How.STRUCTURAL, Proof.LINEAR: How.LINEAR, Proof.CASES: How.CASES}


@dataclass(frozen=True)
class Verdict:
    obligation: Obligation
    how: How
    data: bool
    """whether what was read decides the index"""


def verdicts(analysis: OpAnalysis) -> list[Verdict]:
    owner = Obligations(analysis)
    return [_verdict(owner, o) for o in owner.collect()]


def _verdict(owner: Obligations, o: Obligation) -> Verdict:
    context = owner.context
    worst = Proof.STRUCTURAL
    for goal in o.goals:
        how = _proof(owner, o, goal)
        if how is None:
            data = _reads_data(owner, o)
            return Verdict(o, How.CHECKED if data else How.UNKNOWN, data)
        worst = max(worst, how)
    symbols = {a for g in o.goals if isinstance(g, Cond) for a in g.symbols}
    if symbols & context.checked:
        return Verdict(o, How.CHECKED, True)
    return Verdict(o, PROOFS[worst], _reads_data(owner, o))


def _proof(owner: Obligations, o: Obligation, goal: Truth) -> Proof | None:
    if goal is True:
        return Proof.STRUCTURAL
    if not o.modelled:
        return None
    groups = owner.context.about([goal, *o.given], o.scope, o.value)
    return prove(goal, [[*o.given, *groups[0]], *groups[1:]])


def _reads_data(owner: Obligations, o: Obligation) -> bool:
    return any(isinstance(g, Cond) and not g.symbols.isdisjoint(owner.context.data) for g in o.goals)
