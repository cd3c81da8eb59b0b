"""The table of ops: lines that are counted, and columns from stored records, which may be missing or damaged."""

from __future__ import annotations

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.emit.pages.docs import pages
from anyshape_gen.emit.pages.reports import reports

SPEC = """ops:
  tried:
    summary: One more than x.
    inputs: {x: "F[*d]"}
    # a comment is no line

    outputs: {y: "F[*d]"}
    kernel: "y[*i] = x[*i] + 1"
    reference: x + 1
    examples:
      - {x: [2, 3], y: [2, 3]}

  other:
    summary: The elements that are not zero.
    inputs: {x: "F[n]"}
    outputs: {y: "F[k]"}
    kernel: |
      k = count(x[i] != 0 for i in n)
      y[:] = [x[i] for i in n if x[i] != 0]
    reference: x[x != 0]
    examples:
      - {x: {value: [0, 1]}, y: {value: [1]}}
"""


def row(op: str, **records: str | None) -> list[str]:
    records_read = reports(records.get("index_safety"), records.get("mutation"))
    table = pages(analyse({"specs/mine.yaml": SPEC}), {"specs/mine.yaml": SPEC}, records_read)["index.md"]
    (line,) = (line for line in table.splitlines() if line.startswith(f"| [{op}]"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_what_the_spec_says() -> None:
    assert row("tried")[2:] == ["plain", "shapes", "", "float", "8", "1", "", ""]
    assert row("other")[2:] == ["plain", "data", "", "float", "10", "2", "", ""]


def test_what_records_say() -> None:
    proved = '{"prover": "x", "ops": {"tried": {"total": 2, "proved": 2}}}'
    killed = '{"ops": {"tried": {"mutants": 8, "killed": 7, "seen": "x"}}}'
    assert row("tried", index_safety=proved, mutation=killed)[-2:] == ["2 of 2", "7 of 8"]
    assert row("other", index_safety=proved, mutation=killed)[-2:] == ["", ""]


def test_an_op_without_mutants_has_an_empty_cell() -> None:
    assert row("tried", mutation='{"ops": {"tried": {"mutants": 0, "killed": 0}}}')[-1] == ""


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"ops": {"tried": {}}}', '{"ops": {"tried": {"total": "2", "proved": 2}}}']
)
def test_a_damaged_record_is_none(text: str | None) -> None:
    assert row("tried", index_safety=text, mutation=text)[-2:] == ["", ""]
