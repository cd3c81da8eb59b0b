"""`and`, `or` in kernels are lazy where what is read on their right is in bounds only by what stands on their left, and nowhere else."""

from __future__ import annotations

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.bounds.safety import prove_indices
from anyshape_gen.emit.package import emit_package
from anyshape_gen.memo import Memo
from anyshape_gen.model.source import Findings

SPEC = """
ops:
  an_op:
    inputs: {{x: "i64[n]", at: "i64[m]"}}
    outputs: {{y: "bool[m]"}}
    kernel: "y[j] = {value}"
    examples:
      - {{x: [2], at: [3], y: [3]}}
"""


def kernel_of(value: str) -> tuple[str, Findings]:
    """The kernel's text, and what the prover found."""
    findings = Findings()
    analysis, _ = prove_indices(
        analyse({"specs/m.yaml": SPEC.format(value=value)}, complete=False), {}, findings, Memo()
    )
    text = emit_package(analysis, "p", Findings())["p/kernels/m.py"]
    return text.partition("def an_op_kernel")[2], findings


@pytest.mark.parametrize(
    "value",
    [
        "j >= n or x[j] > at[j]",
        "j < n and x[j] > at[j]",
        "not (j < n and x[j] > at[j])",
        "0 <= at[j] and at[j] < n and x[at[j]] > 0",
        "at[j] < 0 or at[j] >= n or x[at[j]] > 0",
        "any(k < n and x[k] > at[j] for k in m)",
        "any(x[k] > at[j] for k in m if k < n if x[k] > 0)",
        "at[j] > 0 and (j >= n or x[j] > 0)",
    ],
)
def test_what_the_left_side_guards_is_evaluated_lazily(value: str) -> None:
    text, findings = kernel_of(value)
    assert "where(" in text and "checked(" not in text and not findings.items


@pytest.mark.parametrize(
    "value", ["at[j] > 0 or at[j] < n", "n > 0 and at[j] > 0", "any(x[k] > at[j] or k > 2 for k in n)"]
)
def test_what_is_in_bounds_anyway_is_not(value: str) -> None:
    text, findings = kernel_of(value)
    assert "where(" not in text and not findings.items


@pytest.mark.parametrize(
    "value", ["x[j] > 0 or j >= n", "j < n or x[j] > 0", "j >= n and x[j] > 0", "j <= n and x[j] > 0"]
)
def test_what_the_left_side_does_not_guard_is_refuted(value: str) -> None:
    _, findings = kernel_of(value)
    assert ["out of bounds" in f.text for f in findings.items] == [True]
