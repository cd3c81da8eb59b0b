"""Measuring some figures of a file anew, with all others kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.kept import with_kept

ORDER = ["a", "b", "c"]


def rows(**figures: int) -> list[dict[str, Any]]:
    return [{"model": m, "figure": f, "threads": 1} for m, f in figures.items()]


def merged(path: Path, anew: Sequence[dict[str, Any]], threads: int = 1) -> list[tuple[str, int]]:
    return [(r["model"], r["figure"]) for r in with_kept(path, anew, lambda r: r["model"], ORDER, threads)]


def test_what_is_measured_anew_replaces_its_row_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(rows(c=3, a=1)))
    assert merged(path, rows(b=20, a=10)) == [("a", 10), ("b", 20), ("c", 3)]


def test_what_nothing_names_any_more_goes(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(rows(gone=1, b=2)))
    assert merged(path, []) == [("b", 2)]


def test_figures_of_other_threads_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps([{"model": "a", "figure": 1, "threads": 2}]))
    assert merged(path, rows(b=2)) == [("b", 2)]


def test_without_a_file_there_is_nothing_to_keep(tmp_path: Path) -> None:
    assert merged(tmp_path / "none.json", rows(c=3)) == [("c", 3)]
