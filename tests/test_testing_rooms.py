"""The rooms of `anyshape_testing` are described: each module in the contract of its room, at the head of its `__init__.py`,
and each room in docs/testing.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "testing/anyshape_testing"
PAGE = (PACKAGE.parents[1] / "docs/testing.md").read_text()
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def contract(room: Path) -> str:
    return ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""


def lines_of(text: str) -> set[str]:
    """The names that have a line: a name, two spaces or more, and words."""
    return set(re.findall(r"^ *(\w+)  +\S", text, re.MULTILINE))


def modules_of(room: Path) -> set[str]:
    return {path.stem for path in room.glob("*.py")} - {"__init__", "__main__"}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_contract_has_a_line_for_each_module(room: Path) -> None:
    assert lines_of(contract(room)) == modules_of(room)


def test_the_package_has_a_line_for_each_room() -> None:
    assert lines_of(contract(PACKAGE)) == {room.name for room in ROOMS}


def in_table(page: str) -> set[str]:
    """The rooms in the table of the page."""
    return set(re.findall(r"^\|.*\| `(\w+)/` \|$", page, re.MULTILINE))


def test_the_page_has_a_row_for_each_room() -> None:
    assert in_table(PAGE) == {room.name for room in ROOMS}
    assert in_table(PAGE) - in_table(PAGE.replace("| `draw/` |", "| `drawing.py` |")) == {"draw"}


def test_a_module_without_a_line_is_found() -> None:
    text = contract(PACKAGE / "draw")
    assert modules_of(PACKAGE / "draw") - lines_of(text.replace("corpus  ", "corpora  ")) == {"corpus"}
