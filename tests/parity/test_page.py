"""docs/parity.md names tests that exist: file, function and parameter; and ops it calls missing are said to be there once they are."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from anyshape.graph.registry import all_ops

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [c.strip() for c in line.strip("| \n").split(" | ")]
    for line in (ROOT / "docs" / "parity.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| item |")
]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[(.+?)\])?`")
MISSING = re.compile(r"missing: ((?:`\w+`(?:, )?)+)")


def test_all_items_are_there() -> None:
    assert len(ROWS) == 65 + 18 + 11 + 18 + 13
    assert len({row[0] for row in ROWS}) > 90


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_tests_that_exist(row: list[str]) -> None:
    here = row[2]
    named = TEST.findall(here)
    assert named or MISSING.search(here) or "no meaning here: " in here, here
    for path, function, parameter in named:
        text = (ROOT / path).read_text()
        assert f"def {function}(" in text, f"{path} has no {function}"
        for piece in filter(
            None, parameter.split("-") if parameter.startswith(("native-", "python-")) else [parameter]
        ):
            assert f'"{piece}"' in text or re.search(rf"[\[, ]{re.escape(piece)}[\], ]", text), (
                f"{path} has no parameter {piece}"
            )


def test_missing_ops_are_missing() -> None:
    names = {o.name for o in all_ops().values()}
    for row in ROWS:
        for listed in MISSING.findall(row[2]):
            arrived = sorted(names & set(re.findall(r"\w+", listed)))
            if arrived:
                warnings.warn(
                    f"{', '.join(arrived)} has come: give the row {row[0]!r} of docs/parity.md its test", stacklevel=1
                )
