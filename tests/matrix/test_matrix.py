"""The laws notice what is wrong: some cells of the matrix, and in `make test-long` all of them. A law that notices nothing is found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from anyshape_testing.calls.packages import register
from anyshape_testing.laws import agreement, executors
from anyshape_testing.matrix.cells import Cell, cells, tried
from anyshape_testing.matrix.forms import classes, forms, known_open
from anyshape_testing.matrix.page import named, written
from anyshape_testing.matrix.running import sample
from anyshape_testing.matrix.table import LAWS
from anyshape_testing.process.profile import load_profile, usual
from anyshape_testing.rewrites import comparison

ROOT = Path(__file__).parents[2]
PARTS = 6
"""Number of parts in which the sample is shared by processes"""


@pytest.fixture(autouse=True)
def usual_calls() -> Iterator[None]:
    yield
    load_profile(usual())


@cache
def every() -> tuple[Cell, ...]:
    register("anyshape_ops")
    return tuple(cells())


@pytest.mark.parametrize("part", range(PARTS))
def test_some_cells(part: int) -> None:
    tried_findings = [f for cell in sample(every())[part::PARTS] for f in tried(cell)]
    assert not [str(f) for f in tried_findings if str(f.cell) not in known_open()]


def test_the_sample_has_every_law_form_and_class() -> None:
    chosen = sample(every())
    assert {c.law for c in chosen} == set(LAWS)
    assert {c.form for c in chosen} == set(forms())
    assert {c.dtypes for c in chosen} == set(classes())


def test_no_cell_is_missing_without_a_reason() -> None:
    """There is an op of every kind and class of dtypes, and laws that speak of all ops have a cell there, or say why not."""
    by_kind = Counter((c.kind, c.dtypes, c.law) for c in every())
    assert len(every()) >= 300
    of_all = ["1a", "1b", "2", "3a", "7a", "examples"]
    for form in forms().values():
        silent = {law for other in forms().values() if other.kind == form.kind for law in other.silent}
        said = [e for other in forms().values() if other.kind == form.kind for e in other.edits]
        missing = [
            (dtypes, law)
            for dtypes in named()
            for law in of_all
            if law not in silent
            and not any(dtypes in other.without for other in forms().values() if other.kind == form.kind)
            and not by_kind[form.kind, dtypes, law]
            and not any(dtypes in e.not_of for e in said if e.group in LAWS[law].notices)
        ]
        assert not missing, f"{form.kind}: {missing}"


def test_the_page_is_what_the_cells_say() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    assert page == written(page, every(), known_open()), "python -m anyshape_testing.matrix --write"


def test_what_is_known_to_be_open_are_cells() -> None:
    assert set(known_open()) <= set(map(str, every()))


# --- laws that notice nothing, one of each sort


def findings(cell: Cell) -> list[str]:
    return [f"{f.edit}: {f.why}" for f in tried(cell)]


def test_a_law_that_compares_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("reversal", "signed", "1a")
    assert findings(cell) == []
    monkeypatch.setattr(agreement, "same_as_reference", lambda *_: None)
    assert "values, not at all: is not noticed" in findings(cell)
    assert "reference, last element of the last output: is not noticed" in findings(cell)


def test_a_law_whose_sides_are_one_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("reversal", "bool", "7b")
    assert findings(cell) == []
    monkeypatch.setattr(executors, "one_part_is_many", lambda *_: True)
    assert "values, last row only: is not noticed" in findings(cell)


def test_a_law_that_breaks_is_no_law_that_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("what the law calls is not there")

    monkeypatch.setattr(comparison, "compare", broken)
    said = findings(Cell("reversal", "f32 f64", "5"))
    assert ": does not hold: TypeError: what the law calls is not there" in said
    assert "rewrites, a call lost: raises no AssertionError: TypeError: what the law calls is not there" in said


def test_a_law_that_speaks_of_no_call_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "agree", lambda *_: False)
    said = findings(Cell("reversal", "unsigned", "3a"))
    assert any(f.startswith(": does not hold: WeakLaw") and "weak: 0 calls" in f for f in said)
