"""Measures this checkout beside another one, in turns: the code of each is what is measured, and figures come out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.turns import chosen, scatter
from tests.resident import HANGS

ROOT = Path(__file__).parents[2]
CASE = "transpose 64x300x10"
SLEEPER = """\
import time

class Sleeper:
    def run(self, inputs):
        time.sleep(0.02)
        return list(inputs.values())

def compile(model, threads):
    return Sleeper()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped in between")


def turns(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.turns", *words, "--seconds", "0.02", "--turn", "0.002"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=False)


def figures(other: Path, tmp_path: Path, *words: str) -> tuple[list[dict[str, Any]], str]:
    done = turns(str(other), *words, "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "out.json").read_text()), done.stdout


def test_a_checkout_beside_itself_computes_the_same(tmp_path: Path) -> None:
    rows, shown = figures(ROOT, tmp_path, CASE, "shape_heavy@5x100")
    assert [row["name"] for row in rows] == [f"{CASE} by 021", "shape_heavy 5x100"]
    for row in rows:
        assert len(row["here"]) == len(row["other"]) >= 5
        assert min(*row["here"], *row["other"]) > 0
        assert row["difference"] == 0
        assert row["name"] in shown


def test_it_is_the_other_checkouts_code_that_runs_there(tmp_path: Path) -> None:
    """One whose calls sleep, and give what they are given."""
    code = tmp_path / "other" / "runtime" / "anyshape" / "__init__.py"
    code.parent.mkdir(parents=True)
    code.write_text(SLEEPER)
    (tmp_path / "other" / "generated").mkdir()
    ((row,), shown) = figures(tmp_path / "other", tmp_path, "mlp@1x1")
    assert min(row["other"]) >= 0.02 > min(row["here"])
    assert row["difference"] > 0
    assert "results differ" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((".", "mlp@33"), "'33' is no shape of a model"),
        (("docs", "mlp"), "docs is no checkout of this repository: there is no runtime and no generated"),
    ],
)
def test_what_is_not_there_is_reported(words: tuple[str, ...], message: str) -> None:
    done = turns(*words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_word_that_names_nothing_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.turns.cases", list)
    with pytest.raises(ValueError, match=r"'transposed' is no model \(bert_mini, "):
        chosen(["transposed"], tmp_path)


def test_quartiles() -> None:
    assert scatter([4.0, 1.0, 2.0, 3.0, 5.0], ".1f") == "3.0 [2.0 to 4.0]"
