"""Warnings about specs: what a spec should have besides what it must have. A warning never fails the command.

In: the analysis of all specs. Out: a finding for each warning, with its place, the op and what to write.
"""

from __future__ import annotations

from anyshape_gen.model.analysis import Analysis
from anyshape_gen.model.source import Finding
from anyshape_gen.model.spec import OpSpec


def advice(analysis: Analysis) -> list[Finding]:
    """Lists a warning for each op without an example of its output's values, in the order of the specs."""
    return [_values_missing(a.spec) for a in analysis.ops if not shows_values(a.spec) and "random" not in a.spec.traits]


def shows_values(spec: OpSpec) -> bool:
    """Whether some example has the values of an output, and not only its shape."""
    return any(value.literal for e in spec.examples if e.error is None for _, value in e.expected)


def _values_missing(spec: OpSpec) -> Finding:
    inputs = [o.name for o in spec.inputs]
    literals = ", ".join(f"{name}: {{value: …}}" for name in (*inputs, spec.outputs[0].name))
    return Finding(
        spec.span,
        f"no example of op '{spec.name}' has values: the kernel is only compared with the reference, "
        f"and an error in both is not detected; add an example such as `- {{{literals}}}`, worked out by hand",
    )
