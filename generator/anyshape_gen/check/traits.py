"""Checks traits that passes read the operands of a call by.

In: an `OpSpec`. Out: findings. `random` is checked with random numbers, in `random.py`.
"""

from __future__ import annotations

from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec


def check_traits(spec: OpSpec, findings: Findings) -> None:
    """Checks that an op with the trait `asserts_dims` is a view of its one input, and that integers, an operand, are its one parameter."""
    if "asserts_dims" not in spec.traits:
        return
    is_view = [v.input for v in spec.view] == [i.name for i in spec.inputs] and len(spec.outputs) == 1
    if not is_view or [(p.kind.base, p.dyn) for p in spec.params] != [("ints", True)]:
        text = (
            f"'{spec.name}' has the trait `asserts_dims`: it must be a view of its only input, and its only parameter the dims, "
            "`{kind: ints, dyn: operand}`"
        )
        findings.add(spec.span, text)
