"""Checks that a spelling of Python means one op for Values of any one dtype.

In: all analysed ops. Out: findings; for the emitter, the ops that each method calls, with the dtypes that choose among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec, Spelling

Case = tuple[OpSpec, Spelling]


def cases_of(ops: Sequence[OpAnalysis]) -> dict[str, list[Case]]:
    """The ops that each method calls."""
    cases: dict[str, list[Case]] = {}
    for a in ops:
        for s in a.spec.python:
            cases.setdefault(s.method, []).append((a.spec, s))
    return dict(sorted(cases.items()))


def dtypes_of(spec: OpSpec, s: Spelling) -> tuple[str, ...]:
    """The dtypes of Values for which a spelling means the op; none: all that the op takes."""
    var = next(o.signature.dtype for o in spec.inputs if o.name == s.arguments[0].of)
    allowed: dict[str, tuple[str, ...]] = {d.var: d.choices for d in spec.dtypes}
    return dict(s.dtypes).get(var, allowed.get(var, (var,)))


def check_spellings(ops: Sequence[OpAnalysis], findings: Findings) -> None:
    """Checks that each spelling means one op for Values of any one dtype."""
    for method, cases in cases_of(ops).items():
        for k, (spec, s) in enumerate(cases):
            for other, _ in (c for c in cases[:k] if set(dtypes_of(*c)) & set(dtypes_of(spec, s))):
                findings.add(
                    s.span,
                    f"{method} of such a Value is '{other.name}' already, at {other.span}",
                )
