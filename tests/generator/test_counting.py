"""Procedures whose results have more room than their operands have elements: their sizes are counted first, and the others' are not."""

from __future__ import annotations

import pytest

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse
from anyshape_gen.emit.package import emit_package
from anyshape_gen.model.source import Findings

SPEC = """
ops:
  kept:
    summary: Elements.
    inputs: {{x: "i64[n, m]"}}
    outputs: {{y: "i64[{shape}]"}}
    shape: k = unbacked(0, {most})
    procedure: |
      k = 0
      for i in n:
          if m > 0:
              y[{place}] = x[i, 0]
          {step}
          k += 1
    reference: x
    examples: [{{x: [0, 0], y: [0, 0]}}]
"""


def emitted(shape: str, most: str, place: str, step: str = "k += 0") -> str:
    """All that is written for the op. Raises SpecError for what has no code."""
    spec = SPEC.format(shape=shape, most=most, place=place, step=step)
    findings = Findings({"specs/counted.yaml": spec.splitlines()})
    files = emit_package(analyse({"specs/counted.yaml": spec}), "counted_ops", findings)
    findings.raise_if_any()
    return str(files)


@pytest.mark.parametrize(
    ("shape", "most", "place"), [("k, m", "n", "k, 0"), ("k", "n * m", "k"), ("k, 2", "n", "k, 0")]
)
def test_room_for_the_upper_bound(shape: str, most: str, place: str) -> None:
    assert "counted=True" not in emitted(shape, most, place)


@pytest.mark.parametrize(
    ("shape", "most", "place"), [("k, n", "n", "k, 0"), ("k", "n * n", "k"), ("k, m", "n + m", "k, 0")]
)
def test_counted_where_a_dim_stands_twice(shape: str, most: str, place: str) -> None:
    assert "counted=True" in emitted(shape, most, place)


def test_a_result_that_is_counted_is_not_read() -> None:
    with pytest.raises(SpecError, match=r"counted\.yaml:13:.*(\n.*)*reading 'y', whose sizes are counted first"):
        emitted("k", "n * n", "k", "k += y[0]")
    assert emitted("k", "n", "k", "k += y[0]")
