"""Writes the page on index safety: how the indices of each op are kept in bounds, totals, and indices that are not proved.

In: the analysis and the verdicts. Out: the text of docs/index-safety.md, numbers included.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.bounds.check_op import How
from anyshape_gen.bounds.store import Rest, Safety, place
from anyshape_gen.model.accesses import accesses
from anyshape_gen.model.analysis import Analysis

COLUMNS = (How.STRUCTURAL, How.LINEAR, How.CASES, How.CHECKED, How.UNKNOWN)
OF_DATA = "the value was read from a tensor"
HEAD = """# Index safety

Every index of every read and store of every kernel is proved in bounds when the package is generated, for all ranks and all shapes that
satisfy the op's asserts; or it is tested when the kernel runs, and out of range is a `ShapeError`. This page is generated with the package;
`make check` proves it all again. How the proofs go is in [index-proofs.md](index-proofs.md), which of them a second solver has judged, too;
for one exported model its certificate says the same of every kernel ([export.md](export.md#the-certificate)).

**Proofs are over unbounded integers.** The following closes the gap to the 64 bits of a kernel.

- Dims, the sizes that a kernel takes and the bytes of every tensor in memory are computed in checked 64-bit arithmetic before the kernel
  runs; where one does not fit, the call ends with an `OverflowedError`. An exported model's `NAME_check` refuses such sizes.
- Sums, differences and products in a kernel are computed modulo 2^64, and may overflow on the way: an index that is proved below its dim
  fits 64 bits, so it is its own remainder.
- Operands of `//`, `%`, `min`, `max` and comparisons in an index have to fit themselves, or the index has to be in bounds whatever they
  are. That is judged for each index of the exported ops; a read under a condition is besides compared with its dims.

| how | indices | |
|---|---|---|
"""
MEANING = {
    How.STRUCTURAL: "a variable of the dim it indexes, or decided by the bounds of one symbol",
    How.LINEAR: "a linear combination of facts",
    How.CASES: "several cases, or products of facts",
    How.CHECKED: "data: tested when the kernel runs",
    How.UNKNOWN: "decided by shapes, but not proved: tested when the kernel runs",
}


def page(analysis: Analysis, verdicts: Mapping[str, Safety]) -> str:
    totals = {how: sum(s.counts.get(how, 0) for s in verdicts.values()) for how in COLUMNS}
    affine = sum(s.affine for s in verdicts.values())
    proved = sum(s.proved for s in verdicts.values())
    out = [HEAD + "\n".join(f"| {how.value} | {totals[how]} | {MEANING[how]} |" for how in COLUMNS)]
    share = 100 * proved / affine if affine else 100
    out.append(
        f"\nOf {affine} indices that shapes and parameters decide, {proved} are proved: {share:.1f} %. "
        f"{len(verdicts)} ops have equations; {sum(a.procedure is not None for a in analysis.ops)} have steps, which test every index but "
        f"that of a loop's own range; the others are views or made of other ops, and index nothing.\n"
    )
    out += ["## What is tested when it runs\n", "| op | where | index | why |", "|---|---|---|---|"]
    for a in sorted(analysis.ops, key=lambda a: a.spec.name):
        if a.kernel is not None and a.spec.name in verdicts and verdicts[a.spec.name].rest:
            places = accesses(a.kernel)
            for r in _distinct(verdicts[a.spec.name].rest):
                what = f"`{r.tensor}[{r.index}]`" + (", written" if r.store else "")
                at = place(places, r).rsplit(":", 1)[0]
                out.append(f"| {a.spec.name} | {at} | {what.replace('|', '∣')} | {_reason(r)} |")
    out += ["\n## By op\n", f"| op | {' | '.join(how.value for how in COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    for name in sorted(verdicts):
        counts = verdicts[name].counts
        out.append(f"| {name} | {' | '.join(str(counts.get(how, '')) for how in COLUMNS)} |")
    return "\n".join(out) + "\n"


def _reason(r: Rest) -> str:
    return OF_DATA if r.how == How.CHECKED else f"not proved: {r.why}"


def _distinct(rest: tuple[Rest, ...]) -> list[Rest]:
    return list(dict.fromkeys(rest))
