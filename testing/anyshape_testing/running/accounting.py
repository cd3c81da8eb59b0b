"""Decides whether a law was tried on enough calls to be said to hold.

In: the counts of a law on one op. Out: a record of them, or an error. A law holds of an op where it accepted LEAST different calls, or all
that it was allowed or that exist; with fewer it is weak, and fails, unless the op's spec gives a reason (`weak: {7b: reason}`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyshape.graph.opdef import OpDef
from anyshape_testing.process.profile import LEAST

Record = Callable[[str, object], None]


@dataclass(frozen=True)
class Tally:
    """The counts of a law on one op."""

    law: str
    """the number of the law and what it says: `1b kernel == interpreter`"""
    op: str
    drawn: int
    """calls that were drawn for it, with those that the rule refused"""
    accepted: int
    """different calls for which it had something to compare, and held"""
    required: int
    """the number of accepted calls that the law needs: LEAST, unless it was allowed fewer or fewer exist"""
    cut_short: bool = False
    """whether the law ended because its time was over"""
    listed: bool = False
    """whether its calls are a fixed list, whatever number is allowed: a single accepted call makes a reason for none stale"""

    @property
    def number(self) -> str:
        return self.law.split()[0]

    @property
    def is_weak(self) -> bool:
        return self.accepted < self.required

    def __str__(self) -> str:
        return f"{self.accepted} calls of {self.drawn} drawn"


class WeakLaw(AssertionError):
    """A law that accepted too few calls, or that accepted enough although its spec calls it weak."""


def required_calls(allowed: float, possible: float = math.inf, least: int = LEAST) -> int:
    """Returns how many different calls a law has to accept that may try `allowed` calls of an op with `possible` different ones."""
    return int(min(allowed, possible, least))


def settle(tally: Tally, reasons: Mapping[str, str], record: Record, source: str = "") -> None:
    """Records the counts. Raises WeakLaw where the law is weak, had the time, and the spec gives no reason, and where the spec gives a
    reason for a law that is not weak."""
    reason = reasons.get(tally.number)
    said = {
        "law": tally.law,
        "op": tally.op,
        "drawn": tally.drawn,
        "accepted": tally.accepted,
        "required": tally.required,
    }
    if reason is not None:
        said["weak"] = reason
    for key, value in said.items():
        record(key, value)
    where = f"law {tally.law} of {tally.op}" + (f" ({source})" if source else "")
    if tally.is_weak and reason is None and not tally.cut_short:
        raise WeakLaw(
            f"{where} is weak: {tally}, required {tally.required}. Let draws meet what refuses them "
            f"(python -m anyshape_testing.draw_report {tally.op}), or give the reason in the spec: "
            f"weak: {{{tally.number}: reason}}"
        )
    if reason is not None and (tally.listed or tally.required >= LEAST) and not tally.is_weak:
        raise WeakLaw(f"{where} is not weak: {tally}, and its spec says that it is: {reason}")


def different_calls(op: OpDef) -> float:
    """Counts the different calls of an op without inputs whose parameters are from closed lists; infinity for other ops."""
    if op.inputs:
        return math.inf
    choices = [len(p.members) if p.members else 2 if p.kind == "bool" else math.inf for p in op.params]
    return math.prod([*choices, *(len(allowed) for allowed in op.dtypes.values())])
