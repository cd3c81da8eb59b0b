"""docs/hostile-input.md names tests that exist, for every kind of input that it lists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [c.strip() for c in line.strip("| \n").split(" | ")]
    for line in (ROOT / "docs" / "hostile-input.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| input |")
]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_tests_that_exist(row: list[str]) -> None:
    what, said = row
    named = TEST.findall(said)
    assert named and said.count("`") == 2 * len(named), what
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, f"{path}::{name}"
