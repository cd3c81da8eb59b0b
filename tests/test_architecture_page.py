"""docs/architecture.md: the files that its table of questions names are there, and have the functions and classes that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BASES = (ROOT / "runtime/anyshape", ROOT / "generator/anyshape_gen", ROOT, ROOT / "runtime/anyshape/frontends/torch")
ROWS = [line for line in (ROOT / "docs/architecture.md").read_text().splitlines() if re.match(r"\| \w.*\?", line)]
NO_NAMES = {"ops.require", "onnx:", "aten:", "torch.export", "torch.compile", "n.attr", "p=attr"}
"""Texts in the style of code that are no names of the run time: keys of specs, functions of users and of torch"""


def absent(row: str) -> list[str]:
    """Returns files of a row that are not there, and names that no file of the row has."""
    marked = re.findall(r"`([^`]+)`", row)
    files = [m for m in marked if re.fullmatch(r"[\w/]+\.(py|c|md)|[\w/]+/", m)]
    folders = [base / f for f in files if f.endswith("/") for base in BASES if (base / f).is_dir()]
    places = {f: [p for base in (*BASES, *folders) if (p := base / f).exists()] for f in files}
    texts = [p.read_text() for ps in places.values() for p in ps[:1] if p.is_file()]
    names = [m for m in marked if re.fullmatch(r"[A-Za-z_][\w.]*", m) and m not in NO_NAMES and m not in files]
    lost = [n for n in names if texts and not any(re.search(rf"\b{n.rpartition('.')[2]}\b", text) for text in texts)]
    return [f for f, ps in places.items() if not ps] + lost


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_what_a_row_names_is_there(row: str) -> None:
    assert absent(row) == []


def test_what_is_not_there_is_noticed() -> None:
    assert len(ROWS) > 20
    assert absent("| where is it? | `run_nothing` of `graph/function.py`, `graph/no_such_file.py` |") == [
        "graph/no_such_file.py",
        "run_nothing",
    ]
    assert absent("| where is it? | `Function.place_of` of `graph/function.py`, `vm/run/` |") == []
