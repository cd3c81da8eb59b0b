"""docs/parity.md names tests that exist: file, function and parameter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [c.strip() for c in line.strip("| \n").split(" | ")]
    for line in (ROOT / "docs" / "parity.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| item |")
]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[(.+?)\])?`")


def test_all_items_are_there() -> None:
    assert len(ROWS) == 65 + 18 + 11 + 18 + 19
    assert len({row[0] for row in ROWS}) > 90


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_tests_that_exist(row: list[str]) -> None:
    here = row[2]
    named = TEST.findall(here)
    assert named or "does not apply: " in here, here
    for path, function, parameter in named:
        text = (ROOT / path).read_text()
        assert f"def {function}(" in text, f"{path} has no {function}"
        for piece in filter(
            None, parameter.rsplit("-", 1) if parameter.endswith(("-native", "-python")) else [parameter]
        ):
            assert f'"{piece}"' in text or re.search(rf"[\[, ]{re.escape(piece)}[\], ]", text), (
                f"{path} has no parameter {piece}"
            )
