"""docs/glossary.md: its files are there, and no module, class or function of the run time has a name that it lists as gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNTIME = ROOT / "runtime/anyshape"
PAGE = (ROOT / "docs/glossary.md").read_text()
TERMS, GONE = PAGE.split("## Words that are gone")


def words_that_are_gone() -> list[str]:
    left = [line.split("|")[1] for line in GONE.splitlines() if line.startswith("| `")]
    return [word for cell in left if "(" not in cell for word in re.findall(r"`(\w+)`", cell)]


def names_of(path: Path) -> Iterator[str]:
    """The module's name, and those of its classes and functions."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name


def test_no_word_that_is_gone_names_anything() -> None:
    gone = set(words_that_are_gone())
    assert len(gone) > 10
    found = [f"{p.relative_to(ROOT)}: {n}" for p in sorted(RUNTIME.rglob("*.py")) for n in names_of(p) if n in gone]
    assert not found, found


def test_such_a_name_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "lender.py"
    path.write_text("class Need:\n    def ordinary(self) -> None: ...\n")
    assert set(names_of(path)) & set(words_that_are_gone()) == {"lender", "Need"}


@pytest.mark.parametrize("line", [line for line in TERMS.splitlines() if line.startswith("| ") and "`" in line])
def test_a_term_is_where_the_page_says(line: str) -> None:
    where = line.split("|")[3]
    for name in re.findall(r"`([\w/.]+\.py|[\w/]+/)`", where):
        assert (
            any(RUNTIME.rglob(name.rsplit("/", 1)[-1]))
            if "/" not in name.rstrip("/")
            else any((base / name).exists() for base in (RUNTIME, ROOT))
        ), name
