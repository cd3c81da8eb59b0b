"""The docstring of each room of the generator lists the modules of the room, each in one line, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "generator/anyshape_gen"
OF_PYTHON = {"__init__", "__main__"}


def misnamed(docstring: str, modules: Iterable[str]) -> set[str]:
    """The modules that a docstring does not list, or lists twice, and the names that it lists and that are none."""
    listed = re.findall(r"^(\w+)  +\S", docstring, re.MULTILINE)
    return set(listed) ^ set(modules) | {name for name in listed if listed.count(name) > 1}


@pytest.mark.parametrize("package", sorted(p.parent for p in PACKAGE.rglob("__init__.py")), ids=lambda p: str(p.name))
def test_a_room_lists_its_modules(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    modules = {p.stem for p in package.glob("*.py")} - OF_PYTHON
    assert docstring is not None and misnamed(docstring, modules) == set()


@pytest.mark.parametrize(
    ("docstring", "wrong"),
    [
        ("Parses.\n\ntext  texts\nrules     `shape:`", set()),
        ("Parses.\n\ntext  texts", {"rules"}),
        ("Parses.\n\ntext  texts\nrules  `shape:`\nkeys   keys", {"keys"}),
        ("Parses.\n\ntext   texts\nrules  `shape:`\ntext   texts", {"text"}),
        ("Parses text and\nrules of it.\n\ntext  texts", {"rules"}),
    ],
)
def test_a_module_without_a_line_is_noticed(docstring: str, wrong: set[str]) -> None:
    assert misnamed(docstring, ["text", "rules"]) == wrong
