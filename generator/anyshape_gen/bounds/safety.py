"""The proof of all kernels, as a step of the generator.

In: the analysis, and the verdicts kept from before. Out: the analysis in which reads that nothing proved are marked to carry a check, the
verdicts, and a finding for every access that leaves its tensor, with shapes at which it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from anyshape_gen.analysis_model import Analysis, OpAnalysis
from anyshape_gen.bounds.beside import safeties
from anyshape_gen.bounds.counterexample import counterexample
from anyshape_gen.bounds.store import Safety, key_of
from anyshape_gen.memo import Memo
from anyshape_gen.source import Findings


def prove_indices(
    analysis: Analysis, kept: Mapping[str, Safety], findings: Findings, memo: Memo, processes: int = 1
) -> tuple[Analysis, dict[str, Safety]]:
    """Verdicts on all ops; what has not changed since they were kept is not proved again."""
    keys = {
        a.spec.name: memo.get(a.file, "proof", (a,), partial(key_of, a)) for a in analysis.ops if a.kernel is not None
    }
    verdicts = {op: known for op, key in keys.items() if (known := kept.get(op)) is not None and known.key == key}
    anew = [a for a in analysis.ops if a.spec.name in keys and a.spec.name not in verdicts]
    for a, safe in zip(anew, safeties([(a, keys[a.spec.name]) for a in anew], processes), strict=True):
        verdicts[a.spec.name] = safe
        _refute(a, safe, findings)
    ops = tuple(_marked(a, verdicts[a.spec.name].unproved, memo) if a.spec.name in keys else a for a in analysis.ops)
    return replace(analysis, ops=ops), verdicts


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
        findings.add(o.span, f"{what}: {witness.index}")
