"""Judges the obligations of one op.

In: an analysed op. Out: a `Verdict` for each obligation: how it was proved, that it is checked when the kernel runs, or that
it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from anyshape.dims import Cond, Dim, Size
from anyshape_gen.bounds.obligations import Obligation, Obligations, access_numbers, unmodelled
from anyshape_gen.bounds.prove import Proof, attempt
from anyshape_gen.bounds.terms import NO_TERMS, Claim, Truth
from anyshape_gen.model.analysis import OpAnalysis


class How(StrEnum):
    """The state of one obligation."""

    STRUCTURAL = "structural"
    LINEAR = "linear"
    CASES = "cases"
    CHECKED = "checked"
    """data: the index is tested when the kernel runs"""
    UNKNOWN = "unknown"
    """a read that is neither proved nor refuted, and tested when the kernel runs"""


PROOFS = {Proof.STRUCTURAL: How.STRUCTURAL, Proof.LINEAR: How.LINEAR, Proof.CASES: How.CASES}


@dataclass(frozen=True)
class Verdict:
    obligation: Obligation
    how: How
    data: bool
    """whether the index depends on elements that are read"""
    why: str = ""
    """the goal that is not proved, and what stopped its proof"""
    lazy: bool = False
    """whether it is in bounds, or is tested, only where operands left of it in an `and` or `or` leave the result open"""


def verdicts(analysis: OpAnalysis, claims: list[Claim] | None = None) -> list[Verdict]:
    """Judges all indices of an op. What was proved is added to `claims`."""
    if analysis.kernel is None:
        return []
    try:
        owner = Obligations(analysis)
        asked = owner.collect()
    except NO_TERMS as e:  # all indices of the op are unknown
        asked = unmodelled(analysis.kernel, access_numbers(analysis.kernel), str(e))
        return [Verdict(o, How.UNKNOWN, False, f"{_claim(o, 0)}: {o.unmodelled}") for o in asked]
    judged = [_verdict(owner, o) for o in asked]
    if claims is not None:
        claims += owner.context.claims
    return judged


def _verdict(owner: Obligations, o: Obligation) -> Verdict:
    """Returns the verdict on an index wherever it stands; where there is none, that on the index as a part of an operand that is evaluated
    lazily."""
    plain = _verdict_of(owner, o)
    if not o.lazily or plain.how not in (How.CHECKED, How.UNKNOWN):
        return plain
    return replace(_verdict_of(owner, replace(o, hypotheses=(*o.hypotheses, *o.lazily))), lazy=True)


def _verdict_of(owner: Obligations, o: Obligation) -> Verdict:
    context = owner.context
    worst = Proof.STRUCTURAL
    left: list[str] = []
    for number, goal in enumerate(o.goals):
        how, why = _proof(owner, o, number, goal)
        if how is None:
            left.append(f"{_claim(o, number)}: {why}")
        else:
            worst = max(worst, how)
    if left:
        data = _reads_data(owner, o)
        return Verdict(o, How.CHECKED if data else How.UNKNOWN, data, "" if data else "; ".join(left))
    symbols = {a for g in o.goals if isinstance(g, Cond) for a in g.symbols}
    if symbols & context.checked:
        return Verdict(o, How.CHECKED, True)
    return Verdict(o, PROOFS[worst], _reads_data(owner, o))


def _claim(o: Obligation, goal: int) -> str:
    """Words a goal of the obligation."""
    if o.unmodelled:
        return "within its dim"
    return "as many indices as dims" if o.rank else ("at least 0", "below its dim")[goal]


def _proof(owner: Obligations, o: Obligation, number: int, goal: Truth) -> tuple[Proof | None, str]:
    """Returns how a goal is proved, or what stopped its proof."""
    if goal is True:
        owner.context.claims.append(Claim(o.claims[number], ()))
        return Proof.STRUCTURAL, ""
    if o.unmodelled:
        return None, o.unmodelled
    try:
        groups = owner.context.about([goal, *o.hypotheses], o.scope, o.value)
        outcome = attempt(goal, [[*o.hypotheses, *groups[0]], *groups[1:]])
    except NO_TERMS as e:
        return None, str(e)
    if outcome.how is not None:
        owner.context.claims.append(Claim(o.claims[number], outcome.facts))
        return outcome.how, ""
    if outcome.limited:
        return None, "the search ended at its limit"
    if isinstance(goal, Cond) and any(_multiplies(p) for p in _sizes(goal)):
        return None, "it has products of unknown sizes, which linear facts do not decide"
    return None, "it does not follow from the signature and the asserts"


def _sizes(c: Cond) -> list[Size]:
    return [p for part in c.args for p in (_sizes(part) if isinstance(part, Cond) else [part])]


def _multiplies(p: Size) -> bool:
    """Whether symbols are multiplied in a size, at any depth."""
    if not isinstance(p, Dim):
        return False
    atoms = [a for monomial, _ in p.terms for a in monomial]
    inner = [q for a in atoms for q in a.args if isinstance(q, Dim)]
    return any(len(monomial) > 1 for monomial, _ in p.terms) or any(map(_multiplies, inner))


def _reads_data(owner: Obligations, o: Obligation) -> bool:
    return any(isinstance(g, Cond) and not g.symbols.isdisjoint(owner.context.data) for g in o.goals)
