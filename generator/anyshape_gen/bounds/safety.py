"""Proves the indices of all kernels, as a step of the generator.

In: the analysis, and stored verdicts. Out: the analysis in which reads that are not proved are marked to be checked at run time, the
verdicts, and a finding for every access that can be out of bounds, with shapes at which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from anyshape_gen.bounds.counterexample import counterexample
from anyshape_gen.bounds.parallel import safeties
from anyshape_gen.bounds.store import Safety, key_of
from anyshape_gen.memo import Memo
from anyshape_gen.model.analysis import Analysis, OpAnalysis
from anyshape_gen.model.source import Findings


def prove_indices(
    analysis: Analysis, kept: Mapping[str, Safety], findings: Findings, memo: Memo, processes: int = 1
) -> tuple[Analysis, dict[str, Safety]]:
    """Proves all ops; one whose stored verdicts are still valid is not proved again."""
    keys = {
        a.spec.name: memo.get(a.file, "proof", (a,), partial(key_of, a)) for a in analysis.ops if a.kernel is not None
    }
    verdicts = {op: known for op, key in keys.items() if (known := kept.get(op)) is not None and known.key == key}
    anew = [a for a in analysis.ops if a.spec.name in keys and a.spec.name not in verdicts]
    for a, safe in zip(anew, safeties([(a, keys[a.spec.name]) for a in anew], processes), strict=True):
        verdicts[a.spec.name] = safe
        _refute(a, safe, findings)
    ops = tuple(_marked(a, verdicts[a.spec.name], memo) if a.spec.name in keys else a for a in analysis.ops)
    return replace(analysis, ops=ops), verdicts


def _marked(a: OpAnalysis, safe: Safety, memo: Memo) -> OpAnalysis:
    if (a.unproved, a.lazy) == (safe.unproved, safe.lazy):
        return a
    key = ("unproved", safe.unproved, safe.lazy)
    return memo.get(a.file, key, (a,), lambda: replace(a, unproved=safe.unproved, lazy=safe.lazy))


def _refute(a: OpAnalysis, safe: Safety, findings: Findings) -> None:
    """Searches for a counterexample to the indices that are neither proved nor data."""
    if not safe.unproved or a.kernel is None:
        return
    witness = counterexample(a, safe.unproved)
    if witness is not None:
        o = witness.obligation
        what = f"this {'store' if o.store else 'read'} of '{o.tensor}' is out of bounds for {{{witness.call}}}"
        findings.add(o.span, f"{what}: {witness.index}")
