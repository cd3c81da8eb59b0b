"""`python -m tests.frontends.contrib_table` prints the table of com.microsoft's forms that docs/onnx.md has."""

from __future__ import annotations

import numpy as np

from tests.frontends import contrib_forms, contrib_fused_forms, contrib_small_forms
from tests.frontends.contrib import RNG, SEED
from tests.frontends.contrib_forms import Form

GROUPS = (
    contrib_forms.grouped,
    contrib_forms.many_headed,
    contrib_forms.decoding,
    contrib_forms.fused_attention,
    contrib_small_forms.activations,
    contrib_small_forms.products,
    contrib_small_forms.norms,
    contrib_small_forms.rotations,
    contrib_small_forms.codes,
    contrib_fused_forms.linear_codes,
    contrib_fused_forms.quantised,
    contrib_fused_forms.few_bits,
    contrib_fused_forms.fused,
    contrib_fused_forms.renamed,
    contrib_fused_forms.attention_of_codes,
    contrib_fused_forms.embedded_codes,
)


def forms() -> list[Form]:
    """All of them, of the same numbers at every call."""
    RNG.bit_generator.state = np.random.default_rng(SEED).bit_generator.state
    return [form for group in GROUPS for form in group()]


def table() -> str:
    lines = ["| operator | form | onnxruntime | anyshape | |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {f.op} | {f.text} | {f.theirs} | {f.ours} | {f.why} |" for f in forms())])


if __name__ == "__main__":
    print(table())
