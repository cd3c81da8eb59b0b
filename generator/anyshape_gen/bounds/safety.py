"""The proof of all kernels, as a step of the generator.

In: the analysis, and the verdicts kept from before. Out: the analysis in which reads that nothing proved are marked to carry a check, the
verdicts, and a finding for every access that leaves its tensor, with shapes at which it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from anyshape_gen.analysis_model import Analysis, OpAnalysis
from anyshape_gen.bounds.counterexample import counterexample
from anyshape_gen.bounds.store import Safety, key_of, safety
from anyshape_gen.memo import Memo
from anyshape_gen.source import Findings


def prove_indices(
    analysis: Analysis, kept: Mapping[str, Safety], findings: Findings, memo: Memo
) -> tuple[Analysis, dict[str, Safety]]:
    """Verdicts on all ops; what has not changed since they were kept is not proved again."""
    found: dict[str, Safety] = {}
    ops = []
    for a in analysis.ops:
        if a.kernel is None:
            ops.append(a)
            continue
        key, known = memo.get(a.file, "proof", (a,), partial(key_of, a)), kept.get(a.spec.name)
        if known is None or known.key != key:
            known = safety(a, key)
            _refute(a, known, findings)
        found[a.spec.name] = known
        ops.append(_marked(a, known.unproved, memo))
    return replace(analysis, ops=tuple(ops)), found


def _marked(a: OpAnalysis, unproved: frozenset[int], memo: Memo) -> OpAnalysis:
    if a.unproved == unproved:
        return a
    return memo.get(a.file, ("unproved", unproved), (a,), lambda: replace(a, unproved=unproved))


def _refute(a: OpAnalysis, safe: Safety, findings: Findings) -> None:
    """What is neither proved nor data may be wrong."""
    if not safe.unproved or a.kernel is None:
        return
    witness = counterexample(a, safe.unproved)
    if witness is not None:
        o = witness.obligation
        what = f"this {'place' if o.store else 'read'} of '{o.tensor}' is out of bounds for {{{witness.call}}}"
        findings.add(o.span, f"{what}: {witness.found}")
