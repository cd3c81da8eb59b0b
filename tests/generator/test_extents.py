"""Sizes of loops that may be negative go over a range: `rising` of docs/spec-language.md runs some."""

from __future__ import annotations

import pytest

from anyshape_gen.model.nodes import Generator
from anyshape_gen.model.source import Findings
from anyshape_gen.model.traverse import walk
from anyshape_gen.parse.load import load_file
from anyshape_gen.resolve.extents import may_be_negative

SPEC = """
ops:
  mine:
    summary: The sum of so many elements.
    inputs: {x: "F[n]", w: "F[*d]"}
    params: {less: int, more: int, taken: int, some: int}
    outputs: {y: "F[]"}
    shape: |
      assert 0 <= less and more > -1 and taken >= -2, "sizes"
      assert 1 <= some <= 9, "some"
      rest = n - less
      both = min(n, more)
      room = taken if taken > 0 else max(n, 3)
      a, b = [n, n - 1]
      chosen = n + 1 if more > 0 else 2 * n
    kernel: "y[()] = sum(x[k] for k in SIZE)"
    reference: x.sum()
"""


@pytest.mark.parametrize("size, negative", [
    ("n", False), ("n + 1", False), ("2 * n", False), ("n // 2", False), ("less", False), ("some", False), ("both", True),
    ("room", False), ("chosen", False), ("min(n, less)", False), ("max(n - 1, 0)", False), ("prod(d)", False), ("3", False),
    ("n - 1", True), ("more", True), ("taken", True), ("rest", True), ("a", True), ("min(n, taken)", True), ("n * -1", True),
    ("(n - 1) * 2", True), ("(n if n > 0 else taken)", True), ("(taken if 0 < taken else 1)", False),
])  # fmt: skip
def test_sizes_that_may_be_negative(size: str, negative: bool) -> None:
    findings = Findings()
    file = load_file("mine.yaml", SPEC.replace("SIZE", size), findings, {})
    findings.raise_if_any()
    (op,) = file.ops
    assert op.kernel is not None
    (generator,) = (n for n in walk(op.kernel) if isinstance(n, Generator))
    assert may_be_negative(generator.domain, op) is negative
