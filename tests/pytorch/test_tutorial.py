"""docs/tutorials/pytorch.md runs, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

from tests.docs.tutorial_pages import run_page

PAGE = Path(__file__).parents[2] / "docs/tutorials/pytorch.md"


def test_the_tutorial(tmp_path: Path) -> None:
    assert [str(m) for m in run_page(PAGE.read_text(), tmp_path, str(PAGE))] == []


def test_a_wrong_gradient_on_the_page_is_noticed(tmp_path: Path) -> None:
    page = PAGE.read_text().replace("[-0.0575, ", "[0.0575, ")
    (mismatch,) = run_page(page, tmp_path)
    assert mismatch.printed == "0.7268 [-0.0575, -0.1399, 0.1974]\n"
